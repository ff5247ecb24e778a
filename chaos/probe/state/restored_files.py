"""Files of a clean run that are copied at a place, and put back before another run resumes there.

An audit, or `chaos explain`, writes an order into a run's folder, before the run:

    keep   the places at which files are copied, as they are when a checkpoint is saved there
    give   the attempts, each with its place: the files become what they were, before the job begins

A file that is put back was ahead of the checkpoint if training then is the baseline's.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from chaos.model.places import TrainingPlace

ORDER = "files.json"  # in the folder of orders
PUT_BACK = "put-back"  # begins the name of an attempt's list of what was put back
LARGEST = 64 << 20
_BESIDE = ("", "-wal", "-shm", "-journal")  # a database of SQLite is of several files
_WAITS = 1000


class FileCopies:
    """The copies that one rank of an attempt makes."""

    def __init__(self, folder: Path, files: Sequence[str], places: Iterable[TrainingPlace]) -> None:
        self._folder, self._files, self._places = folder, files, frozenset(places)
        self._has_copies = False

    @classmethod
    def restore_files(cls, folder: Path, *, attempt: int, rank: int) -> "FileCopies | None":
        """Put back what is due in an attempt; return the copies to be made, None without any."""
        try:
            order: dict[str, Any] = json.loads((folder / ORDER).read_text("utf-8"))
        except FileNotFoundError:
            return None
        restored_place = order.get("give", {}).get(str(attempt))
        if restored_place is not None:
            _restore_once(
                folder,
                order["files"],
                _build_copy_folder(Path(order["from"]), TrainingPlace(*restored_place)),
                attempt,
            )
        kept_places = [TrainingPlace(*restored_place) for restored_place in order.get("keep", ())]
        return cls(folder, order["files"], kept_places) if kept_places and rank == 0 else None

    def copy_files(self) -> None:
        """Copy the files: the job has saved something."""
        copy_folder = self._folder / "held"
        shutil.rmtree(copy_folder, ignore_errors=True)
        copy_folder.mkdir()
        for file in self._files:
            for suffix in _BESIDE:
                with suppress(OSError):  # it is not there
                    path = Path(file + suffix)
                    if path.stat().st_size <= LARGEST:
                        shutil.copyfile(path, copy_folder / _hash_name(file, suffix))
        self._has_copies = True

    def keep_copies(self, place: TrainingPlace) -> None:
        """Keep what was copied at a place, if it is one that is asked for."""
        if place in self._places:
            if not self._has_copies:
                self.copy_files()
            with suppress(OSError):  # training comes by a place once
                (self._folder / "held").rename(_build_copy_folder(self._folder, place))
        self._has_copies = False


def write_order(folder: Path, order: Mapping[str, object]) -> Path:
    """Write an order into the folder of a run's orders, and return that."""
    folder.mkdir(exist_ok=True)
    (folder / ORDER).write_text(json.dumps(order), encoding="utf-8")
    return folder


def load_restored_files(folder: Path) -> dict[int, list[str]]:
    """Return the files that each attempt of a run was given."""
    lists = sorted(folder.glob(f"{PUT_BACK}-*.json"))
    return {
        int(list_file.stem.rpartition("-")[2]): json.loads(list_file.read_text("utf-8"))
        for list_file in lists
    }


def _build_copy_folder(folder: Path, place: TrainingPlace) -> Path:
    return folder / f"files-{place.epoch}-{place.step}"


def _hash_name(file: str, suffix: str) -> str:
    return hashlib.blake2b(file.encode(), digest_size=8).hexdigest() + suffix


def _restore_once(folder: Path, files: Sequence[str], copies: Path, attempt: int) -> None:
    """Put files back before any rank of an attempt begins; the others wait for the first."""
    list_file = folder / f"{PUT_BACK}-{attempt}.json"
    try:
        os.close(os.open(folder / f"putting-back-{attempt}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        for _ in range(_WAITS):
            if list_file.exists():
                break
            time.sleep(0.01)
        return
    restored_files = [file for file in files if copies.is_dir() and _restore_file(file, copies)]
    draft = list_file.with_suffix(".new")
    draft.write_text(json.dumps(restored_files), encoding="utf-8")
    draft.rename(list_file)


def _restore_file(file: str, copies: Path) -> bool:
    """Make a file, and what belongs to it, what was copied; return whether that was done."""
    for suffix in _BESIDE:
        copied_file, path = copies / _hash_name(file, suffix), Path(file + suffix)
        try:
            if copied_file.is_file():
                shutil.copyfile(copied_file, path)
            else:
                path.unlink(missing_ok=True)
        except OSError:
            return False
    return True
