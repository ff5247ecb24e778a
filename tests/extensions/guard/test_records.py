"""What a rank keeps comes back as it was kept."""

from pathlib import Path

import pytest

from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.records import GuardFinding, RankStep
from chaos.extensions.guard.restart import describe_restart
from tests.accepted import expect_text
from tests.extensions.guard.restarts import ACCEPTED, OTHER, WRONG, restart
from tests.extensions.guard.saved_states import save, start


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
