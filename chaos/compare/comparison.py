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
    of: Callable[[RunSummary], float | None]
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
class Change:
    """One measure of one scenario: the values of both sides, and the result of the test."""

    measure: Measure
    before: tuple[float, ...]
    after: tuple[float, ...]
    shown: Shown
    #: corrected for all measures that were tested together; None if all values are equal, or so few
    #: that no p could be at most 0.05
    p: float | None = None
    #: the lowest p for so many repeats: if it is above 0.05, no change can be shown
    least_p: float | None = None
    delta: float | None = None

    @property
    def medians(self) -> tuple[float, float]:
        return statistics.median(self.before), statistics.median(self.after)


@dataclass(frozen=True)
class ScenarioChange:
    """One scenario: the number of its runs as expected, and its measures."""

    scenario: str
    before: tuple[RunSummary, ...]
    after: tuple[RunSummary, ...]
    fate: Fate
    changes: tuple[Change, ...]

    @property
    def is_regression(self) -> bool:
        """Whether it is worse than before, beyond noise."""
        return self.fate == "regression" or any(c.shown == "worse" for c in self.changes)


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
        return repeats_needed(len(MEASURES) * self.in_common)

    @property
    def in_common(self) -> int:
        """The number of scenarios that both sides have."""
        return sum(bool(s.before and s.after) for s in self.scenarios)

    @property
    def exit_code(self) -> int:
        """1: a regression. 2: none, and something is missing or inconclusive, or fails as well.

        That is a new scenario, or one on both sides.
        """
        if self.regressions:
            return EXIT_REGRESSION
        fates = OPEN if self.allow_failing else (*OPEN, *FAIL_ON_BOTH)
        is_open = any(s.fate in fates for s in self.scenarios) or not self.in_common
        return EXIT_UNKNOWN if is_open else EXIT_NO_REGRESSION

    @property
    def sentence(self) -> str:
        new = sum(s.fate == "new, fails" for s in self.scenarios)
        both = sum(s.fate in FAIL_ON_BOTH for s in self.scenarios)
        parts = [f"{new} new {_fail(new)}"] if new else []
        parts += [f"{both} {_fail(both)} on both sides"] if both else []
        word = "and" if self.regressions else "but"
        return f"{self._shown}, {word} {' and '.join(parts)}" if parts else self._shown

    @property
    def _shown(self) -> str:
        if self.regressions:
            return f"{len(self.regressions)} of {len(self.scenarios)} scenarios are worse"
        if not self.in_common:
            return "the two sides have no scenario in common"
        if any(s.fate in ("inconclusive", "missing") for s in self.scenarios):
            return "no regression was shown, and not every scenario could be compared"
        return "no regression was shown"


def _fail(number: int) -> str:
    return "scenario fails" if number == 1 else "scenarios fail"


def repeats_needed(tests: int) -> int:
    """Return the fewest repeats a side whose least p, after Holm's correction, is 0.05.

    The correction is for so many tests; the hardest case is that only one measure changed.
    """
    return next(n for n in count(1) if tests * least_p(n, n) <= ALPHA)


def compare(
    before: Sequence[RunSummary], after: Sequence[RunSummary], *, allow_failing: bool = False
) -> SuiteComparison:
    """Compare two sets of runs, scenario by scenario, without skipped ones."""
    before = [run for run in before if run.standing != "skipped"]
    after = [run for run in after if run.standing != "skipped"]
    names = dict.fromkeys(run.scenario for run in (*before, *after))
    rows = [
        _scenario(
            name,
            tuple(run for run in before if run.scenario == name),
            tuple(run for run in after if run.scenario == name),
        )
        for name in names
    ]
    return SuiteComparison(
        tuple(_corrected(rows)), _differences(before, after), allow_failing=allow_failing
    )


def _scenario(
    name: str, before: tuple[RunSummary, ...], after: tuple[RunSummary, ...]
) -> ScenarioChange:
    values = ((each, _values(each, before), _values(each, after)) for each in MEASURES)
    changes = tuple(_change(each, left, right) for each, left, right in values if left and right)
    return ScenarioChange(name, before, after, _fate(before, after), changes)


def _values(measure: Measure, runs: Sequence[RunSummary]) -> tuple[float, ...]:
    return tuple(value for run in runs if (value := measure.of(run)) is not None)


def _change(measure: Measure, before: tuple[float, ...], after: tuple[float, ...]) -> Change:
    """Test a measure; the result is decided once all tests are known."""
    if len({*before, *after}) == 1:
        return Change(measure, before, after, "same")  # nothing to test, nothing to correct for
    least = least_p(len(before), len(after))
    if least > ALPHA:  # it cannot show a change, so the others are not corrected for it
        return Change(measure, before, after, "inconclusive", least_p=least)
    test = rank_test(before, after)
    return Change(measure, before, after, "not shown", test.p, test.least_p, test.delta)


def _corrected(rows: Sequence[ScenarioChange]) -> list[ScenarioChange]:
    """Correct the p values for the number of tests, and decide the result of each."""
    tested = [c.p for row in rows for c in row.changes if c.p is not None]
    corrected = iter(holm(tested))
    return [
        replace(
            row,
            changes=tuple(
                c if c.p is None else _with_result(c, next(corrected), len(tested))
                for c in row.changes
            ),
        )
        for row in rows
    ]


def _with_result(change: Change, p: float, tests: int) -> Change:
    assert change.least_p is not None
    assert change.delta is not None
    least = min(1.0, change.least_p * tests)
    if p <= ALPHA:
        is_worse = (change.delta > 0) == change.measure.more_is_worse
        return replace(change, p=p, least_p=least, shown="worse" if is_worse else "better")
    shown: Shown = "inconclusive" if least > ALPHA else "not shown"
    return replace(change, p=p, least_p=least, shown=shown)


def _fate(before: Sequence[RunSummary], after: Sequence[RunSummary]) -> Fate:
    """Return the change of the verdict.

    Faults are injected at the same places every time. So a scenario that was always as
    expected, and once is not, is a regression for any number of repeats. For one that
    was not always as expected, the shares are compared.
    """
    if not after:
        return "missing"
    stood, stands = _standing(before), _standing(after)
    if stands < len(after) and all(r.standing in ("expected", "undecided") for r in after):
        return "inconclusive"
    if not before:
        return "new" if stands == len(after) else "new, fails"
    if stands == len(after):
        return "same" if stood == len(before) else "fixed"
    always_stood = stood == len(before)
    if always_stood or (stood and fewer_p(stood, len(before), stands, len(after)) <= ALPHA):
        return "regression"
    return "still fails" if stood == stands == 0 else "varies"


def _standing(runs: Sequence[RunSummary]) -> int:
    return sum(run.standing == "expected" for run in runs)


def _differences(
    before: Sequence[RunSummary], after: Sequence[RunSummary]
) -> dict[str, tuple[str, str]]:
    """Return the versions and backends that differ between the sides."""
    left, right = _settings(before), _settings(after)
    found = {name: (left.get(name, "-"), right.get(name, "-")) for name in sorted({*left, *right})}
    return {name: values for name, values in found.items() if values[0] != values[1]}


def _settings(runs: Sequence[RunSummary]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for run in runs:
        for name, value in {**run.versions, "backend": run.backend or "-"}.items():
            found.setdefault(name, set()).add(value)
    return {name: ", ".join(sorted(values)) for name, values in found.items()}


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
    least_p: float


def rank_test(first: Sequence[float], second: Sequence[float]) -> RankTest:
    """Compare two samples; both must have values."""
    assert first
    assert second
    ranks = doubled_ranks([*first, *second])
    mine = sum(ranks[len(first) :])
    count = len(first), len(second)
    exact = sum(count) * min(count) <= EXACT_MAX
    # All sums are doubled, to stay in whole numbers: the mean is size * (n + 1).
    out = abs(mine - count[1] * (len(ranks) + 1))
    p = _exact_p(ranks, min(count), out) if exact else _normal_p(ranks, count, out)
    delta = (mine - count[1] * (len(ranks) + 1)) / (count[0] * count[1])
    return RankTest(p, delta, least_p(*count))


def least_p(first: int, second: int) -> float:
    """Return the p of two samples of so many values that do not overlap, which is the lowest."""
    return min(1.0, 2 / math.comb(first + second, first))


def holm(values: Sequence[float]) -> list[float]:
    """Correct p values for their number, in their order, so that they bound any false alarm."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    corrected, highest = [0.0] * len(values), 0.0
    for done, place in enumerate(order):
        highest = max(highest, min(1.0, values[place] * (len(values) - done)))
        corrected[place] = highest
    return corrected


def doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value, so that shared ranks are whole numbers."""
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    ranks: list[int] = (2 * sizes.cumsum() - sizes + 1)[group].tolist()
    return ranks


def _exact_p(ranks: Sequence[int], size: int, out: int) -> float:
    """Return the share of the ways to choose `size` ranks whose sum lies `out` from its mean.

    The number of ways to each sum is held in one long whole number, with a fixed number
    of bytes for each sum: a shift adds a rank to every sum.
    """
    every = math.comb(len(ranks), size)
    width = (every.bit_length() + 7) // 8
    ways = [1, *([0] * size)]
    for rank in ranks:
        for chosen in range(size, 0, -1):
            ways[chosen] += ways[chosen - 1] << (8 * width * rank)
    counts = ways[size].to_bytes(width * (sum(sorted(ranks)[-size:]) + 1), "little")
    mean = size * (len(ranks) + 1)
    far = sum(
        int.from_bytes(counts[width * total : width * (total + 1)], "little")
        for total in range(len(counts) // width)
        if abs(total - mean) >= out
    )
    return far / every


def _normal_p(ranks: Sequence[int], count: tuple[int, int], out: int) -> float:
    """Approximate, with the variance that ties leave and a correction for continuity."""
    total = len(ranks)
    spread = sum((rank - (total + 1)) ** 2 for rank in ranks)
    variance = count[0] * count[1] * spread / (total * (total - 1))
    if variance == 0:
        return 1.0
    return math.erfc(max(0.0, out - 1) / math.sqrt(2 * variance))


def fewer_p(stood: int, before: int, stands: int, after: int) -> float:
    """Return the chance of `stands` or fewer of `after`, if both sides stand equally often."""
    total, good = before + after, stood + stands
    ways = (
        math.comb(good, k) * math.comb(total - good, after - k)
        for k in range(max(0, after - (total - good)), stands + 1)
    )
    return sum(ways) / math.comb(total, after)
