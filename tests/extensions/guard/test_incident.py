"""The scenario of an incident, from the records of its restart."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from chaos.cli.commands import app
from chaos.errors import UsageError
from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.incident import build_scenario
from chaos.extensions.guard.records import RankStep
from tests.extensions.guard.restarts import WRONG, restart
from tests.extensions.guard.saved_states import save, start


@pytest.fixture(params=["directory", "store"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> GuardFolder:
    is_store = request.param == "store"
    return GuardFolder(f"memory://guard{tmp_path}" if is_store else str(tmp_path / "guard"))


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
