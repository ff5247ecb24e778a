"""The keys under which hooks share objects."""

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
