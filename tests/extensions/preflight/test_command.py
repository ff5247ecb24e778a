"""`chaos preflight`: from words on the command line to an exit code."""

import json
import sys
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from chaos.cli import commands as cli
from chaos.errors import UsageError
from chaos.extensions.preflight.command import _build_stage_reporter, parse_assignments
from chaos.extensions.preflight.load import build_run_question, measure_job
from chaos.extensions.preflight.market import find_preset
from chaos.model import event as ev
from chaos.model.history import History
from chaos.report.live import LiveLine
from chaos.run.clock import SystemClock
from tests.called import chaos
from tests.check.story import Story, Strike
from tests.check.tamper import analysis_of, without
from tests.extensions.preflight.question_text import QUESTION


def ran(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *words: str, text: str = QUESTION
) -> int | str | None:
    file = folder / "a.preflight.yaml"
    file.write_text(text, encoding="utf-8")
    line = [
        "chaos",
        "preflight",
        str(file),
        "--reports",
        str(folder),
        "--simulations",
        "300",
        *words,
    ]
    monkeypatch.setattr(sys, "argv", line)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


def test_two_markets_give_a_go_and_a_no_go(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran(monkeypatch, tmp_path, "--deadline", "8") == 0
    assert "✓ go" in capsys.readouterr().out
    assert ran(monkeypatch, tmp_path, "--market", "hot-4h", "--goodput", "0.97") == 1
    assert "✗ no-go: goodput" in capsys.readouterr().out


def test_json_goes_to_stdout_alone_and_the_page_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = ran(monkeypatch, tmp_path, "--format", "json", "--set", "job.nodes=4")

    plain = json.loads(capsys.readouterr().out)
    assert code == plain["exit_code"]
    assert plain["question"]["job"]["nodes"] == 4
    assert len([*tmp_path.glob("preflight/*/preflight.html")]) == 1


def test_json_has_no_number_that_json_does_not_know(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = QUESTION.replace("every_steps: 500", "every_steps: 20000").replace("30", "0")
    ran(monkeypatch, tmp_path, "--market", "unannounced-16h", "--format", "json", text=text)

    def refuse(word: str) -> float:
        raise AssertionError(word)

    plain = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert plain["forecast"]["cost"]["high"] == "Infinity"  # some runs did no work at all


def test_without_costs_nothing_can_be_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = "\n".join(line for line in QUESTION.splitlines() if not line.startswith("costs"))

    assert ran(monkeypatch, tmp_path, text=text) == 2


@pytest.mark.parametrize(
    "words",
    [
        ("--market", "nope"),
        ("--set", "job.nodes"),
        ("--set", "job.nope=1"),
        ("--ignore", "nope"),
        ("--trace", "not/there"),
        ("--market", "hot-4h", "--trace", "x"),
        ("--costs", "not/there"),
        ("--deadline", "-1"),
        ("--validate",),
        ("--replay-trace",),
        ("--trace-nodes", "market"),
        ("--scale", "3"),
        ("--validation-runs", "3"),
        ("--deadline", "inf"),
        ("--set", "market.away_h=Infinity"),
    ],
)
def test_mistakes_are_usage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...]
) -> None:
    assert ran(monkeypatch, tmp_path, *words) == 3


def test_a_value_of_brackets_without_end_is_usage() -> None:
    with pytest.raises(UsageError, match=r"--set job\.nodes: the value is nested too deeply"):
        parse_assignments([f"job.nodes={'[' * 100_000}"])


def test_values_are_json_where_they_can_be() -> None:
    assert parse_assignments(
        ["job.nodes=64", "settings.run_name=big run", "job.min_nodes=null"]
    ) == {
        "job.nodes": 64,
        "settings.run_name": "big run",
        "job.min_nodes": None,
    }


KILLED = Story((Strike(2, 3, 1),))


def test_costs_are_read_from_a_struck_run_and_its_baseline() -> None:
    analysis = analysis_of(KILLED)
    found = measure_job([analysis], source="a story")
    phases = analysis.restarts[0].phases.seconds

    assert found.costs.detect_s == phases["detect_s"]
    group_s = found.costs.teardown_s + found.costs.schedule_s
    assert group_s == pytest.approx(phases["group_s"])
    assert found.costs.start_s == phases["start_s"]
    assert found.job.nodes == 2
    assert found.job.steps == analysis.reference.lineage.count_steps(0, 0) * 4  # type: ignore[union-attr]
    assert found.costs.source == "a story"


def test_a_run_without_a_restart_or_a_clean_run_measures_nothing() -> None:
    clean = analysis_of(Story(()))
    with pytest.raises(UsageError, match="no restart"):
        measure_job([clean], source="a story")

    bare = analysis_of(KILLED, without(KILLED.history(), ev.RunEnded))
    with pytest.raises(UsageError, match="no clean run"):
        measure_job([type(bare)(bare.plan, bare.history, None)], source="a story")


def test_recorded_runs_pose_a_question_of_their_own() -> None:
    question = build_run_question(
        [analysis_of(KILLED)], source="a story", market=find_preset("hot-4h")
    )

    assert question.job.nodes == 2
    assert question.job.checkpoint_every_steps <= question.job.steps
    assert question.costs is not None


def test_the_summary_is_added_to_githubs_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))

    assert ran(monkeypatch, tmp_path, "--deadline", "8") == 0

    text = summary.read_text(encoding="utf-8")
    assert text.startswith("before\n# ✅ preflight: go")
    assert "| goodput |" in text


def test_a_summary_that_cannot_be_written_changes_no_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "folder.md"))

    assert ran(monkeypatch, tmp_path, "--deadline", "8") == 0


class SlowClock(SystemClock):
    """A clock on which every look takes a minute."""

    def __init__(self) -> None:
        self.now = 0

    def now_ns(self) -> int:
        self.now += 60_000_000_000
        return self.now


@pytest.mark.parametrize("moves", [True, False])
def test_what_takes_long_says_what_it_does_on_a_terminal_only(*, moves: bool) -> None:
    written = StringIO()
    console = Console(file=written, force_terminal=moves, width=80)
    with LiveLine(console) as line:
        _build_stage_reporter(line, SlowClock())("trying changes")

    assert ("trying changes (60 s)" in written.getvalue()) is moves


@pytest.mark.parametrize("option", ["--calibrate", "--validate"])
@pytest.mark.parametrize(
    ("what", "starts"),
    [("ddp.py", "torchrun"), ("a.chaos.yaml", "python")],
    ids=["script", "plain"],
)
def test_a_job_of_which_it_is_not_known_how_it_starts_is_not_run_for_its_costs(
    tmp_path: Path, what: str, starts: str, option: str
) -> None:
    script, scenario = tmp_path / "ddp.py", tmp_path / "a.chaos.yaml"
    script.write_text("import torch.distributed as dist\ndist.init_process_group()\n")
    scenario.write_text(
        "scenario: x\njob: {launcher: python, script: ddp.py, workers: 1}\n", encoding="utf-8"
    )
    done = chaos("preflight", what, option, folder=tmp_path)

    assert done.code == 3
    assert f"{starts} starts this job" in " ".join(done.err.split())
    assert {path.name for path in tmp_path.iterdir()} == {"ddp.py", "a.chaos.yaml"}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--ignore", "No-retries"], "there is no rule 'No-retries'. Did you mean no-retry?"),
        (["--ignore", "zzzz"], "there is no rule 'zzzz'. See `chaos preflight --list`."),
        (["--replay-trace"], "--replay-trace: --replay-trace goes with --trace. Add --trace, or"),
        (["--scale", "2"], "--scale: --scale goes with --validate. Add --validate, or leave"),
    ],
)
def test_an_option_that_is_unknown_or_lacks_another_is_refused(
    tmp_path: Path, words: list[str], problem: str
) -> None:
    done = chaos("preflight", "a.preflight.yaml", *words, folder=tmp_path)

    assert done.code == 3
    assert f"chaos: {problem}" in " ".join(done.err.split())


def test_a_run_of_a_plain_command_has_costs_and_no_settings() -> None:
    called = ev.FitCalled(
        trainer="python",
        workers=2,
        run_name="r",
        storage_path="",
        settings={},
        original_settings={},
    )
    told = [entry for entry in KILLED.history() if not isinstance(entry.event, ev.FitCalled)]
    told.insert(1, msgspec.structs.replace(told[0], event=called))
    analysis = analysis_of(KILLED, History(told))

    with pytest.raises(UsageError, match="give this folder as its --costs"):
        build_run_question([analysis], source="a folder", market=find_preset("busy-16h"))
