"""What `chaos run` says, and to whom: people, machines, GitHub, nobody."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos.check.judge import judge
from chaos.cli import commands as cli
from chaos.cli import run as cli_run
from chaos.report.outcome import SuiteRow, build_unrun_row
from chaos.run.suites import find_newest_suites
from tests.accepted import expect_text
from tests.report.conftest import clean_history, plan_of, struck_history

Run = Callable[..., Any]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Return `chaos run` on a scenario that could not be run, without a backend."""
    file = tmp_path / "x.chaos.yaml"
    file.write_text("# first\nscenario: killed\njob: {script: x.py, workers: 1}\n")
    (tmp_path / "x.py").touch()
    row = build_unrun_row(scenario="killed", file=str(file), error="no cluster")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli_run, "open_backend", lambda *_, **__: nullcontext(object()))
    monkeypatch.setattr(cli_run, "run_request", lambda *_, **__: iter([row]))
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)

    def call(*words: str) -> Any:
        monkeypatch.setattr(sys, "argv", ["chaos", "run", str(file), *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code

    return call


def test_people_get_a_table_and_where_the_report_is(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run() == 3
    said = capsys.readouterr().out

    expect_text(said.splitlines()[0])
    assert "! could not run" in said
    assert "report: reports/suites/" in said
    assert "::error" not in said


def test_the_launchers_of_all_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.py").touch()
    files = [tmp_path / f"{name}.chaos.yaml" for name in "abc"]
    for file, line in zip(files, ("", "launcher: torchrun, ", "launcher: ray, "), strict=True):
        file.write_text(f"scenario: s\njob: {{{line}script: x.py, workers: 1}}\n")

    said = cli_run.SuiteRequest(files, range(0), 0, "ray", 1).description

    named = "launchers ray (job.launcher) and torchrun (job.launcher) and ray (no job.launcher)"
    assert said.endswith(f"seed 0, 3 scenarios, {named}")


def test_machines_get_json_alone_on_stdout(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--format", "json") == 3
    said = capsys.readouterr()

    assert json.loads(said.out)["runs"][0]["standing"] == "not_run"
    assert "could not run" in said.err


def test_quiet_is_one_line_and_still_writes_everything_down(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--quiet") == 3
    said = capsys.readouterr()

    assert (said.out, said.err) == ("! 1 could not run\n", "")
    [(_, suite)] = find_newest_suites(Path("reports"), 9)
    assert [run.scenario for run in suite.runs] == ["killed"]


def test_github_gets_a_summary_and_an_annotation_at_the_scenarios_line(
    run: Run,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))

    assert run() == 3

    wanted = "::error file=x.chaos.yaml,line=2,title=could not run%3A killed::no cluster"
    assert wanted in capsys.readouterr().out.splitlines()
    assert (tmp_path / "summary.md").read_text().startswith("# ❌ chaos: 1 of 1 ")


def test_draws_are_not_repeated(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--random", "3", "--repeat", "2") == 3
    expect_text(capsys.readouterr().err)


@pytest.mark.parametrize("beside", [("--random", "3"), ("--repeat", "2"), ("--jobs", "2")])
def test_a_soak_is_of_one_run_after_another(
    run: Run, capsys: pytest.CaptureFixture[str], beside: tuple[str, str]
) -> None:
    assert run("--soak", "1h", "--backend", "fork", *beside) == 3
    text = capsys.readouterr().err
    assert "--soak runs one seed after" in text
    assert f"one seed after another, and {beside[0]} means" in text


def test_only_matching_scenarios_run_and_none_is_a_mistake(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("x.py").touch()
    assert run("-k", "KILLED") == 3
    assert "1 scenario" in capsys.readouterr().out
    for words in (("-k", "other"), ("--exclude", "x.chaos.yaml")):
        assert run(*words) == 3
        assert "no scenario is left to run" in capsys.readouterr().err


def test_runs_side_by_side_need_forked_workers(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("-j", "2") == 3
    expect_text(capsys.readouterr().err)


def test_exitfirst_stops_after_the_first_run_that_does_not_pass(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = [build_unrun_row(scenario=name, file=str(tmp_path / "x"), error="e") for name in "abc"]
    monkeypatch.setattr(cli_run, "run_request", lambda *_, **__: iter(rows))

    assert run("-x", "-o", "suite.json") == 3
    assert [each["scenario"] for each in json.loads(Path("suite.json").read_text())["runs"]] == [
        "a"
    ]


def test_only_what_failed_last_is_run_again(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = [tmp_path / f"{name}.chaos.yaml" for name in "ab"]
    for file in files:
        file.write_text(f"scenario: {file.name}\njob: {{script: x.py, workers: 1}}\n")
    seen: list[list[str]] = []

    def rows_of(_: object, asked: cli_run.SuiteRequest) -> Iterator[SuiteRow]:
        seen.append([file.name[0] for file in asked.files])
        for file in asked.files:
            fails = file.name[0] == "b" and len(seen) < 3
            make = build_unrun_row if fails else passed
            yield make("s", str(file), "e")

    def passed(scenario: str, file: str, why: str) -> SuiteRow:
        verdict = judge(plan_of(scenario), struck_history(scenario=scenario), clean_history())
        return replace(build_unrun_row(scenario, file, why), verdict=verdict, error=None)

    monkeypatch.setattr(cli_run, "run_request", rows_of)
    for words in ([], ["--last-failed"], ["--lf"], ["--lf"]):
        run(*map(str, files), "--exclude", "x.chaos.yaml", *words)

    assert seen == [["a", "b"], ["b"], ["b"], ["a", "b"]]
