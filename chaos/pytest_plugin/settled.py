"""The options that `[tool.chaos]` in pyproject.toml settles, as for the command line."""

import os
import re
from pathlib import Path

import pytest

from chaos.pytest_plugin.keys import Option

REPORTS_ENV = "CHAOS_REPORTS_DIR"  # as for the commands
_KEYS = {"backend": Option.BACKEND, "reports": Option.REPORT, "keep_storage": Option.KEEP_STORAGE}
_TABLE = re.compile(r"\btool\b[\s\S]*\bchaos\b")


def fill_in(config: pytest.Config) -> None:
    """Set the options that the command line leaves out, by `[tool.chaos]` or to their defaults.

    Raises `pytest.UsageError` for a key or a value that is none.
    """
    found = {"backend": "ray", "keep_storage": False, **_table(config)}
    if folder := os.environ.get(REPORTS_ENV):
        found["reports"] = folder
    for key, option in _KEYS.items():
        if config.getoption(option.dest) is None and key in found:
            setattr(config.option, option.dest, found[key])


def _table(config: pytest.Config) -> dict[str, object]:
    folder = config.invocation_params.dir
    # Projects without the table must not pay for an import.
    if not any(_may_have_it(each / "pyproject.toml") for each in (folder, *folder.parents)):
        return {}
    from chaos.errors import ScenarioError
    from chaos.settings import defaults

    try:
        return dict(defaults(["pytest"])["pytest"])
    except ScenarioError as error:
        raise pytest.UsageError(str(error)) from error


def _may_have_it(file: Path) -> bool:
    try:
        return _TABLE.search(file.read_text("utf-8", "ignore")) is not None
    except OSError:  # it is not there, or not for us to read
        return False
