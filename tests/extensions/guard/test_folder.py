"""The guard's folder, its report and the scenario of an incident."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from chaos.cli.commands import app
from chaos.errors import UsageError
from chaos.extensions.guard import folder as folders
from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.incident import build_scenario
from chaos.extensions.guard.records import SAVES_KEPT, GuardFinding, RankStep, RestartAnswer
from chaos.extensions.guard.report import render_json, render_metrics
from chaos.extensions.guard.restart import describe_restart
from tests.accepted import expect_text
from tests.extensions.guard.test_judge import save, start

OTHER = GuardFinding("notice", "state", "optimizer settings (optimizer.lr): other than at the save")
ALL_ACCEPTED = {"compared": ("schedule",), "differing": ("schedule",)}
ACCEPTED = GuardFinding("accepted", "state", "schedule: reset", "schedule")
WRONG = GuardFinding("mismatch", "state", "model: reset, as at the first step of the training")


def restart(number: int, *findings: GuardFinding, **changed: object) -> RestartAnswer:
    made = RestartAnswer(
        start=number,
        rank=0,
        ranks=1,
        at_s=1.0,
        step=8,
        is_by_state=True,
        lost=3,
        first_step_s=2.5,
        compared=("model",),
        continues=True,
        findings=findings,
    )
    return msgspec.structs.replace(made, **changed)


def test_a_line_says_what_was_seen_and_no_more() -> None:
    right = "went on from step 8, its state as it was saved (1 part compared); 3 steps lost"
    assert describe_restart(restart(1)) == right
    assert describe_restart(restart(1, GuardFinding("mismatch", "data", "data: …"))) == right
    expect_text(describe_restart(restart(1, ACCEPTED)), "restart 1 ACCEPTED")
    for other in (WRONG, OTHER):
        assert "its state not as it was saved" in describe_restart(restart(1, other))
    expect_text(describe_restart(restart(1, compared=())), "restart 1 compared")
    assert "read the save of step 8, its" in describe_restart(restart(1, WRONG, is_by_state=False))


@pytest.fixture(params=["directory", "store"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> GuardFolder:
    is_store = request.param == "store"
    return GuardFolder(f"memory://guard{tmp_path}" if is_store else str(tmp_path / "guard"))


def test_records_come_back_as_they_were_kept(folder: GuardFolder) -> None:
    for step in (8, 4):
        folder.write_save(save(step))
    folder.write_start(start(0))
    folder.write_restart(restart(1, WRONG))
    trail = folder.begin_trail(0, 0, 1)
    made = [RankStep(number, 0.5, "in", "") for number in (1, 2)]
    for one in made:
        trail.add(one)
    trail.flush()
    assert folder.load_saves(0) == [save(4), save(8)]
    assert folder.load_saves(1) == []
    assert folder.load_starts() == [start(0)]
    assert folder.load_restarts() == [restart(1, WRONG)]
    assert (folder.load_steps(0, 0), folder.load_steps(0, 1)) == (made, [])


def test_a_folder_has_one_salt(folder: GuardFolder) -> None:
    made = folder.ensure_salt()
    assert len(made) == folders.SALT_BYTES
    assert GuardFolder(folder.location).ensure_salt() == made


def test_ranks_that_ask_at_once_for_a_salt_have_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = {*pool.map(lambda _: GuardFolder(str(tmp_path / "guard")).ensure_salt(), range(32))}
    assert len(made) == 1
    assert [path.name for path in (tmp_path / "guard").iterdir()] == ["salt"]


def test_old_saves_and_trails_go(folder: GuardFolder) -> None:
    for step in range(1, SAVES_KEPT + 3):
        folder.write_save(save(step))
    assert [one.step for one in folder.load_saves()] == list(range(3, SAVES_KEPT + 3))
    for first in range(1, 10):
        trail = folder.begin_trail(0, 0, first)
        trail.add(RankStep(first, None, "", ""))
        trail.flush()
    assert [step.number for step in folder.load_steps(0, 0)] == list(
        range(10 - folders.TRAILS_KEPT, 10)
    )


def test_half_a_record_is_left_out(tmp_path: Path) -> None:
    folder = GuardFolder(str(tmp_path))
    folder.begin_trail(0, 0, 1).add(RankStep(1, None, "", ""))
    (path,) = (tmp_path / "trail").iterdir()
    path.write_bytes(path.read_bytes() + b"[2,0.")
    (tmp_path / "saves").mkdir()
    (tmp_path / "saves/0-0-4.json").write_text("{", encoding="utf-8")
    (tmp_path / "saves/notes.json").write_text("{}", encoding="utf-8")
    assert [step.number for step in folder.load_steps(0, 0)] == [1]
    assert folder.load_saves() == []


def test_a_report_has_a_row_for_each_rank_and_an_exit_code(tmp_path: Path) -> None:
    folder = GuardFolder(str(tmp_path))
    run = CliRunner().invoke

    def code() -> int:
        return run(app, ["guard", "report", str(tmp_path)]).exit_code

    assert code() == 2
    folder.write_restart(restart(1))
    assert code() == 0
    # Nothing was compared of it, or what was is other: it is no proof that it came back.
    nothing_else = restart(2, ACCEPTED, **ALL_ACCEPTED)
    for unclear in (
        nothing_else,
        restart(2, compared=()),
        restart(2, OTHER),
        restart(2, step=None),
    ):
        folder.write_restart(unclear)
        assert code() == 2
    folder.write_restart(restart(2, WRONG))
    shown = run(app, ["guard", "report", str(tmp_path)])
    assert shown.exit_code == 1
    assert "start 2, rank 0  mismatch: model: reset" in shown.output
    lines = render_json(folder.load_restarts()).splitlines()
    assert [json.loads(line)["answer"] for line in lines] == ["came back", "mismatch"]
    lines = render_metrics(folder.load_restarts()).splitlines()
    metrics = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert metrics["chaos_guard_mismatches_total"] == "1"
    assert metrics["chaos_guard_last_lost_steps"] == "3"


def test_an_incident_is_a_scenario_with_the_kill_after_the_same_step(tmp_path: Path) -> None:
    folder = GuardFolder(str(tmp_path))
    for step in (4, 8):
        folder.write_save(save(step))
    folder.write_start(start(0))
    trail = folder.begin_trail(0, 0, 1)
    for number in range(1, 12):
        trail.add(RankStep(number, None, "", ""))
    folder.write_restart(restart(1, WRONG))
    text = build_scenario(folder)
    assert '  script: "/job/train.py"\n  args: ["--epochs", "9"]\n  workers: 1\n' in text
    assert "  - at: {epoch: 2, step: 3, rank: 0}\n    kill_worker: {}\n" in text


def test_a_rank_that_came_with_the_restart_has_the_place_of_another(tmp_path: Path) -> None:
    folder = GuardFolder(str(tmp_path))
    folder.write_save(save(8))
    folder.write_start(start(0, step=9))
    folder.write_restart(restart(1, WRONG, rank=1, ranks=2))
    assert "  - at: {epoch: 1, step: 1, rank: 0}\n" in build_scenario(folder)


def test_of_a_job_of_ray_train_the_place_is_by_reports(tmp_path: Path) -> None:
    folder = GuardFolder(str(tmp_path))
    folder.write_save(save(8))
    folder.write_start(start(0, launcher="ray", run="/results/run", step=11))
    folder.write_restart(restart(1, WRONG))
    text = build_scenario(folder)
    assert "# Saves are taken for reports.\n" in text
    assert "  launcher: ray\n" in text
    assert "  - at: {epoch: 1, step: 3, rank: 0}\n" in text


@pytest.mark.parametrize("launcher", ["ray", "slurm"])
def test_a_script_whose_start_is_not_known_gives_no_scenario(tmp_path: Path, launcher: str) -> None:
    folder = GuardFolder(str(tmp_path))
    folder.write_save(save(8))
    folder.write_start(start(0, launcher=launcher))
    folder.write_restart(restart(1, WRONG))
    with pytest.raises(UsageError, match=r"started as: python -u train\.py"):
        build_scenario(folder)


def test_a_folder_without_restarts_gives_no_scenario(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["guard", "scenario", str(tmp_path)])
    assert done.exit_code != 0
