"""How often each statistic errs, and whether others get the same figures: `docs/statistics.md`.

`python -m tests.tools.rates` (or `make statistics`) writes its tables, in two minutes of one core.
Everything is drawn from seeds, so that the page is the same wherever it is made.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from chaos.check.prediction_band import PROFILES, find_student_quantile
from chaos.extensions.guard.records import LOSSES_KEPT
from chaos.extensions.guard.steps import BLOCK, WINDOW_MIN, has_risen
from chaos.extensions.lab.compare.comparison import (
    MEASURES,
    compare_ranks,
    compare_runs,
    compute_fewer_p,
    correct_p_values,
    double_ranks,
    repeats_needed,
)
from chaos.extensions.lab.selftest.score import Rate
from chaos.model.bounds import Tolerance
from chaos.model.summary import RunSummary
from chaos.report.markdown_parts import build_table_lines
from tests.check.clean_runs import DEFECTS, NOISES, RANKS, STEPS, found, hidden, rate
from tests.report.past import past_run

PAGE = Path(__file__).parents[2] / "docs/statistics.md"
BEGIN, END = "<!-- {}: written by make statistics -->", "<!-- end of {} -->"
STANDARD = PROFILES["standard"][1]


@dataclass(frozen=True)
class Effort:
    """How often each thing is tried, as a part of what the page is made with."""

    part: float = 1.0

    def of(self, trials: int) -> int:
        """Return how many trials are made where the page has so many."""
        return max(2, round(trials * self.part))


# -- the same figures as others ------------------------------------------------------------------


def agreement(effort: Effort) -> list[str]:
    """Return the table of the largest differences from scipy, or from the definition."""
    head = ("what", "against", "cases", "largest difference")
    rows = (
        ("rank test, no ties, up to 12 values", "scipy, exact", 300, _rank(12, 12)),
        ("rank test, no ties, 3 values against 30", "scipy, exact", 100, _rank(3, 30, least=True)),
        ("rank test, no ties, 50 against 50", "scipy, exact", 20, _rank(50, 50, least=True)),
        ("rank test, ties, up to 5 against 5", "all choices", 200, _tied),
        ("rank test, ties, 60 against 60", "scipy, asymptotic", 50, _normal),
        ("Holm's correction", "closed testing", 200, _holm),
        ("Fisher's exact test, one-sided", "scipy", 300, _fisher),
        ("Wilson's interval", "scipy", 300, _wilson),
        ("Student's quantile, relative", "scipy", 300, _student),
    )
    return build_table_lines(
        head,
        [
            (what, other, str(cases), _power(_largest(one, effort.of(cases))))
            for what, other, cases, one in rows
        ],
        numbers=range(2, len(head)),
    )


def _power(value: float) -> str:
    return f"{value:.0e}" if value else "0"


One = Callable[[np.random.Generator], float]


def _largest(one: One, cases: int) -> float:
    draws = np.random.default_rng(1)
    return max(one(draws) for _ in range(cases))


def _rank(first: int, second: int, *, least: bool = False) -> One:
    def one(draws: np.random.Generator) -> float:
        sizes = (first, second) if least else draws.integers(1, (first + 1, second + 1))
        ours, theirs = (draws.normal(size=size).tolist() for size in sizes)
        expected = stats.mannwhitneyu(ours, theirs, method="exact").pvalue
        return abs(compare_ranks(ours, theirs).p - float(expected))

    return one


def _tied(draws: np.random.Generator) -> float:
    ours, theirs = (draws.integers(0, 4, size=size).tolist() for size in draws.integers(1, 6, 2))
    ranks = double_ranks([*ours, *theirs])
    mean = len(theirs) * (len(ranks) + 1)
    out = abs(sum(ranks[len(ours) :]) - mean)
    far = [abs(sum(chosen) - mean) >= out for chosen in combinations(ranks, len(theirs))]
    return abs(compare_ranks(ours, theirs).p - sum(far) / len(far))


def _normal(draws: np.random.Generator) -> float:
    ours, theirs = draws.integers(0, 9, size=(2, 60)).tolist()
    expected = stats.mannwhitneyu(ours, theirs, method="asymptotic").pvalue
    return abs(compare_ranks(ours, theirs).p - float(expected))


def _holm(draws: np.random.Generator) -> float:
    """Compare with the closed test of which it is a short cut: every set, by Bonferroni."""
    values: list[float] = (draws.uniform(size=draws.integers(1, 8)) ** 2).tolist()
    places = range(len(values))
    sets = [c for size in range(1, len(values) + 1) for c in combinations(places, size)]
    worst = {chosen: min(1.0, len(chosen) * min(values[p] for p in chosen)) for chosen in sets}
    expected = [max(p for chosen, p in worst.items() if place in chosen) for place in places]
    return max(abs(a - b) for a, b in zip(correct_p_values(values), expected, strict=True))


def _fisher(draws: np.random.Generator) -> float:
    before, after = (int(n) for n in draws.integers(1, 30, 2))
    stood, stands = int(draws.integers(0, before + 1)), int(draws.integers(0, after + 1))
    cells = [[stands, after - stands], [stood, before - stood]]
    expected = stats.fisher_exact(cells, alternative="less").pvalue
    return abs(compute_fewer_p(stood, before, stands, after) - float(expected))


def _wilson(draws: np.random.Generator) -> float:
    total = int(draws.integers(1, 500))
    count = int(draws.integers(0, total + 1))
    expected = stats.binomtest(count, total).proportion_ci(method="wilson")
    low, high = Rate(count, total).bounds
    return max(abs(low - float(expected.low)), abs(high - float(expected.high)))


def _student(draws: np.random.Generator) -> float:
    degrees, tail = int(draws.integers(1, 201)), float(10 ** -draws.uniform(0.5, 8))
    return abs(float(find_student_quantile(tail, degrees) / stats.t.isf(tail, degrees)) - 1)


# -- chaos compare -------------------------------------------------------------------------------

NOTHING_CHANGED = (
    (1, 5, "continuous", 2_000),
    (1, 5, "tied", 2_000),
    (1, 10, "continuous", 1_000),
    (1, 20, "tied", 500),
    (6, 8, "continuous", 300),
    (1, 3, "continuous", 200),
    (1, 4, "continuous", 200),
)


def false_regressions(effort: Effort) -> list[str]:
    """Return the table of comparisons that tell a change where nothing changed."""
    head = ("scenarios x repeats", "values", "worse", "better")
    rows = []
    for scenarios, repeats, values, trials in NOTHING_CHANGED:
        worse, better = _told(scenarios, repeats, values, effort.of(trials))
        rows.append((f"{scenarios} x {repeats}", values, _counted(worse), _counted(better)))
    return build_table_lines(head, rows, numbers=range(2, len(head)))


def _counted(rate: Rate) -> str:
    """Return a share in per cent, with its interval of 95 %, as the page says."""
    low, high = (100 * bound for bound in rate.bounds)
    return f"{100 * rate.count / rate.total:.2g} ({low:.1f}-{high:.1f})"


def _told(scenarios: int, repeats: int, values: str, trials: int) -> tuple[Rate, Rate]:
    draws = np.random.default_rng(1)
    told = [
        {
            change.result
            for row in compare_runs(
                *(_suite(draws, scenarios, repeats, values) for _ in range(2))
            ).scenarios
            for change in row.changes
        }
        for _ in range(trials)
    ]
    worse, better = (sum(word in words for words in told) for word in ("worse", "better"))
    return Rate(worse, trials), Rate(better, trials)


def _suite(
    draws: np.random.Generator, scenarios: int, repeats: int, values: str
) -> list[RunSummary]:
    digits = 1 if values == "tied" else 12
    return [
        past_run(
            f"s{scenario}",
            recovery_s=round(float(draws.lognormal(1, 0.2)), digits),
            lost_steps=int(draws.poisson(3 if values == "tied" else 1e9)),
            goodput=round(float(draws.beta(20, 5)), digits),
        )
        for scenario in range(scenarios)
        for _ in range(repeats)
    ]


def repeats(_: Effort) -> list[str]:
    """Return the table of repeats that could show a change."""
    many = (1, 2, 6, 12, 28, 50, 100)
    needed = [str(repeats_needed(len(MEASURES) * scenarios)) for scenarios in many]
    head = ("scenarios", *map(str, many))
    return build_table_lines(head, [("repeats on each side", *needed)], numbers=range(1, len(head)))


# -- bands ---------------------------------------------------------------------------------------

SETTINGS = ((5, None), (5, STANDARD), (10, None), (10, STANDARD))
PARTS = (0.01, 0.03, 0.1)


def false_alarms(effort: Effort) -> list[str]:
    """Return the table of clean runs that leave the band of other clean runs."""
    trials = effort.of(1_000)
    settings = (_setting(clean, allowance) for clean, allowance in SETTINGS)
    head = ("noise", *settings, "half a band of 5")
    rows = [
        (
            noise,
            *(
                _counted(Rate(rate(noise, clean=clean, trials=trials, allowance=allowance), trials))
                for clean, allowance in SETTINGS
            ),
            f"{_width(noise):.1f}",
        )
        for noise in NOISES
    ]
    return build_table_lines(head, rows, numbers=range(1, len(head)))


def _setting(clean: int, allowance: Tolerance | None) -> str:
    return f"{clean} runs" + (", `standard`" if allowance else "")


def _width(noise: str) -> float:
    draws = np.random.default_rng(1)
    shape = (5, STEPS, RANKS)
    return float(np.median([hidden(1 + NOISES[noise](draws, shape)) for _ in range(50)]))


def defects_found(effort: Effort) -> list[str]:
    """Return the table of trainings in which a defect shows."""
    trials = effort.of(200)
    settings = [(clean, noise) for clean in (5, 10) for noise in PARTS]
    head = ("defect", *(f"{clean} runs, {100 * noise:.0f} %" for clean, noise in settings))
    rows = [
        (defect, *(_shown(defect, clean, noise, trials) for clean, noise in settings))
        for defect in DEFECTS
    ]
    return build_table_lines(head, rows, numbers=range(1, len(head)))


def _shown(defect: str, clean: int, noise: float, trials: int) -> str:
    count = found(defect, clean=clean, trials=trials, noise=noise, allowance=STANDARD)
    return f"{100 * count / trials:.0f}"


# -- losses after a restart ----------------------------------------------------------------------

WINDOWS = (WINDOW_MIN, LOSSES_KEPT)
RISES = (1.5, 2.0, 3.0)  # in spreads of a loss
SERIES: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "independent normal": lambda draws, count: draws.normal(size=count),
    "heavy tails (t, 3 degrees)": lambda draws, count: draws.standard_t(3, size=count),
    "lognormal": lambda draws, count: draws.lognormal(size=count),
    "one loss in a hundred 30 spreads higher": lambda draws, count: (
        draws.normal(size=count) + 30 * (draws.uniform(size=count) < 0.01)
    ),
    "each half of the one before (autoregressive, 0.5)": lambda draws, count: _wandering(
        draws, count, 0.5
    ),
    "each nine tenths of the one before (0.9)": lambda draws, count: _wandering(draws, count, 0.9),
}


def rises(effort: Effort) -> list[str]:
    """Return the table of restarts whose first losses are said to lie above those before."""
    trials = effort.of(10_000)
    head = ("losses", *(f"{window} before" for window in WINDOWS))
    rows = [
        (name, *(_counted(_risen(series, window, trials)) for window in WINDOWS))
        for name, series in SERIES.items()
    ]
    normal = SERIES["independent normal"]
    found = [
        (
            f"normal, and {rise:g} spreads higher after the restart",
            *(_counted(_risen(normal, window, effort.of(1_000), rise)) for window in WINDOWS),
        )
        for rise in RISES
    ]
    return build_table_lines(head, [*rows, *found], numbers=range(1, len(head)))


def _risen(
    series: Callable[[np.random.Generator, int], NDArray[np.float64]],
    window: int,
    trials: int,
    rise: float = 0.0,
) -> Rate:
    draws = np.random.default_rng(1)
    losses = (series(draws, window + BLOCK) for _ in range(trials))
    return Rate(
        sum(has_risen((one[window:] + rise).tolist(), one[:window].tolist()) for one in losses),
        trials,
    )


def _wandering(draws: np.random.Generator, count: int, part: float) -> NDArray[np.float64]:
    found = np.empty(count)
    found[0] = draws.normal() / np.sqrt(1 - part**2)
    for place, noise in enumerate(draws.normal(size=count - 1), start=1):
        found[place] = part * found[place - 1] + noise
    return found


TABLES: dict[str, Callable[[Effort], list[str]]] = {
    "agreement": agreement,
    "repeats": repeats,
    "false regressions": false_regressions,
    "false alarms": false_alarms,
    "defects found": defects_found,
    "rises": rises,
}


def with_tables(page: str, tables: Iterator[tuple[str, Sequence[str]]]) -> str:
    """Return the page with each table between its markers."""
    for name, lines in tables:
        begin, end = re.escape(BEGIN.format(name)), re.escape(END.format(name))
        body = "\n" + "\n".join(lines) + "\n\n"
        page, written = re.subn(f"(?<={begin}\n).*?(?={end})", body, page, flags=re.DOTALL)
        assert written == 1, f"{PAGE} has no place for {name}"
    return page


def made(effort: Effort = Effort()) -> Iterator[tuple[str, Sequence[str]]]:
    """Make one table after the other."""
    for name, make in TABLES.items():
        yield name, make(effort)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), made()), encoding="utf-8")
