"""Files by which a job finds its save, and saves to which they do not point yet."""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
import pytest

from chaos.model import event as ev
from chaos.model.history import History
from chaos.resume.attempt import build_attempts
from chaos.resume.files import RunFiles
from chaos.resume.save_pointers import can_be_found, find_pointers
from tests.check.scribe import history_of

POINTER = "manifest.json"
PLACE: dict[str, Any] = {"attempt": 0, "rank": 0}


def save(epoch: int) -> Iterator[ev.AnyEvent]:
    """Yield what a thread writes beside training: it begins in one epoch, and ends in the next."""
    path, digest = f"s-{epoch}.pt", f"d{epoch}"
    yield ev.FileSaveBegun(**PLACE, epoch=epoch, step=7, path=path)
    yield ev.FileSaved(**PLACE, epoch=epoch + 1, step=0, path=path, digest=digest, bytes=9)


def pointer(epoch: int) -> ev.FileRenamed:
    return ev.FileRenamed(**PLACE, epoch=epoch + 1, step=1, path="tmp.json", to=POINTER)


def load(path: str, saved_epoch: int) -> ev.FileLoaded:
    saved: dict[str, Any] = {
        "saved_attempt": 0,
        "saved_rank": 0,
        "saved_epoch": saved_epoch,
        "saved_step": 1,
    }
    return ev.FileLoaded(attempt=1, rank=0, epoch=0, step=0, path=path, digest="d", **saved)


def run(*read: ev.AnyEvent) -> History:
    """Return a run that ended as two saves were whole, and nothing pointed to the second."""
    start = ev.WorkerStarted(
        attempt=1,
        rank=0,
        world_size=1,
        pid=2,
        node_id="n",
        checkpoint=None,
        epoch=0,
        accelerators=(),
    )
    return history_of(*save(0), pointer(0), *save(1), start, *read)


def files_of(history: History, baseline: History) -> RunFiles:
    reference = RunFiles(baseline, build_attempts(baseline))
    return RunFiles(history, build_attempts(history), reference)


def clean(*, is_always_replaced: bool = True) -> History:
    second = [pointer(1)] if is_always_replaced else []
    return history_of(*save(0), pointer(0), *save(1), *second, *save(2), pointer(2))


def test_a_save_is_one_that_can_be_found_once_a_pointer_was_replaced_after_it() -> None:
    files = files_of(run(load(POINTER, 1), load("s-0.pt", 1)), clean())

    pointers = find_pointers(files)

    assert pointers == {POINTER}
    assert [can_be_found(files, pointers, one, 1) for one in files.saves] == [True, False]


def test_a_pointer_that_is_older_than_two_saves_hides_none_but_the_last() -> None:
    """A job that no longer replaces it after a restart throws work away."""
    stale = [*save(2), *save(3), load(POINTER, 1), load("s-0.pt", 1)]
    files = files_of(history_of(*save(0), pointer(0), *save(1), *stale), clean())

    found = [can_be_found(files, frozenset({POINTER}), one, 1) for one in files.saves]

    assert found == [True, True, True, False]


def test_a_file_that_is_not_replaced_after_each_save_or_is_not_read_is_no_pointer() -> None:
    read = load(POINTER, 1), load("s-0.pt", 1)

    assert not find_pointers(files_of(run(*read), clean(is_always_replaced=False)))
    assert not find_pointers(files_of(run(read[1]), clean()))


@pytest.mark.parametrize(("state", "can_find_last"), [("there", True), ("gone", False)])
def test_without_a_pointer_the_last_save_is_not_found(
    state: Literal["there", "gone"], *, can_find_last: bool
) -> None:
    seen = ev.SeenFile(path=POINTER, digest="d" if can_find_last else "", state=state)
    files = files_of(run(ev.FilesSeen(attempt=1, rank=0, files=(seen,))), clean())

    found = [can_be_found(files, frozenset({POINTER}), one, 1) for one in files.saves]

    assert found == [True, can_find_last]


def test_a_file_that_was_saved_beside_training_is_known_by_what_it_holds() -> None:
    """Its writing ends at a later place than it began."""
    files = files_of(run(), clean())

    ended = msgspec.structs.replace(load("s-0.pt", 1), digest="d0", saved_step=0)
    origin = files.find_origin(ended)

    assert origin is not None
    assert origin.first_path == "s-0.pt"
