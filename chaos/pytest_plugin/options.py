"""The options: their names, the seeds that one of them gives, and what `[tool.chaos]` fills in."""

import argparse
import os
import re
from enum import StrEnum

import pytest

from chaos.errors import ScenarioError
from chaos.settings import REPORTS_ENV, defaults

_RANGE = re.compile(r"(\d+)-(\d+)")


class Option(StrEnum):
    """The command line's options."""

    BACKEND = "--chaos-backend"
    SEEDS = "--chaos-seeds"
    REPORT = "--chaos-report"
    KEEP_STORAGE = "--chaos-keep-storage"
    PRESTART_WORKERS = "--chaos-prestart-workers"

    @property
    def dest(self) -> str:
        """The name of the option for `config.getoption`."""
        return self.value.removeprefix("--").replace("-", "_")


_SETTLED = {
    "backend": Option.BACKEND,
    "reports": Option.REPORT,
    "keep_storage": Option.KEEP_STORAGE,
}


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds in order; refuse a text that is neither a count nor a range."""
    if text.isdecimal() and int(text) > 0:
        return tuple(range(int(text)))
    found = _RANGE.fullmatch(text)
    if found and int(found[1]) <= int(found[2]):
        return tuple(range(int(found[1]), int(found[2]) + 1))
    raise argparse.ArgumentTypeError(f"a number from 1 on, or a range such as 5-7, not {text!r}")


def fill_in(config: pytest.Config) -> None:
    """Set the options that the command line leaves out, by `[tool.chaos]` or to their defaults.

    Raises `pytest.UsageError` for a key or a value that is none.
    """
    try:
        found = {"backend": "ray", "keep_storage": False, **defaults(["pytest"])["pytest"]}
    except ScenarioError as error:
        raise pytest.UsageError(str(error)) from error
    if folder := os.environ.get(REPORTS_ENV):
        found["reports"] = folder
    for key, option in _SETTLED.items():
        if config.getoption(option.dest) is None and key in found:
            setattr(config.option, option.dest, found[key])
