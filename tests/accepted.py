"""Texts as they were last accepted: whole sentences that tests do not repeat.

    ACCEPT_TEXTS=1 pytest tests/check/test_x.py    take today's texts of these tests for right

A folder of tests has them in one file, `accepted_texts.json`, by test.
"""

import json
import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE_NAME = "accepted_texts.json"


def expect_text(text: str | None, name: str = "") -> None:
    """Fail if a text is not the accepted one of the test that runs.

    `name`: which one it is, where a test has several.
    """
    test = os.environ["PYTEST_CURRENT_TEST"].removesuffix(" (call)")
    path, _, test_name = test.partition("::")
    file = ROOT / Path(path).parent / FILE_NAME
    key = f"{Path(path).name}::{test_name}{f' ({name})' if name else ''}"
    texts = load_texts(file)
    assert text is not None
    if os.environ.get("ACCEPT_TEXTS"):
        accepted = json.dumps({**texts, key: text}, indent=1, sort_keys=True, ensure_ascii=False)
        file.write_text(f"{accepted}\n", encoding="utf-8")
        return
    assert text == texts.get(key), f"`ACCEPT_TEXTS=1 pytest {path}` accepts the new text"


def load_texts(file: Path) -> dict[str, str]:
    """Return the accepted texts of a folder, by test; empty without a file."""
    if not file.exists():
        return {}
    texts: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return texts
