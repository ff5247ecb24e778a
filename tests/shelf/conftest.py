"""A folder of reports with two runs and a suite of them, as `chaos run` leaves it."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from chaos import runner
from chaos.harness import save_outcome, write_suite
from chaos.report.outcome import FinishedRun, SuiteRow, build_suite_row, build_unrun_row
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory, create_run
from tests.report.conftest import clean_history, plan_of, struck_history


@dataclass(frozen=True)
class Shelf:
    """`valid` and `guilty` are folders of runs, `suite` that of a suite of them."""

    reports: Path
    valid: Path
    guilty: Path
    suite: Path
    rows: tuple[SuiteRow, ...]


@pytest.fixture(scope="session")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    reports = tmp_path_factory.mktemp("reports")
    valid = stored(reports, "killed", defect=0.0)
    guilty = stored(reports, "killed badly", defect=0.09)
    rows = (
        build_suite_row(valid),
        build_suite_row(guilty),
        build_unrun_row(scenario="cannot be", file="f", error="why"),
    )
    page = write_suite(reports, rows, SystemClock())
    return Shelf(reports, Path(valid.directory), Path(guilty.directory), page.parent, rows)


def stored(reports: Path, scenario: str, *, defect: float) -> FinishedRun:
    plan = plan_of(scenario).model_copy(update={"slug": scenario.replace(" ", "_")})
    env = {"versions": {"ray": "2.60.0"}}
    directory = create_run(reports / plan.slug, "7-20261121T014500", plan, env)
    history, baseline = struck_history(defect=defect, scenario=scenario), clean_history()
    directory.save_history(history)
    RunDirectory(directory.path).save_baseline(baseline)
    run = runner.judge_run(directory, plan, history, baseline, duration_s=21.4)
    return save_outcome(directory, run)
