"""What scripts do that nobody wrote for chaos: they are audited, or refused by the right name."""

import json
from pathlib import Path
from typing import Any

import pytest

from chaos.processes.view import find_view_obstacle
from tests.called import Done, chaos

WHY_NONE = find_view_obstacle()
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(120)


def audit(does: str, tmp_path: Path, *options: str) -> Done:
    words = [
        "audit",
        "tests/forked/jobs/awkward.py",
        "--max-runs",
        "1",
        "--no-confirm",
        "--format",
        "json",
    ]
    own = ["--", "--does", does, "--out", str(tmp_path)]
    return chaos(*words, "--reports", str(tmp_path / "reports"), *options, *own, folder=ROOT)


def card(ran: Done) -> dict[str, Any]:
    assert ran.code in (0, 2), ran.out + ran.err
    found: dict[str, Any] = json.loads(ran.out)
    assert {run["status"] for run in found["runs"]} <= {"pass"}
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("does", ["much", "bucket"])
def test_what_a_job_reserves_and_where_it_stores_is_no_hindrance(does: str, tmp_path: Path) -> None:
    assert len(card(audit(does, tmp_path))["runs"]) == 1


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ("fit-twice", "fit() was called once more"),
        pytest.param(
            "task-after", "the script raised NeedsClusterError", marks=pytest.mark.nightly
        ),
        pytest.param("exit", "the script raised SystemExit: 3", marks=pytest.mark.nightly),
    ],
)
def test_what_comes_after_the_training_is_a_note(does: str, words: str, tmp_path: Path) -> None:
    assert any(words in note["text"] for note in card(audit(does, tmp_path))["notes"])


@pytest.mark.nightly
def test_the_second_fit_is_struck_where_it_is_asked_for(tmp_path: Path) -> None:
    notes = card(audit("fit-twice", tmp_path, "--fit", "2"))["notes"]

    assert not any("once more" in note["text"] for note in notes)


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ("task", "the job uses `ray.remote` (`task.remote()`, "),
        ("task-in-worker", "the job uses `ray.remote` (`task.remote()`, "),
        ("data", "the job uses Ray Data (`ray.data.from_items`, "),
        ("local-mode", "the job trains in Ray Train's local mode (ScalingConfig(num_workers=0))"),
        ("cuda", "the job asks for a GPU by itself; the embedded backend trains on the CPU"),
        (
            "raise-once",
            "fails and retries by itself without any fault: rank ",
        ),  # whose is seen first
    ],
)
def test_what_cannot_be_audited_is_refused_by_its_name(
    does: str, words: str, tmp_path: Path
) -> None:
    ran = audit(does, tmp_path)

    assert ran.code == 3
    assert words in ran.err
    assert "awkward.py:" in ran.err or does not in ("task", "task-in-worker", "data")
    assert "fails without any fault" not in ran.err


def test_what_was_there_before_an_audit_is_there_after_it(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_text("of last week")

    ran = audit("save-outside", tmp_path)

    assert ran.code == 3
    assert "model.pt, which was there before the audit" in ran.err
    assert (tmp_path / "model.pt").read_text() == "of last week"


@pytest.mark.nightly
def test_what_a_job_saves_outside_is_cleared_from_run_to_run(tmp_path: Path) -> None:
    notes = card(audit("save-outside", tmp_path))["notes"]

    assert any("the job saves by absolute paths" in note["text"] for note in notes)
    assert not (tmp_path / "model.pt").exists()


@pytest.mark.skipif(WHY_NONE is not None, reason=f"no views here: {WHY_NONE}")
@pytest.mark.parametrize(
    "does", ["save-outside", pytest.param("notice-view", marks=pytest.mark.nightly)]
)
def test_a_job_that_saves_outside_has_lanes_and_is_not_blamed_for_their_views(
    does: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text("mine")

    found = card(audit(does, tmp_path, "--jobs", "2", "--max-runs", "4"))

    assert found["verdict"]["broken"] == 0
    assert len(found["runs"]) >= 4
    assert not any("one at a time" in note["text"] for note in found["notes"])
    assert {path.name for path in tmp_path.iterdir()} == {"mine.txt", "reports"}
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text(encoding="utf-8")


@pytest.mark.nightly
@pytest.mark.skipif(WHY_NONE is not None, reason=f"no views here: {WHY_NONE}")
def test_what_a_script_holds_open_before_its_fit_is_shared_by_all_lanes(tmp_path: Path) -> None:
    found = card(audit("hold-log", tmp_path, "--jobs", "2"))

    (text,) = [note["text"] for note in found["notes"] if "one at a time" in note["text"]]
    assert text.endswith(f"the script holds {tmp_path}/log.txt open before its fit()")
