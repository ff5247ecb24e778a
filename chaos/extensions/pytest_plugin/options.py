"""The plugin's options, the keys under which its hooks share objects, and its groups of tests.

pytest-xdist spreads the tests over processes, of which only one may have Ray clusters.
"""

import argparse
import os
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

import pytest

from chaos.errors import ScenarioError
from chaos.settings import REPORTS_ENV, load_defaults

if TYPE_CHECKING:
    from chaos.model.scenario import Scenario
    from chaos.report.outcome import FinishedRun, SuiteRow


# Those of `chaos run`. Its own list takes imports that every project would pay for.
BACKENDS = ("ray", "fork", "torchrun", "python", "slurm")
SCENARIO_MARK = "chaos_scenario"
JOB_MARK = "chaos_job"

GROUP: pytest.StashKey[str] = pytest.StashKey()
SCENARIO: "pytest.StashKey[Scenario]" = pytest.StashKey()
FINISHED: "pytest.StashKey[list[FinishedRun]]" = pytest.StashKey()
ROWS: "pytest.StashKey[list[SuiteRow]]" = pytest.StashKey()


class Option(StrEnum):
    """The command line's options."""

    BACKEND = "--chaos-backend"
    SEEDS = "--chaos-seeds"
    REPORT = "--chaos-report"
    KEEP_STORAGE = "--chaos-keep-storage"

    @property
    def dest(self) -> str:
        """The name of the option for `config.getoption`."""
        return self.value.removeprefix("--").replace("-", "_")


_CONFIGURED_OPTIONS = {
    "backend": Option.BACKEND,
    "reports": Option.REPORT,
    "keep_storage": Option.KEEP_STORAGE,
}


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds in order; refuse a text that is neither a count nor a range."""
    if text.isdecimal() and int(text) > 0:
        return tuple(range(int(text)))
    match = re.fullmatch(r"(\d+)-(\d+)", text)
    if match and int(match[1]) <= int(match[2]):
        return tuple(range(int(match[1]), int(match[2]) + 1))
    raise argparse.ArgumentTypeError(f"a number from 1 on, or a range such as 5-7, not {text!r}")


def fill_options(config: pytest.Config) -> None:
    """Set the options that the command line leaves out, by `[tool.chaos]` or to their defaults.

    Raises `pytest.UsageError` for a key or a value that is none.
    """
    try:
        values = {"backend": "ray", "keep_storage": False, **load_defaults(["pytest"])["pytest"]}
    except ScenarioError as error:
        raise pytest.UsageError(str(error)) from error
    if folder := os.environ.get(REPORTS_ENV):
        values["reports"] = folder
    for key, option in _CONFIGURED_OPTIONS.items():
        if config.getoption(option.dest) is None and key in values:
            setattr(config.option, option.dest, values[key])


RAY_GROUP = "chaos-ray"
_HEEDS_GROUPS: pytest.StashKey[bool] = pytest.StashKey()


def group_test(item: pytest.Item, group: str) -> None:
    """Keep a test in one process with the others of its group, with `--dist loadgroup`."""
    if item.config.pluginmanager.hasplugin("xdist"):
        item.add_marker(pytest.mark.xdist_group(name=group))


def record_grouping(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Note whether pytest-xdist keeps groups together, which it appends to a test's id.

    It does so only with `--dist loadgroup`; 3.8 does not with pytest 9.2, whose ids it leaves as
    they are.
    """
    config.stash[_HEEDS_GROUPS] = any(item.nodeid.endswith(f"@{RAY_GROUP}") for item in items)


def has_parallel_clusters(config: pytest.Config) -> bool:
    """Return whether this is one of several processes that may get any test."""
    worker_input = getattr(config, "workerinput", None)
    return (
        worker_input is not None
        and worker_input["workercount"] > 1
        and config.getoption(Option.BACKEND.dest) == "ray"
        and not config.stash.get(_HEEDS_GROUPS, False)
    )
