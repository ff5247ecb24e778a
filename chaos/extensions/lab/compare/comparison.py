"""Comparison of two sets of runs, scenario by scenario, and whether noise can explain a change."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Literal, TypeAlias

import numpy as np

from chaos.model.summary import RunSummary

ALPHA = 0.05
EXIT_NO_REGRESSION, EXIT_REGRESSION, EXIT_UNKNOWN = range(3)

Shown: TypeAlias = Literal["worse", "better", "same", "not shown", "inconclusive"]
Fate: TypeAlias = Literal[
    "same",
    "regression",
    "fixed",
    "inconclusive",
    "missing",
    "new",
    "new, fails",
    "still fails",
    "varies",
]
OPEN: tuple[Fate, ...] = ("inconclusive", "missing", "new, fails")
FAIL_ON_BOTH: tuple[Fate, ...] = ("still fails", "varies")


@dataclass(frozen=True)
class Measure:
    """A figure of a run, of which either more or less is worse."""

    name: str
    unit: str
    read_value: Callable[[RunSummary], float | None]
    more_is_worse: bool = True


MEASURES = (
    Measure("recovery", "s", lambda run: run.recovery_s),
    Measure("lost steps", "", lambda run: run.lost_steps),
    Measure(
        "goodput",
        "%",
        lambda run: None if run.goodput is None else 100 * run.goodput,
        more_is_worse=False,
    ),
)


@dataclass(frozen=True)
class MeasureChange:
    """One measure of one scenario: the values of both sides, and the result of the test."""

    measure: Measure
    before_values: tuple[float, ...]
    after_values: tuple[float, ...]
    result: Shown
    #: corrected for all measures that were tested together; None if all values are equal, or so few
    #: that no p could be at most 0.05
    p: float | None = None
    #: the lowest p for so many repeats: if it is above 0.05, no change can be shown
    lowest_p: float | None = None
    delta: float | None = None

    @property
    def medians(self) -> tuple[float, float]:
        return statistics.median(self.before_values), statistics.median(self.after_values)


@dataclass(frozen=True)
class ScenarioChange:
    """One scenario: the number of its runs as expected, and its measures."""

    scenario: str
    before_runs: tuple[RunSummary, ...]
    after_runs: tuple[RunSummary, ...]
    outcome: Fate
    changes: tuple[MeasureChange, ...]

    @property
    def is_regression(self) -> bool:
        """Whether it is worse than before, beyond noise."""
        return self.outcome == "regression" or any(c.result == "worse" for c in self.changes)


@dataclass(frozen=True)
class SuiteComparison:
    """All scenarios of both sides, and the settings in which the sides differ."""

    scenarios: tuple[ScenarioChange, ...]
    differences: Mapping[str, tuple[str, str]]
    #: scenarios that fail on both sides leave nothing open
    allow_failing: bool = False

    @property
    def regressions(self) -> tuple[ScenarioChange, ...]:
        """The scenarios that are worse than before."""
        return tuple(s for s in self.scenarios if s.is_regression)

    @property
    def repeats_needed(self) -> int:
        """The repeats on each side that could show a change in any measure of any scenario."""
        return repeats_needed(len(MEASURES) * self.common_count)

    @property
    def common_count(self) -> int:
        """The number of scenarios that both sides have."""
        return sum(bool(s.before_runs and s.after_runs) for s in self.scenarios)

    @property
    def exit_code(self) -> int:
        """1: a regression. 2: none, and something is missing or inconclusive, or fails as well.

        That is a new scenario, or one on both sides.
        """
        if self.regressions:
            return EXIT_REGRESSION
        fates = OPEN if self.allow_failing else (*OPEN, *FAIL_ON_BOTH)
        is_open = any(s.outcome in fates for s in self.scenarios) or not self.common_count
        return EXIT_UNKNOWN if is_open else EXIT_NO_REGRESSION

    @property
    def sentence(self) -> str:
        new_count = sum(s.outcome == "new, fails" for s in self.scenarios)
        both_count = sum(s.outcome in FAIL_ON_BOTH for s in self.scenarios)
        parts = [f"{new_count} new {_describe_failing(new_count)}"] if new_count else []
        parts += (
            [f"{both_count} {_describe_failing(both_count)} on both sides"] if both_count else []
        )
        word = "and" if self.regressions else "but"
        return (
            f"{self._regression_sentence}, {word} {' and '.join(parts)}"
            if parts
            else self._regression_sentence
        )

    @property
    def _regression_sentence(self) -> str:
        if self.regressions:
            return f"{len(self.regressions)} of {len(self.scenarios)} scenarios are worse"
        if not self.common_count:
            return "the two sides have no scenario in common"
        if any(s.outcome in ("inconclusive", "missing") for s in self.scenarios):
            return "no regression was shown, and not every scenario could be compared"
        return "no regression was shown"


def _describe_failing(number: int) -> str:
    return "scenario fails" if number == 1 else "scenarios fail"


def repeats_needed(tests: int) -> int:
    """Return the fewest repeats a side whose least p, after Holm's correction, is 0.05.

    The correction is for so many tests; the hardest case is that only one measure changed.
    """
    return next(n for n in count(1) if tests * compute_lowest_p(n, n) <= ALPHA)


def compare_runs(
    before_runs: Sequence[RunSummary],
    after_runs: Sequence[RunSummary],
    *,
    allow_failing: bool = False,
) -> SuiteComparison:
    """Compare two sets of runs, scenario by scenario, without skipped ones."""
    before_runs = [run for run in before_runs if run.standing != "skipped"]
    after_runs = [run for run in after_runs if run.standing != "skipped"]
    names = dict.fromkeys(run.scenario for run in (*before_runs, *after_runs))
    rows = [
        _compare_scenario(
            name,
            tuple(run for run in before_runs if run.scenario == name),
            tuple(run for run in after_runs if run.scenario == name),
        )
        for name in names
    ]
    return SuiteComparison(
        tuple(_correct_changes(rows)),
        _find_differences(before_runs, after_runs),
        allow_failing=allow_failing,
    )


def _compare_scenario(
    name: str, before_runs: tuple[RunSummary, ...], after_runs: tuple[RunSummary, ...]
) -> ScenarioChange:
    values = (
        (measure, _collect_values(measure, before_runs), _collect_values(measure, after_runs))
        for measure in MEASURES
    )
    changes = tuple(
        _test_measure(measure, before_values, after_values)
        for measure, before_values, after_values in values
        if before_values and after_values
    )
    return ScenarioChange(
        name, before_runs, after_runs, _judge_scenario(before_runs, after_runs), changes
    )


def _collect_values(measure: Measure, runs: Sequence[RunSummary]) -> tuple[float, ...]:
    return tuple(value for run in runs if (value := measure.read_value(run)) is not None)


def _test_measure(
    measure: Measure, before_values: tuple[float, ...], after_values: tuple[float, ...]
) -> MeasureChange:
    """Test a measure; the result is decided once all tests are known."""
    if len({*before_values, *after_values}) == 1:
        return MeasureChange(
            measure, before_values, after_values, "same"
        )  # nothing to test, nothing to correct for
    lowest_p = compute_lowest_p(len(before_values), len(after_values))
    if lowest_p > ALPHA:  # it cannot show a change, so the others are not corrected for it
        return MeasureChange(
            measure, before_values, after_values, "inconclusive", lowest_p=lowest_p
        )
    test = compare_ranks(before_values, after_values)
    return MeasureChange(
        measure, before_values, after_values, "not shown", test.p, test.lowest_p, test.delta
    )


def _correct_changes(rows: Sequence[ScenarioChange]) -> list[ScenarioChange]:
    """Correct the p values for the number of tests, and decide the result of each."""
    p_values = [c.p for row in rows for c in row.changes if c.p is not None]
    corrected_values = iter(correct_p_values(p_values))
    return [
        replace(
            row,
            changes=tuple(
                c if c.p is None else _decide_result(c, next(corrected_values), len(p_values))
                for c in row.changes
            ),
        )
        for row in rows
    ]


def _decide_result(change: MeasureChange, p: float, tests: int) -> MeasureChange:
    assert change.lowest_p is not None
    assert change.delta is not None
    lowest_p = min(1.0, change.lowest_p * tests)
    if p <= ALPHA:
        is_worse = (change.delta > 0) == change.measure.more_is_worse
        return replace(change, p=p, lowest_p=lowest_p, result="worse" if is_worse else "better")
    result: Shown = "inconclusive" if lowest_p > ALPHA else "not shown"
    return replace(change, p=p, lowest_p=lowest_p, result=result)


def _judge_scenario(before_runs: Sequence[RunSummary], after_runs: Sequence[RunSummary]) -> Fate:
    """Return the change of the verdict.

    Faults are injected at the same places every time. So a scenario that was always as
    expected, and once is not, is a regression for any number of repeats. For one that
    was not always as expected, the shares are compared.
    """
    if not after_runs:
        return "missing"
    before_count, after_count = _count_expected(before_runs), _count_expected(after_runs)
    if after_count < len(after_runs) and all(
        r.standing in ("expected", "undecided") for r in after_runs
    ):
        return "inconclusive"
    if not before_runs:
        return "new" if after_count == len(after_runs) else "new, fails"
    if after_count == len(after_runs):
        return "same" if before_count == len(before_runs) else "fixed"
    was_always_expected = before_count == len(before_runs)
    if was_always_expected or (
        before_count
        and compute_fewer_p(before_count, len(before_runs), after_count, len(after_runs)) <= ALPHA
    ):
        return "regression"
    return "still fails" if before_count == after_count == 0 else "varies"


def _count_expected(runs: Sequence[RunSummary]) -> int:
    return sum(run.standing == "expected" for run in runs)


def _find_differences(
    before_runs: Sequence[RunSummary], after_runs: Sequence[RunSummary]
) -> dict[str, tuple[str, str]]:
    """Return the versions and backends that differ between the sides."""
    before_settings, after_settings = _collect_settings(before_runs), _collect_settings(after_runs)
    settings = {
        name: (before_settings.get(name, "-"), after_settings.get(name, "-"))
        for name in sorted({*before_settings, *after_settings})
    }
    return {name: values for name, values in settings.items() if values[0] != values[1]}


def _collect_settings(runs: Sequence[RunSummary]) -> dict[str, str]:
    values_by_setting: dict[str, set[str]] = {}
    for run in runs:
        for name, value in {**run.versions, "backend": run.backend or "-"}.items():
            values_by_setting.setdefault(name, set()).add(value)
    return {name: ", ".join(sorted(values)) for name, values in values_by_setting.items()}


# All values times those of the smaller side: 50 against 50, 10 against 490. The normal
# approximation is good if both sides are larger, but not if one of them is small.
EXACT_MAX = 5_000


@dataclass(frozen=True)
class RankTest:
    """The comparison of two samples."""

    #: two-sided
    p: float
    #: Cliff's: the chance that a value of the second sample is above one of the first, less the
    #: chance that it is below, from -1 to 1
    delta: float
    #: the p of samples of this size that do not overlap
    lowest_p: float


def compare_ranks(first: Sequence[float], second: Sequence[float]) -> RankTest:
    """Compare two samples; both must have values."""
    assert first
    assert second
    ranks = double_ranks([*first, *second])
    rank_sum = sum(ranks[len(first) :])
    sizes = len(first), len(second)
    is_exact = sum(sizes) * min(sizes) <= EXACT_MAX
    # All sums are doubled, to stay in whole numbers: the mean is size * (n + 1).
    deviation = abs(rank_sum - sizes[1] * (len(ranks) + 1))
    p = (
        _compute_exact_p(ranks, min(sizes), deviation)
        if is_exact
        else _compute_normal_p(ranks, sizes, deviation)
    )
    delta = (rank_sum - sizes[1] * (len(ranks) + 1)) / (sizes[0] * sizes[1])
    return RankTest(p, delta, compute_lowest_p(*sizes))


def compute_lowest_p(first: int, second: int) -> float:
    """Return the p of two samples of so many values that do not overlap, which is the lowest."""
    return min(1.0, 2 / math.comb(first + second, first))


def correct_p_values(values: Sequence[float]) -> list[float]:
    """Correct p values for their number, in their order, so that they bound any false alarm."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    corrected, highest = [0.0] * len(values), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, values[index] * (len(values) - rank)))
        corrected[index] = highest
    return corrected


def double_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value, so that shared ranks are whole numbers."""
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    ranks: list[int] = (2 * sizes.cumsum() - sizes + 1)[group].tolist()
    return ranks


def _compute_exact_p(ranks: Sequence[int], size: int, deviation: int) -> float:
    """Return the share of choices of `size` ranks whose sum is `deviation` or more from its mean.

    The number of ways to each sum is held in one long whole number, with a fixed number
    of bytes for each sum: a shift adds a rank to every sum.
    """
    total_ways = math.comb(len(ranks), size)
    width = (total_ways.bit_length() + 7) // 8
    ways = [1, *([0] * size)]
    for rank in ranks:
        for chosen_count in range(size, 0, -1):
            ways[chosen_count] += ways[chosen_count - 1] << (8 * width * rank)
    counts = ways[size].to_bytes(width * (sum(sorted(ranks)[-size:]) + 1), "little")
    mean = size * (len(ranks) + 1)
    extreme_ways = sum(
        int.from_bytes(counts[width * total : width * (total + 1)], "little")
        for total in range(len(counts) // width)
        if abs(total - mean) >= deviation
    )
    return extreme_ways / total_ways


def _compute_normal_p(ranks: Sequence[int], sizes: tuple[int, int], deviation: int) -> float:
    """Approximate, with the variance that ties leave and a correction for continuity."""
    total = len(ranks)
    spread = sum((rank - (total + 1)) ** 2 for rank in ranks)
    variance = sizes[0] * sizes[1] * spread / (total * (total - 1))
    if variance == 0:
        return 1.0
    return math.erfc(max(0.0, deviation - 1) / math.sqrt(2 * variance))


def compute_fewer_p(
    before_count: int, before_total: int, after_count: int, after_total: int
) -> float:
    """Return the chance of `after_count` or fewer of `after_total`, if both rates are equal."""
    total, expected_count = before_total + after_total, before_count + after_count
    ways = (
        math.comb(expected_count, k) * math.comb(total - expected_count, after_total - k)
        for k in range(max(0, after_total - (total - expected_count)), after_count + 1)
    )
    return sum(ways) / math.comb(total, after_total)
