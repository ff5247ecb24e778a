"""Finished runs and rows of a suite, with their standing and look: the input of every report."""

import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from chaos.check.analysis import RunAnalysis
from chaos.check.goodput import get_ledger
from chaos.check.restarts import count_lost_steps
from chaos.errors import ChaosError, UnmetNeedError
from chaos.model.expect import VerdictStatus
from chaos.model.history import History
from chaos.model.plan import Plan
from chaos.model.summary import FAILING, GRAVEST_FIRST, RunSummary, compute_goodput
from chaos.model.verdict import Standing, Verdict

Figure = TypeVar("Figure", int, float)
Tone: TypeAlias = Literal["good", "bad", "calm", "open"]


@dataclass(frozen=True)
class FinishedRun:
    """One executed and judged plan."""

    plan: Plan
    env: dict[str, Any]
    history: History
    baseline: History | None
    verdict: Verdict
    #: its path for display
    directory: str
    duration_s: float
    #: the tables that it was judged by, if it was judged in this process
    judged_analysis: RunAnalysis | None = field(default=None, repr=False, compare=False)

    @cached_property
    def analysis(self) -> RunAnalysis:
        """The tables for checks and pages, built only once."""
        judged_tables, inputs = self.judged_analysis, (self.plan, self.history, self.baseline)
        # The same objects: to compare two histories for equality is to read them both. A run whose
        # plan was replaced since has tables of its own.
        if judged_tables is not None and all(
            a is b
            for a, b in zip(
                (judged_tables.plan, judged_tables.history, judged_tables.baseline),
                inputs,
                strict=True,
            )
        ):
            return judged_tables
        return RunAnalysis(*inputs)


@dataclass(frozen=True)
class SuiteRow:
    """One scenario of a suite: its verdict, or the caller's error that prevented one."""

    scenario: str
    file: str
    directory: str | None
    verdict: Verdict | None
    error: str | None
    duration_s: float
    attempts: int | None = None
    lost_steps: int | None = None
    recovery_s: float | None = None
    seed: int | None = None
    backend: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    phases_s: Mapping[str, float] = field(default_factory=dict)
    #: the reason why it was skipped, which is neither
    skipped: str | None = None
    #: the number of this run of its scenario, from 1, if there are to be several
    repeat: int | None = None

    @property
    def standing(self) -> Standing:
        """Whether the verdict is as expected; an inconclusive one never is."""
        if self.verdict is None:
            return "not_run" if self.skipped is None else "skipped"
        return find_standing(self.verdict)

    @property
    def status(self) -> VerdictStatus | None:
        """The status of its verdict, None without one."""
        return None if self.verdict is None else self.verdict.status

    @property
    def goodput(self) -> float | None:
        """The productive share of the wall time, None if it was not recorded."""
        return compute_goodput(self.phases_s)

    @property
    def headline(self) -> str:
        """The headline of its verdict, or the reason why it has none."""
        if self.verdict is not None:
            return self.verdict.headline
        return self.skipped or self.error or "no verdict"

    @property
    def broken(self) -> str | None:
        """The check that named the defect."""
        return self.verdict.broken[0].check if self.verdict and self.verdict.broken else None

    @property
    def history(self) -> str | None:
        """The digest of the history that was judged."""
        return self.verdict.history if self.verdict else None


@dataclass(frozen=True)
class ScenarioRuns:
    """The runs of one scenario in a suite, in their order: one, or its repeats."""

    rows: tuple[SuiteRow, ...]

    @property
    def worst_row(self) -> SuiteRow:
        """The run whose verdict is the scenario's; the first of them."""
        return min(self.rows, key=lambda row: GRAVEST_FIRST.index(row.standing))

    @property
    def gravity(self) -> int:
        """The place of its verdict in an order with the gravest first."""
        return GRAVEST_FIRST.index(self.worst_row.standing)

    @property
    def passed_count(self) -> int:
        """The number of runs that are as the scenario expects."""
        return sum(row.standing == "expected" for row in self.rows)

    @property
    def has_repeats(self) -> bool:
        """Whether the scenario was to run several times."""
        return self.rows[0].repeat is not None

    @property
    def is_flaky(self) -> bool:
        """Whether some runs are as the scenario expects, and others are not."""
        return 0 < self.passed_count < len(self.rows)

    @property
    def tally(self) -> str:
        """The number of runs that passed, of all runs; a dash if the scenario ran once."""
        return f"{self.passed_count} of {len(self.rows)}" if self.has_repeats else "-"

    @property
    def figures(self) -> dict[str, str]:
        """Its figures in words: the number that passed, and the median of each other one."""
        medians = {
            name: (self.find_median(read_figure), form)
            for name, (read_figure, form) in FIGURES.items()
        }
        return {
            "passed": self.tally,
            **{name: format_figure(*pair) for name, pair in medians.items()},
        }

    def find_median(self, read_figure: Callable[[SuiteRow], Figure | None]) -> Figure | None:
        """Return the median of a figure, which is a measured one; None if there is none."""
        values = [value for row in self.rows if (value := read_figure(row)) is not None]
        return statistics.median_low(values) if values else None


#: The figures of a run in a suite, with the form of each.
FIGURES: Mapping[str, tuple[Callable[[SuiteRow], float | None], str]] = {
    "attempts": (lambda row: row.attempts, "{}"),
    "lost steps": (lambda row: row.lost_steps, "{}"),
    "recovery": (lambda row: row.recovery_s, "{:.1f} s"),
    "goodput": (lambda row: row.goodput, "{:.0%}"),
    "time": (lambda row: row.duration_s, "{:.1f} s"),
}


class StandingStyle(NamedTuple):
    """A standing in words and signs."""

    word: str
    mark: str
    #: in a terminal
    style: str
    #: in a chart
    color: str
    tone: Tone


#: Each standing, in the order in which a suite counts them.
STANDINGS: Mapping[Standing, StandingStyle] = {
    "expected": StandingStyle("as expected", "✓", "green", "var(--productive)", "good"),
    "unexpected": StandingStyle("not as expected", "✗", "bold red", "var(--fault)", "bad"),
    "undecided": StandingStyle("inconclusive", "?", "yellow", "var(--schedule)", "open"),
    "not_run": StandingStyle("could not run", "!", "magenta", "var(--other)", "bad"),
    "skipped": StandingStyle("skipped", "-", "blue", "var(--baseline)", "open"),
}


def group_scenarios(rows: Sequence[SuiteRow]) -> tuple[ScenarioRuns, ...]:
    """Group the rows of a suite: repeats of a scenario together, any other row alone."""
    groups: dict[object, list[SuiteRow]] = {}
    for index, row in enumerate(rows):
        key = index if row.repeat is None else (row.file, row.scenario)
        groups.setdefault(key, []).append(row)
    return tuple(ScenarioRuns(tuple(group)) for group in groups.values())


def find_standing(verdict: Verdict) -> Standing:
    """Return whether a verdict is as the scenario expects, is not, or is inconclusive."""
    if verdict.as_expected:
        return "expected"
    return "undecided" if verdict.status == "inconclusive" else "unexpected"


def find_row_tone(row: SuiteRow) -> Tone:
    """Return the look of a row of a suite."""
    return STANDINGS[row.standing].tone if row.verdict is None else find_tone(row.verdict)


def find_suite_tone(runs: Collection[SuiteRow | RunSummary]) -> Tone:
    """Return the look of a suite."""
    standings = {run.standing for run in runs}
    if standings & {*FAILING}:
        return "bad"
    # A suite in which nothing ran, or something stayed open, does not look like success.
    is_open = standings <= {"skipped"} or any(run.status == "inconclusive" for run in runs)
    return "open" if is_open else "good"


def find_tone(verdict: Verdict) -> Tone:
    """Return the look of a verdict; an inconclusive one never looks like success."""
    if verdict.status == "inconclusive":
        return "open"
    if not verdict.as_expected:
        return "bad"
    return "good" if verdict.status == "pass" else "calm"


def format_figure(value: float | None, form: str) -> str:
    """Return a figure in this form; a dash if it is not known."""
    return "-" if value is None else form.format(value)


def build_suite_row(run: FinishedRun) -> SuiteRow:
    """Return the row of a finished run."""
    recovery_times = [restart.phases.total_s for restart in run.analysis.restarts]
    return SuiteRow(
        scenario=run.plan.scenario,
        file=run.plan.file,
        directory=run.directory,
        verdict=run.verdict,
        error=None,
        duration_s=run.duration_s,
        attempts=len(run.analysis.run.attempts),
        lost_steps=count_lost_steps(run.analysis.restarts)
        if run.analysis.has_visible_steps
        else None,
        recovery_s=max(
            (recovery_time for recovery_time in recovery_times if recovery_time is not None),
            default=None,
        ),
        seed=run.plan.seed,
        backend=run.plan.backend,
        versions=find_versions(run.env),
        phases_s={str(phase): s for phase, s in get_ledger(run.analysis).sum_seconds().items()},
    )


def build_unrun_row(scenario: str, file: str, error: str, *, duration_s: float = 0.0) -> SuiteRow:
    """Return the row of a scenario that has a mistake of its own."""
    return SuiteRow(scenario, file, None, None, error, duration_s)


def build_skipped_row(
    scenario: str, file: str, reason: str, *, duration_s: float = 0.0
) -> SuiteRow:
    """Return the row of a scenario whose job needs something that is not here."""
    return SuiteRow(scenario, file, None, None, None, duration_s, skipped=reason)


def build_error_row(plan: Plan, error: ChaosError, *, duration_s: float) -> SuiteRow:
    """Return the row of a scenario without a verdict because of an error."""
    build = build_skipped_row if isinstance(error, UnmetNeedError) else build_unrun_row
    return build(plan.scenario, plan.file, str(error), duration_s=duration_s)


def find_versions(env: Mapping[str, Any]) -> dict[str, str]:
    """Return the versions in a run's environment that are plain values."""
    values = env.get("versions", env)
    pairs = values.items() if isinstance(values, Mapping) else ()
    return {str(key): str(value) for key, value in pairs if isinstance(value, str | int | float)}
