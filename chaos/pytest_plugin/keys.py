"""The keys under which hooks share objects, and the names of the options."""

from enum import StrEnum
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from chaos.model.scenario import Scenario
    from chaos.pytest_plugin.runs import Runs
    from chaos.report.outcome import FinishedRun, SuiteRow

SCENARIO_MARK = "chaos_scenario"
JOB_MARK = "chaos_job"

RUNS: "pytest.StashKey[Runs]" = pytest.StashKey()
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
    PRESTART_WORKERS = "--chaos-prestart-workers"

    @property
    def dest(self) -> str:
        """The name of the option for `config.getoption`."""
        return self.value.removeprefix("--").replace("-", "_")
