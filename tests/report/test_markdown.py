"""Markdown that GitHub shows, and commands that it takes."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.report.ci import SHOWN, AnnotatedLine, build_annotations, find_failure_type
from chaos.report.goodput import build_goodput
from chaos.report.markdown import render_run_markdown, render_suite_markdown
from chaos.report.markdown_parts import LIMIT_BYTES, escape_markdown, fit_text
from chaos.report.outcome import FinishedRun, build_suite_row, build_unrun_row
from chaos.run.ci import STEP_LIMIT_BYTES, add_to_step_summary, is_github_actions, locate_scenario
from tests.needs import needs_extension


def tables(text: str) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [table for table in found if table]


def test_every_row_of_a_table_has_as_many_cells_as_its_head(guilty_run: FinishedRun) -> None:
    evil = guilty_run.plan.model_copy(update={"scenario": "a | b\n# c <img src=x> `d` [e](f)"})
    run = replace(guilty_run, plan=evil)
    for text in (render_run_markdown(run), render_suite_markdown([build_suite_row(run)])):
        for table in tables(text):
            cells = {line.replace(r"\|", "").count("|") for line in table}
            assert len(cells) == 1
        assert "<img" not in text.replace(r"\<", "")
        assert "\n# c" not in text


def test_unknown_is_no_green_sign(unknown_run: FinishedRun) -> None:
    assert render_run_markdown(unknown_run).startswith("# ❔ worker killed")
    assert "✅" not in render_run_markdown(unknown_run)


def test_the_phases_of_a_run_stand_beside_the_baselines(valid_run: FinishedRun) -> None:
    found = build_goodput(valid_run.analysis)
    assert found is not None
    rows = {row.phase: row for row in found.rows}

    assert found.sentence.startswith("42% of 13.27 s was productive (the baseline: 59%)")
    assert rows["detect"].baseline == "0.00 s"
    assert rows["replay"].by_attempt == ("0.33 s", "0.00 s")


def test_a_run_that_recorded_nothing_has_no_goodput(valid_run: FinishedRun) -> None:
    nothing = replace(valid_run, history=type(valid_run.history)([]), baseline=None)

    assert build_goodput(nothing.analysis) is None
    assert "## Goodput" not in render_run_markdown(nothing)


def test_a_suite_names_what_is_amiss(valid_run: FinishedRun, guilty_run: FinishedRun) -> None:
    text = render_suite_markdown(
        [
            build_suite_row(valid_run),
            build_suite_row(guilty_run),
            build_unrun_row(scenario="s", file="f", error="bad | file"),
        ]
    )

    assert text.startswith("# ❌ chaos: 2 of 3 ")
    assert "42%" in text
    assert "bad \\| file" in text
    assert text.count("\n## ❌") == 2


def test_what_is_too_long_is_cut_at_a_line_and_says_so() -> None:
    text = "\n".join(f"line {number} é" for number in range(1000))
    short = fit_text(text, limit=500)

    assert len(short.encode()) <= 500
    assert short.endswith("(cut here: the rest is in the report)\n")
    assert short.splitlines()[10] == "line 10 é"
    assert fit_text(text, limit=LIMIT_BYTES) == text


def test_a_large_suite_stays_below_githubs_limit(guilty_run: FinishedRun) -> None:
    assert (
        len(render_suite_markdown([build_suite_row(guilty_run)] * 5000).encode()) < STEP_LIMIT_BYTES
    )


def test_plain_words_stay_as_they_are() -> None:
    assert escape_markdown("a worker is killed\n at 5.2 s") == "a worker is killed at 5.2 s"


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


@pytest.mark.parametrize(
    "module",
    [
        pytest.param("chaos.extensions.lab.compare.comparison", marks=needs_extension("lab")),
        "chaos.report.markdown",
    ],
)
def test_reading_old_runs_starts_neither_ray_nor_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit(bool({{'ray', 'torch'}} & set(sys.modules)))"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
