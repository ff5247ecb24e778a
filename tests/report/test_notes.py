"""What is worth knowing of a job stands in every report of it, whatever its verdict is."""

from dataclasses import replace

import pytest

from chaos.report.html import render_run
from chaos.report.markdown import render_run_markdown
from chaos.report.outcome import FinishedRun, build_suite_row
from chaos.report.terminal import build_explanation, explain_findings, render_plain_text

NOTE = "all ranks train the same samples"


@pytest.fixture
def noted(valid_run: FinishedRun) -> FinishedRun:
    verdict = valid_run.verdict.model_copy(update={"notes": (NOTE,)})
    return replace(valid_run, verdict=verdict)


def test_a_note_stands_on_the_page_in_the_summary_and_in_the_terminal(noted: FinishedRun) -> None:
    assert NOTE in render_run(noted)
    assert NOTE in render_run_markdown(noted)
    assert NOTE in render_plain_text(build_explanation(noted), width=200)


def test_a_suite_tells_a_note_once(noted: FinishedRun) -> None:
    rows = [build_suite_row(noted), build_suite_row(noted)]

    told = "\n".join(render_plain_text(each, width=200) for each in explain_findings(rows))

    assert told == f"note: {NOTE} ({rows[0].scenario} and 1 more)"
