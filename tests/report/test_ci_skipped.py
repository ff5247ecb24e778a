"""A scenario that was skipped is seen everywhere, and is neither green nor red anywhere."""

from xml.etree import ElementTree as ET

import pytest

from chaos.cli.run import find_exit_code
from chaos.report import ci
from chaos.report.ci import AnnotatedLine, build_annotations, build_summary
from chaos.report.html import render_suite
from chaos.report.markdown import render_suite_markdown
from chaos.report.outcome import (
    FinishedRun,
    SuiteRow,
    build_skipped_row,
    build_suite_row,
    build_unrun_row,
)
from chaos.report.terminal import build_closing_line
from tests.report.past import past_suite

WHY = "the job needs lightning. pip install it"
SKIPPED = build_skipped_row("needs more", "x.chaos.yaml", WHY)
NOT_RUN = build_unrun_row("wrong", "y.chaos.yaml", "y.chaos.yaml:1: no")


@pytest.fixture
def rows(valid_run: FinishedRun) -> list[SuiteRow]:
    return [build_suite_row(valid_run), SKIPPED]


@pytest.mark.parametrize(
    ("others", "code"),
    [([], 2), (["pass"], 0), (["inconclusive"], 2), (["guilty"], 1), (["not run"], 3)],
)
def test_the_exit_code_is_that_of_what_ran(
    others: list[str],
    code: int,
    valid_run: FinishedRun,
    unknown_run: FinishedRun,
    guilty_run: FinishedRun,
) -> None:
    known = {"pass": valid_run, "inconclusive": unknown_run, "guilty": guilty_run}
    beside = [build_suite_row(known[name]) if name in known else NOT_RUN for name in others]

    assert find_exit_code([SKIPPED, *beside]) == code


def test_junit_says_skipped_with_the_reason(rows: list[SuiteRow]) -> None:
    (suite,) = ET.fromstring(ci.render(rows))
    case = suite.find("testcase/skipped")

    assert (suite.get("skipped"), suite.get("errors"), suite.get("failures")) == ("1", "0", "0")
    assert case is not None
    assert case.attrib["message"] == WHY


def test_the_suites_page_counts_it_and_says_why(rows: list[SuiteRow]) -> None:
    page = render_suite(rows, past_suite())

    assert '<section class="banner good"' in page
    assert "<dt>skipped</dt><dd>1</dd>" in page
    assert WHY in page


def test_a_page_on_which_nothing_ran_is_not_green() -> None:
    page = render_suite([SKIPPED], past_suite())

    assert '<section class="banner open"' in page


def test_in_a_terminal_and_in_markdown_it_has_a_sign_of_its_own(rows: list[SuiteRow]) -> None:
    assert build_closing_line(rows).plain == "✓ 1 as expected   - 1 skipped"
    shown = render_suite_markdown(rows)
    assert "⏭️ needs more" in shown
    assert WHY in shown


def test_github_shows_a_notice_and_no_error(rows: list[SuiteRow]) -> None:
    (shown,) = build_annotations(rows, [AnnotatedLine("a", 1), AnnotatedLine("x", 2)])

    assert shown.startswith("::notice file=x,line=2,title=skipped%3A needs more::")


def test_errors_and_notices_are_counted_apart() -> None:
    rows = [NOT_RUN] * 12 + [SKIPPED] * 12

    shown = [*build_annotations(rows, [AnnotatedLine("x", 1)] * 24)]

    assert [line.partition(" ")[0] for line in shown] == ["::error"] * 10 + ["::notice"] * 10
    assert "3 more scenarios are not as expected" in shown[9]
    assert "3 more scenarios were skipped" in shown[19]


def test_the_summary_for_machines_says_so() -> None:
    kept = build_summary(SKIPPED)

    assert (kept.standing, kept.headline, kept.error, kept.status) == ("skipped", WHY, None, None)
