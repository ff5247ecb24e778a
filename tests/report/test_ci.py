"""What GitHub is told: annotations, and the summary of a step."""

from dataclasses import replace
from pathlib import Path

import pytest

from chaos.report.ci import SHOWN, AnnotatedLine, build_annotations, find_failure_type
from chaos.report.outcome import FinishedRun, build_suite_row, build_unrun_row
from chaos.run.ci import STEP_LIMIT_BYTES, add_to_step_summary, is_github_actions, locate_scenario


def test_one_annotation_per_failed_scenario_at_its_line(
    valid_run: FinishedRun, guilty_run: FinishedRun
) -> None:
    rows = [
        build_suite_row(valid_run),
        build_suite_row(guilty_run),
        build_unrun_row(scenario="a: b", file="g", error="1\n2"),
    ]
    places = [
        AnnotatedLine("v.yaml", 1),
        AnnotatedLine("s/g,1.yaml", 3),
        AnnotatedLine("n.yaml", 2),
    ]
    guilty, broken = build_annotations(rows, places)

    assert guilty.startswith(
        "::error file=s/g%2C1.yaml,line=3,title=numbers-differ-at-resume%3A worker killed"
    )
    assert "10 %25" in guilty
    assert "%0Achaos replay reports/" in guilty
    assert broken == "::error file=n.yaml,line=2,title=could not run%3A a%3A b::1%0A2"


def test_what_is_broken_in_an_inconclusive_run_is_no_finding(guilty_run: FinishedRun) -> None:
    row = build_suite_row(guilty_run)
    assert row.verdict is not None
    undecided = replace(row, verdict=row.verdict.replace(status="inconclusive"))

    assert find_failure_type(row) == "numbers-differ-at-resume"
    assert find_failure_type(undecided) == "inconclusive"


def test_what_github_would_not_show_is_counted(guilty_run: FinishedRun) -> None:
    rows, places = [build_suite_row(guilty_run)] * 30, [AnnotatedLine("f", 1)] * 30
    said = list(build_annotations(rows, places))

    assert len(said) == SHOWN
    assert "title=21 more scenarios" in said[-1]
    assert len(list(build_annotations(rows[:SHOWN], places[:SHOWN]))) == SHOWN


def test_a_step_summary_is_appended_to_and_never_grown_beyond_its_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "summary.md"
    environ = {"GITHUB_STEP_SUMMARY": str(file)}

    assert add_to_step_summary(environ, "one")
    assert add_to_step_summary(environ, "two")
    assert not add_to_step_summary(environ, "x" * STEP_LIMIT_BYTES)
    assert file.read_text() == "one\ntwo\n"
    assert not add_to_step_summary({}, "three")
    assert "would be longer" in capsys.readouterr().err


def test_a_summary_that_cannot_be_written_is_noted_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not add_to_step_summary({"GITHUB_STEP_SUMMARY": str(tmp_path)}, "one")
    assert f"{tmp_path}: Is a directory" in capsys.readouterr().err


def test_github_is_known_by_its_own_word() -> None:
    assert is_github_actions({"GITHUB_ACTIONS": "true"})
    assert not is_github_actions({"GITHUB_ACTIONS": "false"})
    assert not is_github_actions({})


def test_a_scenario_is_found_from_the_repositorys_root(tmp_path: Path) -> None:
    file = tmp_path / "scenarios" / "a.chaos.yaml"
    file.parent.mkdir()
    file.write_text("# a comment\n\nscenario: killed\njob: {}\n")

    assert locate_scenario(file, {"GITHUB_WORKSPACE": str(tmp_path)}) == (
        "scenarios/a.chaos.yaml",
        3,
    )
    assert locate_scenario(tmp_path / "gone.yaml", {"GITHUB_WORKSPACE": "/elsewhere"}) == (
        str(tmp_path / "gone.yaml"),
        1,
    )
