"""Modules that a job imports are followed, each by all that wait for it."""

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from chaos.probe.import_hooks import call_after_import


def test_all_that_wait_for_a_module_are_called_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_late.py").write_text("VALUE = 1\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    called: list[tuple[str, ModuleType]] = []

    call_after_import({"imported_late"}, lambda module: called.append(("first", module)))
    call_after_import({"imported_late", "json"}, lambda module: called.append(("second", module)))
    assert called == [("second", json)]
    called.clear()
    import imported_late  # type: ignore[import-not-found]  # noqa: PLC0415

    assert called == [("first", imported_late), ("second", imported_late)]
    assert imported_late.VALUE == 1
    del sys.modules["imported_late"]
