"""A scenario that ran several times in one suite: its gravest verdict, and how often it passed."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from chaos import report_store
from chaos.cli.run import SuiteRequest, run_request
from chaos.harness import Harness, write_suite
from chaos.model.verdict import Standing
from chaos.report.ci import render
from chaos.report.html import render_suite
from chaos.report.markdown import render_suite_markdown
from chaos.report.outcome import (
    FinishedRun,
    SuiteRow,
    build_skipped_row,
    build_suite_row,
    build_unrun_row,
    group_scenarios,
)
from chaos.report.sections import describe_suite
from chaos.report.terminal import build_closing_line, build_verdict_table, explain_findings
from chaos.run.clock import SystemClock
from tests.report.past import past_suite
from tests.report.test_terminal import written

ROOT = Path(__file__).parents[2]
SMOKE = ROOT / "scenarios/smoke/worker_killed_mid_epoch.chaos.yaml"


@pytest.fixture
def flaky(valid_run: FinishedRun, guilty_run: FinishedRun) -> list[SuiteRow]:
    """Return a scenario that passed in two of its three runs, and another that ran once."""
    rows = [build_suite_row(run) for run in (valid_run, guilty_run, valid_run)]
    waits = (9.0, 5.0, 7.0)
    repeats = [
        replace(row, scenario="killed", repeat=number, recovery_s=wait)
        for number, (row, wait) in enumerate(zip(rows, waits, strict=True), 1)
    ]
    return [*repeats, replace(rows[0], scenario="another")]


def test_the_verdict_of_a_scenario_is_the_gravest_of_its_runs(flaky: list[SuiteRow]) -> None:
    killed, another = group_scenarios(flaky)

    assert killed.worst_row is flaky[1]
    assert (killed.passed_count, killed.is_flaky, killed.tally) == (2, True, "2 of 3")
    assert killed.find_median(lambda row: row.recovery_s) == 7.0
    assert (another.is_flaky, another.tally) == (False, "-")


def test_a_seed_that_draws_no_fault_is_skipped_before_anything_runs(tmp_path: Path) -> None:
    harness = Harness(tmp_path, Console(file=None, quiet=True), ROOT, object(), SystemClock())  # type: ignore[arg-type]
    (plan,) = harness.load_plans([SMOKE], seed=3, backend="fork")

    row = harness.run_suite_plan(plan.model_copy(update={"is_drawn": True, "ops": ()}))

    assert row.standing == "skipped"
    assert "seed 3 draws no fault" in str(row.skipped)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("standings", "gravest"),
    [
        (("expected", "not_run"), "not_run"),
        (("undecided", "expected"), "undecided"),
        (("undecided", "not_run", "unexpected"), "unexpected"),
    ],
)
def test_an_expected_run_never_hides_another(
    standings: tuple[Standing, ...], gravest: Standing, flaky: list[SuiteRow]
) -> None:
    assert flaky[0].verdict is not None
    unsure = flaky[0].verdict.model_copy(update={"status": "inconclusive", "as_expected": False})
    made = {
        "expected": flaky[0],
        "unexpected": flaky[1],
        "undecided": replace(flaky[0], verdict=unsure),
        "not_run": replace(
            build_unrun_row(flaky[0].scenario, flaky[0].file, "no cluster"), repeat=3
        ),
    }

    (runs,) = group_scenarios([made[standing] for standing in standings])

    assert runs.worst_row.standing == gravest


def test_runs_that_are_no_repeats_are_each_their_own(valid_run: FinishedRun) -> None:
    row = build_suite_row(valid_run)

    assert len(group_scenarios([row, row])) == 2


def test_a_terminal_of_80_columns_shows_how_many_passed(flaky: list[SuiteRow]) -> None:
    text = written(build_verdict_table(flaky))
    lines = [" ".join(line.split()) for line in text.splitlines()]

    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert lines[0] == "scenario verdict passed lost steps recovery time"
    assert lines[1].startswith("killed ✗ fail 2 of 3 ")
    assert " 7.0 s " in lines[1]
    assert lines[2].startswith("another ✓ pass - ")
    assert written(build_closing_line(flaky)).split("   ") == [
        "✓ 1 as expected",
        "✗ 1 not as expected",
        "1 flaky\n",
    ]


def test_of_repeats_that_fail_one_is_explained_and_the_others_named(
    flaky: list[SuiteRow], guilty_run: FinishedRun
) -> None:
    again = replace(flaky[1], repeat=4)

    told = [written(each) for each in explain_findings([*flaky, again])]

    assert len([text for text in told if "replay" in text]) == 1
    assert told[1].startswith("✗ run 4: ")
    assert told[2].split() == [guilty_run.directory]


def test_markdown_and_the_page_show_how_many_passed(flaky: list[SuiteRow]) -> None:
    text = render_suite_markdown(flaky)
    page = render_suite(flaky, past_suite())

    assert text.startswith("# ❌ chaos: 1 of 2 ")
    assert "| ❌ killed | fail | 2 of 3 |" in text
    assert "## ❌ killed, run 2" in text
    assert "a suite of 2 scenarios" in page
    assert "killed</a>, run 2 (2 of 3 passed)" in page
    assert describe_suite(group_scenarios(flaky)) in page


def test_junit_has_a_name_of_its_own_for_each_repeat(flaky: list[SuiteRow]) -> None:
    cases = ET.fromstring(render(flaky)).iter("testcase")

    assert [case.get("name") for case in cases] == [
        "killed [1]",
        "killed [2]",
        "killed [3]",
        "another",
    ]


def test_a_suite_of_repeats_is_read_back_and_compared_by_scenario(
    flaky: list[SuiteRow], tmp_path: Path
) -> None:
    rows = [replace(row, directory=None) for row in flaky]
    suite = write_suite(tmp_path, rows, SystemClock()).parent

    comparison = pytest.importorskip("chaos.extensions.lab.compare.comparison")
    (killed, _) = comparison.compare_runs(
        report_store.load_summaries(suite), report_store.load_summaries(suite)
    ).scenarios

    assert [row.repeat for row in report_store.load_suite_rows(suite)] == [1, 2, 3, None]
    assert [run.repeat for run in killed.after_runs] == [1, 2, 3]
    assert killed.changes[0].before_values == (9.0, 5.0, 7.0)
    assert killed.outcome == "varies"


@pytest.mark.parametrize("what", ["runs", "could not run", "is skipped"])
def test_a_suite_runs_each_scenario_so_often_and_not_what_cannot_run(
    what: str, valid_run: FinishedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {
        "runs": build_suite_row(valid_run),
        "could not run": build_unrun_row("s", "f", "no cluster"),
        "is skipped": build_skipped_row("s", "f", "not installed"),
    }[what]
    monkeypatch.setattr(Harness, "run_suite_plan", lambda *_, repeat: replace(row, repeat=repeat))
    harness = Harness(tmp_path, Console(quiet=True), ROOT, object(), SystemClock())  # type: ignore[arg-type] # no run is executed

    def numbers(repeat: int) -> list[int | None]:
        asked = SuiteRequest([SMOKE, SMOKE], range(0), 0, "fork", repeat)
        return [each.repeat for each in run_request([harness], asked)]

    assert numbers(3) == ([1, 2, 3] * 2 if what == "runs" else [1, 1])
    assert numbers(1) == [None, None]
