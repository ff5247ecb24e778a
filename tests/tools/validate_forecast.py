"""Holds `chaos preflight`'s forecast against real runs, and writes the tables of a page.

    python -m tests.tools.validate_forecast --backend ray --minutes 5

Runs that are there already are not made again, so that it can be called until nothing is missing
(exit code 0; else 2). With `--write` the tables go into the page, between its marks, and those of
other settings stay.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from chaos.check.analysis import RunAnalysis
from chaos.extensions.preflight.calibration import (
    STRUCK,
    RunSettings,
    ValidationCase,
    calibration_runs,
    compare_with_runs,
    make_runs,
    validation_case,
)
from chaos.extensions.preflight.compression import Losses
from chaos.extensions.preflight.load import build_run_question, load_analyses
from chaos.extensions.preflight.market import find_preset
from chaos.extensions.preflight.question import change_question
from chaos.extensions.preflight.validation import FigureComparison, Validation
from chaos.model.plan import PlanBackend
from chaos.run.clock import SystemClock, elapsed_seconds

ROOT = Path(__file__).parents[2]
JOB = ROOT / "scenarios/jobs/timed_steps.py"
PAGE = ROOT / "docs/validation.md"
MARKET = find_preset("unannounced-16h")
BEGIN, END = "<!-- tables -->", "<!-- end of the tables -->"
HEADING = "### "
# A step's own time is mostly sleep: it is the same in a clean run and beside three other processes.
LENGTH: dict[PlanBackend, tuple[str, ...]] = {
    "fork": ("--steps", "120", "--step-s", "0.03"),
    # Places that Ray 2.60 keeps of a group lost in its set-up would make a job wait for ever.
    "ray": ("--steps", "120", "--step-s", "0.1", "--free-left-places"),
}
START_TIMEOUT = "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"


@dataclass(frozen=True)
class Setting:
    """One kind of loss, and the job that meets it: Ray's, or a scenario of torchrun."""

    name: str
    losses: Losses
    words: tuple[str, ...] = ()
    start_timeout_s: dict[PlanBackend, float] | None = None
    scenario: str | None = None

    def job(self, backend: PlanBackend) -> tuple[Path, tuple[str, ...]]:
        """Return what is run, with its words."""
        if self.scenario is not None:
            return ROOT / "tests/tools/validation" / f"{self.scenario}.chaos.yaml", ()
        return JOB, (*LENGTH[backend], *self.words)


SETTINGS = {
    "kills": Setting("Workers are killed", "kills"),
    "nodes": Setting("Nodes are lost, and the job waits for new ones", "nodes"),
    "notices": Setting("Losses are announced, and the job saves", "notices", ("--jit",)),
    "elastic": Setting(
        "Nodes are lost, and the job goes on with fewer",
        "nodes",
        ("--min-workers", "1", "--grow-after", "0.5"),
        {"fork": 0.5, "ray": 5.0},
    ),
}
OF_TORCHRUN = {
    "torchrun-kills": Setting("torchrun: workers are killed", "kills", scenario="timed_steps"),
    "torchrun-nodes": Setting(
        "torchrun: a node is lost, and the other waits for a new one",
        "nodes",
        scenario="timed_steps",
    ),
    "torchrun-elastic": Setting(
        "torchrun: a node is lost, and the other goes on alone",
        "nodes",
        scenario="timed_steps_elastic",
    ),
    "torchrun-three": Setting(
        "torchrun: of three nodes some are lost, and the rest waits for new ones",
        "nodes",
        scenario="timed_steps_three",
    ),
}
EVERY = SETTINGS | OF_TORCHRUN


def main() -> int:
    """Make what is missing, within the minutes given; print the tables once nothing is."""
    asked = _arguments()
    clock, console = SystemClock(), Console(stderr=True)
    start = clock.now_ns()

    def left_s() -> float:
        return float(60 * asked.minutes - elapsed_seconds(start, clock))

    tables = []
    for name in asked.only or (OF_TORCHRUN if asked.backend == "torchrun" else SETTINGS):
        setting, folder = EVERY[name], asked.reports / f"{asked.backend}-{name}"
        settings = RunSettings(
            folder / "calibration", console, asked.backend, asked.runs, losses=setting.losses
        )
        _set_timeout(setting, asked.backend)
        calibrated = _calibrated(setting, settings, left_s)
        case = None if calibrated is None else _case(setting, settings, calibrated)
        if (
            calibrated is None
            or case is None
            or make_runs(settings, calibrated[0].plan, case, folder, within_s=left_s())
        ):
            console.print(f"{name}: not all of its runs are made; call this again")
            return 2
        tables.append(_table(setting, compare_with_runs(settings, calibrated, case, folder), case))
    sys.stdout.write("\n\n".join([*tables, ""]))
    if asked.write:
        PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=("fork", "ray", "torchrun"), default="ray")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=600.0, help="begin no run after these")
    parser.add_argument("--only", nargs="*", choices=EVERY)
    parser.add_argument("--reports", type=Path, default=Path("reports/validations"))
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    return parser.parse_args()


def _set_timeout(setting: Setting, backend: PlanBackend) -> None:
    os.environ.pop(START_TIMEOUT, None)
    if setting.start_timeout_s is not None:
        os.environ[START_TIMEOUT] = str(setting.start_timeout_s[backend])


def _calibrated(
    setting: Setting, settings: RunSettings, left_s: Callable[[], float]
) -> tuple[RunAnalysis, ...] | None:
    """Return the calibration, made as far as it was not; None where time ran out."""
    folders = sorted(path.parent for path in settings.reports.glob("[!.]*/*/history.jsonl"))
    analyses = (analysis for folder in folders for analysis in load_analyses(folder))
    found = [
        analysis for analysis in analyses if analysis.plan.ops and analysis.reference is not None
    ]
    if len(found) < STRUCK[settings.backend]:
        job, words = setting.job(settings.backend)
        made, known = list[RunAnalysis](), tuple(found)
        with closing(calibration_runs(settings, job, words, earlier_runs=known)) as runs:
            while len(made) < STRUCK[settings.backend]:
                if left_s() <= 0:
                    return None
                made.append(next(runs))
        found = made
    return tuple(found)


def _case(
    setting: Setting, settings: RunSettings, calibrated: Sequence[RunAnalysis]
) -> ValidationCase:
    question = build_run_question(calibrated, source="other runs", market=MARKET)
    asked = change_question(question, {"job.saves_on_notice": "--jit" in setting.words})
    return validation_case(settings, calibrated, asked)


def _table(setting: Setting, held: Validation, case: ValidationCase) -> str:
    costs = case.question.costs
    assert costs is not None
    restart_s = (
        costs.detect_s + costs.teardown_s + costs.schedule_s + costs.start_s + costs.restore_s
    )
    told = (
        f"step {costs.step_s:.3f} s, save {costs.save_s:.2f} s, upload {costs.upload_s:.2f} s, "
        f"restart {restart_s:.1f} s"
    )
    notes = "".join(f" {note}." for note in held.notes)
    rows = "\n".join(_rows(held.rows))
    return f"{HEADING}{setting.name}\n\n{held.what}: {told}.{notes}\n\n{rows}"


def _rows(rows: Iterable[FigureComparison]) -> Iterator[str]:
    """Yield what was predicted and measured of each figure; bold where they do not agree."""
    for row in rows:
        name = row.figure if row.unit in {"", "steps"} else f"{row.figure}, {row.unit}"
        predicted = f"{row.predicted.value:.3g} ({row.predicted.low:.3g}-{row.predicted.high:.3g})"
        measured = f"{row.measured.value:.3g}" if row.agrees else f"**{row.measured.value:.3g}**"
        inside = "" if row.inside is None else f", {row.inside:.0%}"
        yield f"- {name}: {predicted} / {measured}{inside}"


def page_with(page: str, tables: Iterable[str]) -> str:
    """Return the page with these tables in place of those of the same settings, in our order."""
    before, _, rest = page.partition(BEGIN)
    shown, _, after = rest.partition(END)
    kept = [f"{HEADING}{table}".strip() for table in shown.split(HEADING)[1:]]
    by_name = {table.partition("\n")[0]: table for table in (*kept, *tables)}
    order = [f"{HEADING}{setting.name}" for setting in EVERY.values()]
    text = "\n\n".join(by_name[name] for name in order if name in by_name)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


if __name__ == "__main__":
    sys.exit(main())
