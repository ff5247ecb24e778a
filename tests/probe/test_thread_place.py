"""A file that a thread writes is of the place where the thread was given its work."""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from chaos.model.event import (
    FileCopied,
    FileSaveBegun,
    FileSaved,
)
from chaos.run.file_digest import folder_digests
from tests.probe.opening_rank import found_by, stepped, watching, write_pickle
from tests.probe.opening_rank import own as own  # noqa: PLC0414 - a fixture
from tests.probe.saving_rank import New
from tests.probe.saving_rank import new as new  # noqa: PLC0414 - a fixture


def test_a_copy_made_beside_training_is_of_the_place_of_its_content(new: New, own: Path) -> None:
    rank = watching(new)
    stepped(rank, 2)
    write_pickle(own / "state.pkl", {"w": np.ones(3)})
    rank.files.scan_files()
    rank.cursor.step = 3
    copying = threading.Thread(target=shutil.copyfile, args=(own / "state.pkl", own / "copy.pkl"))
    copying.start()
    copying.join()
    rank.files.scan_files(at_rest=True)

    assert [(e.step, Path(e.path).name) for e in rank.of(FileSaved)] == [(2, "state.pkl")]
    assert [(e.step, Path(e.path).name) for e in rank.of(FileCopied)] == [(2, "copy.pkl")]
    assert found_by(new(attempt=1)) == {"state.pkl": "there", "copy.pkl": "there"}


def test_a_save_is_of_the_thread_that_opened_its_file(new: New, own: Path) -> None:
    rank = watching(new)
    stepped(rank, 2)
    write_pickle(own / "state.pkl", {"w": np.ones(3)})
    looking = threading.Thread(target=rank.files.scan_files)
    looking.start()
    looking.join()

    assert [e.is_beside for e in rank.of(FileSaveBegun)] == [False]


@pytest.mark.parametrize("is_own_thread", [False, True])
def test_the_thread_that_wrote_a_file_says_whether_it_is_beside_training(
    new: New, own: Path, *, is_own_thread: bool
) -> None:
    rank = watching(new)
    stepped(rank, 2)
    acts = [lambda: write_pickle(own / "a.pkl", {"w": 1}), rank.files.files_closed]
    for act, is_beside in zip(acts, (is_own_thread, True), strict=True):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(act).result() if is_beside else act()

    (begun,) = rank.of(FileSaveBegun)
    assert begun.is_beside is is_own_thread


@pytest.mark.parametrize("is_pooled", [False, True])
def test_what_is_written_beside_training_is_of_where_it_was_handed_over(
    new: New, own: Path, is_pooled: bool
) -> None:
    rank = watching(new)
    stepped(rank, 4)
    may = threading.Event()

    def write() -> None:
        may.wait()
        torch.save({"w": torch.ones(2)}, own / "late.pt")

    with ThreadPoolExecutor(1) as pool:
        thread = threading.Thread(target=write)
        done = pool.submit(write).result if is_pooled else thread.join
        if not is_pooled:
            thread.start()
        rank.files.report_begun()
        rank.cursor.epoch, rank.cursor.step = 1, 0
        stepped(rank, 2)
        may.set()
        done()

    (saved,) = rank.of(FileSaved)
    assert (saved.epoch, saved.step) == (0, 4)
    rank.files.part_uploaded("c1", own, folder_digests(own))
    assert rank.saves.find_resume_place("c1") == (1, 0)
