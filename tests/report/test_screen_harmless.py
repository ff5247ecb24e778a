"""Whatever a record holds, no terminal obeys it, and neither does CI."""

import json
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.report.ci import AnnotatedLine, build_annotations, render, render_json
from chaos.report.markdown import render_run_markdown, render_suite_markdown
from chaos.report.outcome import FinishedRun, build_suite_row, build_unrun_row
from chaos.report.screen import escape_commands, escape_controls, join_lines
from tests.report.hostile import HOSTILE, OBEYED, named


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_nothing_that_is_obeyed_is_left(text: str) -> None:
    assert not OBEYED.search(escape_controls(text))


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_words_stay_as_they_are(text: str) -> None:
    assert escape_controls(text) == text


def test_control_characters_are_written_out_and_lines_stay() -> None:
    assert escape_controls("a\x1b[2J\x9b\u202e\n\tb\r") == "a\\u001b[2J\\u009b\\u202e\n\tb\\u000d"


def test_json_means_the_same_afterwards() -> None:
    text = json.dumps({"name": "\x1b\x7f\x9b\u202e\u2028"}, ensure_ascii=False)

    assert json.loads(escape_controls(text)) == json.loads(text)


@pytest.mark.parametrize("line", ["::error::x", "  ::warning::x", "a\n\t::add-mask::x"])
def test_no_line_is_a_command(line: str) -> None:
    assert not re.search(r"(?m)^\s*::", escape_commands(line))


def test_the_older_form_of_commands_is_none_either() -> None:
    assert "##[" not in escape_commands("see ##[error]x")
    assert escape_commands("test_x.py::test_y # [a]") == "test_x.py::test_y # [a]"


def test_markdown_of_a_hostile_run_has_neither(guilty_run: FinishedRun) -> None:
    run = named(guilty_run)
    for text in (render_run_markdown(run), render_suite_markdown([build_suite_row(run)])):
        assert not OBEYED.search(text)
        assert not re.search(r"(?m)^\s*::", text)


def test_a_reason_that_begins_as_a_command_is_none_in_markdown() -> None:
    row = build_unrun_row("s", "f", "::error::boom")

    assert "\n\\::error::boom\n" in render_suite_markdown([row])


def test_junit_of_a_hostile_run_can_be_read_and_shows_what_was_there(
    guilty_run: FinishedRun,
) -> None:
    root = ET.fromstring(render([build_suite_row(named(guilty_run))]))
    (case,) = root.iter("testcase")

    assert case.get("name") == escape_controls(HOSTILE)
    assert not any(OBEYED.search(text) for text in root.itertext())


def test_an_annotation_of_a_hostile_run_is_one_line(guilty_run: FinishedRun) -> None:
    (line,) = build_annotations(
        [build_suite_row(named(guilty_run))], [AnnotatedLine("f\n::error::x", 1)]
    )

    assert not OBEYED.search(line)
    assert len(line.splitlines()) == 1


def test_json_of_a_hostile_run_is_written_out_on_its_way(guilty_run: FinishedRun) -> None:
    text = render_json(named(guilty_run))

    assert json.loads(escape_controls(text))["summary"]["scenario"] == HOSTILE


def test_one_line_is_one_line() -> None:
    assert join_lines("a\n::error::b\x1b") == "a ::error::b\\u001b"
