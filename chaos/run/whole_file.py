"""Small files that are written whole or not at all, whoever reads them meanwhile."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> Path:
    """Write a file into a folder that is there; gives its path."""
    # By process: two that write the same file must not write the same draft.
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    return draft.replace(path)


def write_fields(path: Path, fields: Mapping[str, Any]) -> None:
    """Write a JSON object, and make its folder where there is none."""
    path.parent.mkdir(exist_ok=True)
    write_text(path, json.dumps(fields))


def read_fields(path: Path) -> dict[str, Any] | None:
    """Read what `write_fields` wrote, None where there is no file."""
    try:
        fields: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return fields
