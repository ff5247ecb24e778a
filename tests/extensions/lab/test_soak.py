"""A soak begins one seed after another until its time is up, and ends with what cannot run."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from chaos.cli.run import SuiteRequest, run_request
from chaos.extensions.lab.soak import Soak
from chaos.extensions.lab.soak_result import SOAK, SoakResult
from chaos.report.outcome import SuiteRow, build_suite_row
from tests.report.conftest import clean_history, run_of, struck_history

FILES = (Path("a.chaos.yaml"), Path("b.chaos.yaml"))


class Clock:
    """A clock that a run moves on by ten seconds."""

    def __init__(self) -> None:
        self.ns = 0

    def now_ns(self) -> int:
        return self.ns

    def wall_ns(self) -> int:
        return self.ns

    def sleep(self, seconds: float) -> None:
        self.ns += int(seconds * 1e9)


@dataclass
class FakeHarness:
    """Runs that take ten seconds each."""

    clock: Clock
    fails: bool = False
    empty: frozenset[int] = frozenset()
    ran: list[tuple[str, int, int | None]] = field(default_factory=list)
    backend: object = None

    def load_plans(self, files: Sequence[Path], *, seed: int, backend: str) -> list[Any]:
        assert backend == "fork"
        nothing = seed in self.empty
        return [
            SimpleNamespace(name=file.name[0], seed=seed, has_empty_draw=nothing) for file in files
        ]

    def run_suite_plan(self, plan: Any, *, repeat: int | None = None) -> SuiteRow:
        self.ran.append((plan.name, plan.seed, repeat))
        self.clock.sleep(10)
        verdict: Any = None if self.fails else SimpleNamespace(as_expected=True)
        return SuiteRow(plan.name, plan.name, None, verdict, "broken" if self.fails else None, 10.0)


def soaked(
    limit_s: float, *, fails: bool = False, empty: frozenset[int] = frozenset()
) -> list[tuple[str, int, int | None]]:
    clock = Clock()
    harness = FakeHarness(clock, fails, empty)
    asked = SuiteRequest(FILES, range(5, 5), 5, "fork", 1, Soak(limit_s, clock))
    rows = list(run_request([harness], asked))  # type: ignore[list-item]

    assert len(rows) == len(harness.ran)
    return harness.ran


def test_each_scenario_has_one_seed_after_another() -> None:
    assert soaked(35) == [("a", 5, 1), ("b", 5, 1), ("a", 6, 2), ("b", 6, 2)]


def test_every_scenario_runs_once_however_short_it_is() -> None:
    assert soaked(1) == [("a", 5, 1), ("b", 5, 1)]


def test_seeds_that_draw_no_fault_are_passed_over_but_for_the_first() -> None:
    assert soaked(35, empty=frozenset({5, 6})) == [
        ("a", 5, 1),
        ("b", 5, 1),
        ("a", 7, 3),
        ("b", 7, 3),
    ]


def test_where_no_seed_draws_a_fault_it_ends() -> None:
    assert soaked(1000, empty=frozenset(range(5, 5000))) == [("a", 5, 1), ("b", 5, 1)]


def test_what_cannot_run_ends_it() -> None:
    assert soaked(1000, fails=True) == [("a", 5, 1)]


def test_a_run_as_expected_is_kept_without_its_diagnosis() -> None:
    row = build_suite_row(run_of(struck_history(), baseline=clean_history()))
    assert row.verdict is not None
    resume: Any = object()
    full = replace(row, verdict=row.verdict.model_copy(update={"diagnosis": (resume,)}))
    wrong = full.verdict and full.verdict.model_copy(update={"as_expected": False})
    surprise = replace(full, verdict=wrong)
    soak = Soak(1, Clock())

    assert soak.shrink_row(full) == replace(
        row, verdict=row.verdict.model_copy(update={"diagnosis": ()})
    )
    assert soak.shrink_row(surprise) is surprise


def test_its_figures_lie_beside_the_suites(tmp_path: Path) -> None:
    assert Soak(10, Clock()).finish(tmp_path) == ()
    read = SoakResult.model_validate_json((tmp_path / SOAK).read_text())
    assert read == SoakResult(seconds=0, runs=(), own=())
