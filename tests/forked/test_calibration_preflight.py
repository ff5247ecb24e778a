"""Real runs behind `chaos preflight`: costs are measured, a market strikes, a trace is replayed."""

import json
import sys
from pathlib import Path

import pytest

from chaos.cli import commands as cli
from chaos.extensions.preflight import calibration
from chaos.scenario_file.load import load_scenario

DIGITS = str(Path(__file__).parents[2] / "scenarios/jobs/digits_ddp.py")
SHORT = ("--", "--epochs", "3")


def ran(monkeypatch: pytest.MonkeyPatch, *words: str) -> int | str | None:
    monkeypatch.setattr(sys, "argv", ["chaos", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


@pytest.mark.nightly
def test_a_job_is_calibrated_struck_by_the_clock_and_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(calibration.STRUCK, "fork", 1)
    words = ("--validate", "--validation-runs", "2", "--simulations", "200", "--format", "json")

    code = ran(
        monkeypatch,
        *("preflight", DIGITS, "--market", "hot-4h", "--reports", str(tmp_path)),
        *words,
        *SHORT,
    )

    found = json.loads(capsys.readouterr().out)
    assert code == found["exit_code"]
    assert found["question"]["costs"]["detect_s"] > 0
    (held,) = found["validation"]
    assert [row["figure"] for row in held["figures"]] == [
        "attempts",
        "steps lost",
        "finish",
        "goodput",
    ]
    assert "from 1 other runs" in held["what"]


TIMED = str(Path(__file__).parents[2] / "scenarios/jobs/timed_steps.py")
ELASTIC = ("--min-workers", "1", "--grow-after", "0.2")
QUICK = ("--", "--steps", "40", "--save-every", "10", "--step-s", "0.02")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("losses", "words", "told"),
    [
        ("nodes", (), "away for"),
        ("notices", ("--jit",), "announced"),
        ("nodes", ELASTIC, "away for"),
    ],
    ids=["nodes", "notices", "elastic"],
)
def test_nodes_are_lost_announced_and_come_again_by_the_clock(
    losses: str,
    words: tuple[str, ...],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(calibration.STRUCK, "fork", 1)
    monkeypatch.setenv("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "0.5")
    asked = ("--market", "unannounced-16h", "--reports", str(tmp_path), "--losses", losses)
    validated = ("--validate", "--validation-runs", "2", "--simulations", "200", "--format", "json")

    ran(monkeypatch, "preflight", TIMED, *asked, *validated, *QUICK, *words)

    (held,) = json.loads(capsys.readouterr().out)["validation"]
    assert held["what"].startswith("2 runs on fork")
    assert told in held["what"]
    plans = [json.loads(file.read_text()) for file in tmp_path.glob("validations/*/*/plan.json")]
    kind = "kill_node" if losses == "nodes" else "preempt_node"
    assert all(op["node"] is not None for plan in plans for op in plan["ops"] if op[kind])
    assert any(op["return_capacity"] for plan in plans for op in plan["ops"])


MONTHS = ("job.steps=20000000", "job.checkpoint_every_steps=5000", "settings.max_failures=-1")


@pytest.mark.nightly
def test_measured_costs_give_a_go_on_one_market_and_a_no_go_on_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(calibration.STRUCK, "fork", 1)
    asked = [word for value in MONTHS for word in ("--set", value)]
    asked += [
        "--goodput",
        "0.97",
        "--simulations",
        "500",
        "--format",
        "json",
        "--reports",
        str(tmp_path),
    ]
    asked += ["--set", "settings.storage_path=s3://bucket/run"]

    calm = ran(
        monkeypatch, "preflight", DIGITS, "--calibrate", "--market", "calm-500h", *asked, *SHORT
    )
    assert (calm, json.loads(capsys.readouterr().out)["word"]) == (0, "go")

    struck = max(tmp_path.glob("digits_ddp/*"))  # the last; the first was left alone
    hot = ran(monkeypatch, "preflight", str(struck), "--market", "hot-4h", *asked)
    found = json.loads(capsys.readouterr().out)
    assert (hot, found["word"]) == (1, "no-go")
    assert "waiting for nodes" in found["why"]


@pytest.mark.nightly
def test_a_trace_becomes_a_scenario_that_runs_and_is_valid(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [(0, "add", "a"), (0, "add", "b"), (0, "add", "c")]
    rows += [(600_000, "remove", "a"), (600_000, "remove", "b"), (900_000, "add", "d")]
    rows += [(1_000_000, "add", "e"), (1_200_000, "remove", "c"), (1_300_000, "add", "f")]
    trace = tmp_path / "trace.csv"
    trace.write_text("".join(f"{ms},{what},{node}\n" for ms, what, node in rows), encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    replay = ("from-trace", str(trace), DIGITS, "--seed", "1", "--step-s", "0.01")
    assert ran(monkeypatch, *replay, "--scale", "1500", *SHORT) == 0
    file = tmp_path / "replayed.chaos.yaml"
    file.write_text(capsys.readouterr().out, encoding="utf-8")

    scenario = load_scenario(file)
    assert {"kill_node", "return_capacity"} <= {entry.kind for entry in scenario.faults}
    assert ran(monkeypatch, "run", str(file), "--backend", "fork") == 0
