"""`chaos list`: what there is, and one of it in full."""

import sys
from pathlib import Path
from typing import Any

import pytest

from chaos.cli import commands as cli
from chaos.extensions.catalogue.tables import Topic, build_catalogue, explain_name, list_names
from chaos.report.screen import render_plain
from tests.accepted import expect_text

ROOT = Path(__file__).parents[3]


def code_of(monkeypatch: pytest.MonkeyPatch, *words: str) -> Any:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "argv", ["chaos", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


@pytest.mark.parametrize("name", list_names())
def test_every_fault_and_every_check_is_explained_at_length(name: str) -> None:
    text = explain_name(name)

    assert text is not None
    assert len(text) > 100


def test_a_fault_is_explained_with_its_settings_and_how_it_is_written() -> None:
    text = explain_name("preempt_node") or ""

    assert "notice_s: needed; seconds between the notice and the deadline" in text
    assert "    preempt_node: {notice_s: …}" in text


def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of(monkeypatch, "list", "lost_work") == 3
    assert "Did you mean lost-work?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("topic", "told"), [("faults", "kill_worker"), ("checks", "lost-work"), ("places", "moment:")]
)
def test_each_topic_is_listed_and_fits_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], topic: Topic, told: str
) -> None:
    narrow = render_plain(lambda console: console.print(build_catalogue(topic)), width=80)

    assert code_of(monkeypatch, "list", topic) == 0
    assert told in capsys.readouterr().out
    assert max(map(len, narrow.splitlines())) <= 80


@pytest.mark.parametrize(
    ("topic", "line"),
    [
        ("scenarios", "scenarios/smoke/node_lost.chaos.yaml"),
        ("jobs", "scenarios/jobs/digits_ddp.py"),
    ],
)
def test_without_a_terminal_no_path_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], topic: str, line: str
) -> None:
    monkeypatch.chdir(ROOT)

    assert code_of(monkeypatch, "list", topic) == 0
    assert line in [said.partition(" ")[0] for said in capsys.readouterr().out.splitlines()]


def test_a_scenario_that_cannot_be_read_is_listed_as_such(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "x.chaos.yaml").write_text("nonsense: 1\n")
    monkeypatch.chdir(tmp_path)

    assert code_of(monkeypatch, "list", "scenarios", "--in", ".") == 0
    assert "cannot be read" in capsys.readouterr().out


def test_where_there_are_no_jobs_nothing_is_listed_as_if_there_were(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)

    assert code_of(monkeypatch, "list", "jobs") == 3
    expect_text(capsys.readouterr().err)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "true")

    assert code_of(monkeypatch, "--show-completion", shell) == 0
    assert "_CHAOS_COMPLETE" in capsys.readouterr().out


def test_shells_complete_the_names_of_faults_and_checks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_CHAOS_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "chaos list kill_w")
    monkeypatch.setenv("COMP_CWORD", "2")

    assert code_of(monkeypatch, "list", "kill_w") == 0
    assert capsys.readouterr().out.split() == ["kill_worker"]
