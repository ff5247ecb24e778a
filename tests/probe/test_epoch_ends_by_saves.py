"""Where nothing is reported, an epoch ends with a save of the job's own."""

from pathlib import Path

import pytest

from chaos import declaration
from chaos.model.event import AnyEvent, EpochEnded, StepDone
from chaos.model.watch import Watch
from chaos.probe.cursor import Cursor, Recorder
from chaos.probe.job_files import JobFiles
from chaos.probe.saves import SaveFolder, SaveRecord
from chaos.probe.training_listener import TrainingListener
from chaos.probe.watchers import Watchers
from chaos.run.directory import EPOCH_LENGTHS_FILE, RunDirectory
from chaos.run.record_file import write_fields
from tests.check.scribe import history_of


class Rank:
    """A rank that makes steps and saves, as its probe counts them."""

    def __init__(
        self, folder: Path, rank: int = 0, attempt: int = 0, *, epoch_steps: int | None = None
    ) -> None:
        self.cursor = Cursor(attempt, rank, 0)
        self.events: list[AnyEvent] = []
        record = Recorder(self.cursor, self.events.append, lambda *_: None)
        watch = Watch(state=False, inputs=False)
        self.watchers = Watchers(
            watch, record, TrainingListener(), has_reports=False, epoch_steps=epoch_steps
        )
        self.saves = SaveFolder(folder)
        self.watchers._files = JobFiles(
            record, self.saves, self.watchers, may_move=attempt > 0, ranks=1
        )

    def step(self) -> tuple[int, int]:
        self.watchers.step_begins(None)
        self.watchers.step_done(None, None)
        return self.cursor.epoch, self.cursor.step

    def save(self) -> None:
        self.saves.set_mark("place", self.cursor.attempt, self.cursor.epoch, self.cursor.step)

    @property
    def ended(self) -> list[int]:
        return [event.epoch for event in self.events if isinstance(event, EpochEnded)]


def test_the_step_after_a_save_begins_an_epoch(tmp_path: Path) -> None:
    rank = Rank(tmp_path)
    rank.save()  # before any step: no epoch ends
    places = [rank.step(), rank.step()]
    rank.save()
    places.append(rank.step())
    rank.watchers.train_fn_ended(None)

    assert places == [(0, 1), (0, 2), (1, 1)]
    assert rank.ended == [0, 1]


def test_the_save_of_one_rank_ends_the_epoch_of_all(tmp_path: Path) -> None:
    saver, other = Rank(tmp_path), Rank(tmp_path, rank=1)
    saver.step()
    other.step()
    saver.save()

    assert [saver.step(), other.step()] == [(1, 1), (1, 1)]


def test_a_job_that_never_saves_is_one_epoch(tmp_path: Path) -> None:
    rank = Rank(tmp_path)
    for _ in range(5):
        rank.step()
    rank.watchers.train_fn_ended(None)

    assert rank.ended == [0]


def test_with_a_number_of_steps_they_end_the_epoch_and_no_save_does(tmp_path: Path) -> None:
    rank = Rank(tmp_path, epoch_steps=3)
    places = [rank.step(), rank.step()]
    rank.save()
    places += [rank.step(), rank.step()]

    assert places == [(0, 1), (0, 2), (0, 3), (1, 1)]
    assert rank.ended == [0]


def test_the_job_may_declare_the_number_and_a_given_one_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(declaration.TOKEN_ENV, "x")
    monkeypatch.setattr(declaration, "_declared", {})
    declaration.declare("epoch_steps", 2)
    told, given = Rank(tmp_path), Rank(tmp_path, epoch_steps=1)

    assert [told.step(), told.step(), told.step()] == [(0, 1), (0, 2), (1, 1)]
    assert [given.step(), given.step()] == [(0, 1), (1, 1)]


@pytest.mark.parametrize("steps", [0, -1, "2", 2.0, True, None])
def test_what_is_no_number_of_steps_ends_no_epoch(
    steps: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(declaration, "_declared", {"epoch_steps": steps})

    assert declaration.find_epoch_steps() is None


def test_with_a_baseline_its_epochs_count_whatever_is_saved(tmp_path: Path) -> None:
    write_fields(tmp_path / EPOCH_LENGTHS_FILE, {"0": 2, "1": 3})
    rank = Rank(tmp_path)
    rank.step()
    rank.save()

    assert [rank.step(), rank.step(), rank.step()] == [(0, 2), (1, 1), (1, 2)]


def test_a_restart_that_finds_all_done_says_where_it_stands(tmp_path: Path) -> None:
    write_fields(tmp_path / EPOCH_LENGTHS_FILE, {"0": 2})
    rank = Rank(tmp_path, attempt=1)
    assert rank.watchers._files is not None
    read = SaveRecord("ab", attempt=0, rank=0, epoch=0, step=2, path="x.pt", ends_epoch=True)
    rank.watchers._files.resume_finder.record_read(read)
    rank.watchers.train_fn_ended(None)

    assert (rank.cursor.epoch, rank.cursor.step) == (1, 0)
    assert rank.ended == []


def test_a_script_that_fails_ends_no_epoch(tmp_path: Path) -> None:
    rank = Rank(tmp_path)
    rank.step()
    rank.watchers.train_fn_ended(ValueError("bad batch"))

    assert rank.ended == []


def test_lengths_are_of_each_rank(tmp_path: Path) -> None:
    whats: list[AnyEvent] = [
        StepDone(attempt=0, rank=0, epoch=0, step=3, losses=None),
        StepDone(attempt=0, rank=1, epoch=0, step=2, losses=None),
        EpochEnded(attempt=0, rank=0, epoch=0),
    ]
    directory = RunDirectory(tmp_path)
    directory.save_lengths(history_of(*whats))

    saves = SaveFolder(directory.save_records)
    assert (
        saves.load_epoch_lengths(),
        saves.load_epoch_lengths(1),
        saves.load_epoch_lengths(7),
    ) == (
        {0: 3},
        {0: 2},
        {0: 3},
    )
