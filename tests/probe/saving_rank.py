"""A rank with torch's functions in its hands."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch
from torch.distributed.checkpoint._async_process_executor import (
    _ProcessBasedAsyncCheckpointExecutor,
)
from torch.distributed.checkpoint._async_thread_executor import _ThreadBasedAsyncCheckpointExecutor
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter

from chaos.model.event import (
    AnyEvent,
    Component,
)
from chaos.model.places import START
from chaos.probe.cursor import Cursor, Recorder
from chaos.probe.job_files import JobFiles
from chaos.probe.saves import SaveFolder
from chaos.probe.state.files import watch_files
from chaos.resume.resume_place import StepKeys
from tests.probe.scripted import Scripted

E = TypeVar("E")


@dataclass
class Rank:
    """One rank of one attempt, with torch's functions in its hands."""

    folder: Path
    attempt: int = 0
    rank: int = 0
    epoch: int = 0
    may_move: bool = True
    ranks: int = 1
    reported_epoch: int | None = None
    events: list[AnyEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cursor = Cursor(self.attempt, self.rank, self.epoch)
        record = Recorder(self.cursor, self.events.append, self._failed)
        self.saves = SaveFolder(self.folder / "saves")
        self.listener = Scripted()
        self.files = JobFiles(
            record,
            self.saves,
            self.listener,
            may_move=self.may_move and self.attempt > 0,
            ranks=self.ranks,
            reported_epoch=self.reported_epoch,
        )
        watch_files(self.files)

    def _failed(self, where: str, error: Exception) -> None:
        raise AssertionError(where) from error

    def resumes(self, *, is_fresh: bool) -> None:
        """Begin the first step, with the model that the run began with, or with another."""
        self.saves.record_state(0, self.rank, START, [Component(name="model", digest="first")])
        model = "model =first" if is_fresh else "model =later"
        self.files.enter_step(lambda: StepKeys(model=model))

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def path(self) -> Path:
        return self.folder / "own.pt"


New = Callable[..., Rank]


@pytest.fixture
def new(tmp_path: Path) -> Iterator[New]:
    real = torch.save, torch.load

    def make(**given: Any) -> Rank:
        torch.save, torch.load = real
        torch.serialization.save, torch.serialization.load = real
        return Rank(tmp_path, **given)

    yield make
    torch.save, torch.load = real
    torch.serialization.save, torch.serialization.load = real


def place(rank: Rank) -> tuple[int, int]:
    return rank.cursor.epoch, rank.cursor.step


def put_back_after_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    for cls, name in (
        (FileSystemWriter.__mro__[1], "write_data"),
        (HuggingFaceStorageWriter, "write_data"),
        (_ThreadBasedAsyncCheckpointExecutor, "execute_save"),
        (_ProcessBasedAsyncCheckpointExecutor, "execute_save"),
    ):
        monkeypatch.setattr(cls, name, vars(cls)[name])
        monkeypatch.setattr(cls, "_chaos_watches", True, raising=False)
        del cls._chaos_watches
