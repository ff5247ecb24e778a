"""A rank whose own files are followed."""

import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from chaos.model.event import (
    FilesSeen,
)
from chaos.probe import write_ledger
from tests.probe.saving_rank import New, Rank
from tests.probe.saving_rank import new as new  # noqa: PLC0414 - a fixture


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder of the job's own in its run, and stop listening afterwards."""
    real = pickle.dump, threading.Thread.start, ThreadPoolExecutor.submit
    folder = tmp_path / "storage/own"
    folder.mkdir(parents=True)
    yield folder
    write_ledger._listeners.clear()
    pickle.dump, threading.Thread.start, ThreadPoolExecutor.submit = real  # type: ignore[method-assign]


def watching(new: New, **given: Any) -> Rank:
    """Return a rank whose own files are followed."""
    rank = new(**given)
    rank.files.watch_opened()
    rank.files.enter_step()
    return rank


def stepped(rank: Rank, step: int) -> None:
    rank.cursor.step = step
    rank.files.leave_step()


def write_pickle(path: Path, value: Any) -> None:
    with path.open("wb") as file:
        pickle.dump(value, file)


def write_bytes(path: Path, value: Any) -> None:
    path.write_bytes(pickle.dumps(value))


def found_by(rank: Rank) -> dict[str, str]:
    """Return the files that a new attempt looks for, by name, as it finds them."""
    rank.files.watch_opened()
    (seen,) = rank.of(FilesSeen)
    return {Path(file.path).name: file.state for file in seen.files}
