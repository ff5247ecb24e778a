"""Saves as a rank takes them, by hand: no hook is installed in this process."""

import errno
import io
import os
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp

from chaos.extensions.guard.content import collect_tensors
from chaos.extensions.guard.files import GuardedFiles, find_launcher
from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.judge import FileLoad
from chaos.extensions.guard.process import GuardPolicy
from chaos.extensions.guard.records import RankSave
from chaos.extensions.guard.restart import is_whole
from chaos.extensions.guard.watch import FAILURES_MAX, GuardedRank, find_rank
from chaos.probe.state.inputs import Owner
from chaos.probe.training_listener import TrainingListener

# `dcp.save` of a single process.
pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


class Training:
    """A model, an optimizer and the guard of the rank that trains it."""

    def __init__(self, root: Path) -> None:
        self.path, self.folder = root / "model.pt", GuardFolder(str(root / "guard"))
        self.failures: list[Exception] = []
        self.rank = GuardedRank(
            self.folder, GuardPolicy(), report_failure=lambda _, error: self.failures.append(error)
        )
        self.model = torch.nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def step(self) -> None:
        self.model(torch.ones(3, 4)).sum().backward()
        self.rank.step_begins(self.optimizer)
        self.optimizer.step()
        self.rank.step_done((0.5,), None)

    def save(self) -> None:
        torch.save(self.model.state_dict(), self.path)
        self.rank._files.file_saved(self.path, self.model.state_dict())

    def saves(self) -> list[RankSave]:
        assert self.failures == []
        return self.folder.load_saves()


@pytest.fixture
def training(tmp_path: Path) -> Training:
    made = Training(tmp_path)
    made.step()
    return made


class TwoModels(Training):
    """Two models, each with an optimizer, and each saved to a file of its own, as of a GAN."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.models = [self.model, torch.nn.Linear(4, 9)]
        self.optimizers = [torch.optim.Adam(model.parameters()) for model in self.models]
        self.files = [root / "first.pt", root / "second.pt"]

    def step(self) -> None:
        for model, optimizer in zip(self.models, self.optimizers, strict=True):
            model(torch.ones(3, 4)).sum().backward()
            self.rank.step_begins(optimizer)
            optimizer.step()
            self.rank.step_done((0.5,), None)

    def save(self, *numbers: int) -> None:
        for number in numbers or (0, 1):
            state = self.models[number].state_dict()
            torch.save(state, self.files[number])
            self.rank._files.file_saved(self.files[number], state)


def beside(act: Callable[[], None]) -> None:
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def test_a_save_has_the_state_with_which_the_next_step_began(training: Training) -> None:
    training.save()
    assert [(one.step, bool(one.entered), one.is_past) for one in training.saves()] == [
        (1, False, False)
    ]
    training.step()
    (save,) = training.saves()
    assert (save.is_live, bool(save.entered), save.is_past) == (True, True, True)


def test_a_model_may_be_called_within_a_transform(tmp_path: Path) -> None:
    training = Training(tmp_path)
    rank, owner = training.rank, Owner(training.model)
    called = torch.func.vmap(lambda row: (rank.model_called((row,), {}, owner), row)[1])

    called(torch.ones(2, 4))

    assert rank._call_parts is not None


def test_models_that_are_saved_to_a_file_each_are_one_save(tmp_path: Path) -> None:
    training = TwoModels(tmp_path)
    training.step()
    training.save()
    training.step()
    (save,) = training.saves()
    assert (save.step, save.is_live, bool(save.entered)) == (2, True, True)
    assert save.files.keys() == {str(path) for path in training.files}


def test_one_of_two_models_is_no_save_of_the_training(tmp_path: Path) -> None:
    training = TwoModels(tmp_path)
    training.step()
    training.save(0)  # the smaller one
    training.step()
    training.save(1)
    assert [(save.step, save.is_live) for save in training.saves()] == [(4, False)]


def into_a_buffer(training: Training, path: Path) -> None:
    """Save as Lightning does: into a buffer, that into a file, and the file to its name."""
    buffer = io.BytesIO()
    torch.save(training.model.state_dict(), buffer)
    training.rank._files.stream_saved(buffer, training.model.state_dict())
    log, scratch = path.with_name("log.csv"), path.with_name("scratch")
    for file, content in ((log, b"1, 2"), (scratch, buffer.getvalue())):
        training.rank._on_audit_event("open", (str(file), "wb", os.O_WRONLY | os.O_CREAT))
        file.write_bytes(content)
    training.rank._on_audit_event("os.rename", (str(scratch), str(path), -1, -1))
    scratch.rename(path)


def test_the_file_of_a_save_into_a_buffer_is_the_one_with_its_bytes(training: Training) -> None:
    into_a_buffer(training, training.path)
    assert [save.files for save in training.saves()] == [{}]
    training.step()
    (save,) = training.saves()
    assert (save.is_live, set(save.files)) == (True, {str(training.path)})
    assert is_whole(save)
    training.step()
    training.save()
    assert training.saves()[0].files == save.files


def test_a_buffers_file_is_followed_with_its_folder(training: Training) -> None:
    scratch = training.path.with_name("scratch")
    scratch.mkdir()
    into_a_buffer(training, scratch / "model.pt")
    training.rank._on_audit_event("os.rename", (str(scratch), str(training.path), -1, -1))
    scratch.rename(training.path)
    training.step()
    assert set(training.saves()[0].files) == {str(training.path / "model.pt")}


def test_a_buffer_of_no_save_has_no_file_after_the_next_step(training: Training) -> None:
    training.save()
    training.step()
    buffer = io.BytesIO()
    torch.save(1, buffer)
    training.rank._files.stream_saved(buffer, 1)
    training.step()
    other = training.path.with_name("other")
    training.rank._on_audit_event("open", (str(other), "wb", os.O_WRONLY | os.O_CREAT))
    other.write_bytes(buffer.getvalue())
    training.save()
    training.step()
    assert [set(save.files) for save in training.saves()] == [{str(training.path)}] * 2


def test_what_is_written_to_no_file_has_none(training: Training) -> None:
    with zipfile.ZipFile(training.path, "w") as archive, archive.open("model", "w") as member:
        torch.save(training.model.state_dict(), member)
        training.rank._files.stream_saved(member, training.model.state_dict())
    training.step()
    assert [(save.is_live, save.files) for save in training.saves()] == [(True, {})]


def test_a_save_before_the_end_is_past_where_the_process_ends_in_order(training: Training) -> None:
    training.save()
    training.rank.finish()
    (save,) = training.saves()
    assert (save.entered, save.is_past) == ((), True)


def test_a_save_that_a_thread_makes_is_not_compared_with_the_next_step(training: Training) -> None:
    beside(training.save)
    training.step()
    (save,) = training.saves()
    assert (save.step, save.is_live, save.entered, save.is_past) == (1, True, (), False)


def test_a_save_that_a_thread_makes_while_a_step_is_made_is_of_no_use(training: Training) -> None:
    training.model(torch.ones(3, 4)).sum().backward()
    training.rank.step_begins(training.optimizer)
    beside(training.save)
    assert training.saves() == []
    training.rank.step_done((0.5,), None)

    parts = training.rank._take_parts

    def stepped(*, is_entry: bool) -> object:
        # The training thread goes on while the other one looks at the state.
        training.rank._take_parts = parts  # type: ignore[method-assign]
        training.step()
        return parts(is_entry=is_entry)

    training.rank._take_parts = stepped  # type: ignore[method-assign,assignment]
    beside(training.save)
    assert training.saves() == []


def test_a_file_that_is_read_in_training_is_not_looked_at(training: Training) -> None:
    # Such as one for each sample of a data set.
    training.rank._files.load_ended(training.path, "", None, {"x": torch.ones(4)})
    assert training.rank._files.loads == []


def test_a_model_that_is_saved_whole_is_asked_for_no_state(training: Training) -> None:
    # FSDP gathers in it from all ranks, of which only one may save.
    def gathered(*_: object, **__: object) -> None:
        raise AssertionError

    training.model.state_dict = gathered
    training.rank._files.file_saved(Path(__file__), training.model)
    assert [save.is_live for save in training.saves()] == [True]
    assert len(collect_tensors(training.model).tensors) == len(list(training.model.parameters()))


@pytest.fixture(params=[dcp.FileSystemWriter, dcp.HuggingFaceStorageWriter])
def shards(training: Training, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return the folder of a sharded save, which was seen as it began."""
    made = tmp_path / "shards"
    made.mkdir()
    training.rank._files.shards_begin(made)
    dcp.save({"weight": torch.ones(3, 4)}, storage_writer=request.param(made), no_dist=True)
    return made


def is_last_whole(training: Training) -> bool:
    (save,) = training.saves()
    return is_whole(save)


def test_a_sharded_save_is_whole_as_the_next_step_begins(training: Training, shards: Path) -> None:
    training.step()
    assert is_last_whole(training)
    largest = max(shards.iterdir(), key=lambda path: path.stat().st_size)
    os.truncate(largest, largest.stat().st_size - 1)
    assert not is_last_whole(training)


def test_a_sharded_save_is_whole_by_an_index_that_came_later(
    training: Training, tmp_path: Path
) -> None:
    shards = tmp_path / "shards"
    training.rank._files.background_save_begins(shards)
    training.step()
    assert not is_last_whole(training)
    dcp.save({"weight": torch.ones(3, 4)}, checkpoint_id=shards, no_dist=True)
    assert is_last_whole(training)
    # The index of a save before it, in the same folder.
    os.utime(shards / ".metadata", (1.0, 1.0))
    assert not is_last_whole(training)
    (shards / ".metadata").unlink()
    assert not is_last_whole(training)


def test_a_folder_whose_shards_are_read_before_the_first_step_is_a_load(tmp_path: Path) -> None:
    files = GuardedFiles(TrainingListener(), lambda *_: None)
    files.shards_loaded(tmp_path)
    files.is_before_training = False
    files.shards_loaded(tmp_path / "later")
    assert files.loads == [FileLoad(str(tmp_path), frozenset())]


def test_a_save_that_goes_on_while_training_does_is_not_past(
    training: Training, tmp_path: Path
) -> None:
    # Killed in it, the job has a folder that is as it was at the next step, and is no checkpoint.
    shards = tmp_path / "shards"
    training.rank._files.background_save_begins(shards)  # which is not there yet
    training.step()
    shards.mkdir()
    (save,) = training.saves()
    assert (bool(save.entered), save.is_past, is_whole(save)) == (True, False, False)


def test_a_guard_that_cannot_write_ends_and_makes_no_more_digests(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(training.folder, "write_save", full)
    for _ in range(FAILURES_MAX):
        training.save()
    monkeypatch.undo()
    training.save()
    training.step()
    training.rank.finish()
    assert len(training.failures) == FAILURES_MAX
    assert training.folder.load_saves() == []


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, ("python", (0, 1))),
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}, ("slurm", (1, 2))),
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, ("python", (0, 1))),
        # In the batch shell of a job with two tasks.
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, ("python", (0, 1))),
        ({"RANK": "1", "WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "x"}, ("torchrun", (1, 4))),
    ],
    ids=["none", "tasks of a step", "one task", "batch shell", "torchrun"],
)
def test_a_rank_is_known_by_what_started_it(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str], expected: tuple[str, tuple[int, int]]
) -> None:
    for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "RAY_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert (find_launcher(), find_rank()) == expected
