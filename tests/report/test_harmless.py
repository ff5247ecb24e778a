"""Whatever a record holds, no terminal obeys it, and neither does CI."""

import json
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.report.ci import AnnotatedPlace, annotations, render, run_in_json
from chaos.report.markdown import run_in_markdown, suite_in_markdown
from chaos.report.outcome import FinishedRun, not_run, row_of
from chaos.report.screen import harmless, on_one_line, without_commands
from tests.report.hostile import HOSTILE, OBEYED, named


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_nothing_that_is_obeyed_is_left(text: str) -> None:
    assert not OBEYED.search(harmless(text))


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_words_stay_as_they_are(text: str) -> None:
    assert harmless(text) == text


def test_control_characters_are_written_out_and_lines_stay() -> None:
    assert harmless("a\x1b[2J\x9b\u202e\n\tb\r") == "a\\u001b[2J\\u009b\\u202e\n\tb\\u000d"


def test_json_means_the_same_afterwards() -> None:
    text = json.dumps({"name": "\x1b\x7f\x9b\u202e\u2028"}, ensure_ascii=False)

    assert json.loads(harmless(text)) == json.loads(text)


@pytest.mark.parametrize("line", ["::error::x", "  ::warning::x", "a\n\t::add-mask::x"])
def test_no_line_is_a_command(line: str) -> None:
    assert not re.search(r"(?m)^\s*::", without_commands(line))


def test_the_older_form_of_commands_is_none_either() -> None:
    assert "##[" not in without_commands("see ##[error]x")
    assert without_commands("test_x.py::test_y # [a]") == "test_x.py::test_y # [a]"


def test_markdown_of_a_hostile_run_has_neither(guilty_run: FinishedRun) -> None:
    run = named(guilty_run)
    for text in (run_in_markdown(run), suite_in_markdown([row_of(run)])):
        assert not OBEYED.search(text)
        assert not re.search(r"(?m)^\s*::", text)


def test_a_reason_that_begins_as_a_command_is_none_in_markdown() -> None:
    row = not_run("s", "f", "::error::boom")

    assert "\n\\::error::boom\n" in suite_in_markdown([row])


def test_junit_of_a_hostile_run_can_be_read_and_shows_what_was_there(
    guilty_run: FinishedRun,
) -> None:
    root = ET.fromstring(render([row_of(named(guilty_run))]))
    (case,) = root.iter("testcase")

    assert case.get("name") == harmless(HOSTILE)
    assert not any(OBEYED.search(text) for text in root.itertext())


def test_an_annotation_of_a_hostile_run_is_one_line(guilty_run: FinishedRun) -> None:
    (line,) = annotations([row_of(named(guilty_run))], [AnnotatedPlace("f\n::error::x", 1)])

    assert not OBEYED.search(line)
    assert len(line.splitlines()) == 1


def test_json_of_a_hostile_run_is_written_out_on_its_way(guilty_run: FinishedRun) -> None:
    text = run_in_json(named(guilty_run))

    assert json.loads(harmless(text))["summary"]["scenario"] == HOSTILE


def test_one_line_is_one_line() -> None:
    assert on_one_line("a\n::error::b\x1b") == "a ::error::b\\u001b"
