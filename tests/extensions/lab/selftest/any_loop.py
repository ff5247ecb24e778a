"""Any planted train loop, chosen when a run begins: one warm process serves them all."""

import importlib
import json
from pathlib import Path
from typing import Any


def train_loop(config: dict[str, Any]) -> None:
    """Run the loop, with the config, that the file names now."""
    choice = json.loads(Path(config["choice"]).read_text(encoding="utf-8"))
    module, _, function = choice["train_loop"].partition(":")
    getattr(importlib.import_module(module), function)(choice["config"])
