"""The guard's folder: its salt, and what leaves it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chaos.extensions.guard import folder as folders
from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.records import SAVES_KEPT, RankStep
from tests.extensions.guard.saved_states import save


@pytest.fixture(params=["directory", "store"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> GuardFolder:
    is_store = request.param == "store"
    return GuardFolder(f"memory://guard{tmp_path}" if is_store else str(tmp_path / "guard"))


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
