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

from chaos.model.places import Place

ORDER = "files.json"  # in the folder of orders
PUT_BACK = "put-back"  # begins the name of an attempt's list of what was put back
LARGEST = 64 << 20
_BESIDE = ("", "-wal", "-shm", "-journal")  # a database of SQLite is of several files
_WAITS = 1000


class FileCopies:
    """The copies that one rank of an attempt makes."""

    def __init__(self, folder: Path, files: Sequence[str], places: Iterable[Place]) -> None:
        self._folder, self._files, self._places = folder, files, frozenset(places)
        self._is_held = False

    @classmethod
    def of(cls, folder: Path, *, attempt: int, rank: int) -> "FileCopies | None":
        """Put back what is due in an attempt; return the copies to be made, None without any."""
        try:
            order: dict[str, Any] = json.loads((folder / ORDER).read_text("utf-8"))
        except FileNotFoundError:
            return None
        place = order.get("give", {}).get(str(attempt))
        if place is not None:
            _put_back_once(
                folder, order["files"], _copies(Path(order["from"]), Place(*place)), attempt
            )
        keeps = [Place(*place) for place in order.get("keep", ())]
        return cls(folder, order["files"], keeps) if keeps and rank == 0 else None

    def saved(self) -> None:
        """Copy the files: the job has saved something."""
        held = self._folder / "held"
        shutil.rmtree(held, ignore_errors=True)
        held.mkdir()
        for file in self._files:
            for suffix in _BESIDE:
                with suppress(OSError):  # it is not there
                    path = Path(file + suffix)
                    if path.stat().st_size <= LARGEST:
                        shutil.copyfile(path, held / _name(file, suffix))
        self._is_held = True

    def step_begins(self, place: Place) -> None:
        """Keep what was copied at a place, if it is one that is asked for."""
        if place in self._places:
            if not self._is_held:
                self.saved()
            with suppress(OSError):  # training comes by a place once
                (self._folder / "held").rename(_copies(self._folder, place))
        self._is_held = False


def write_order(folder: Path, order: Mapping[str, object]) -> Path:
    """Write an order into the folder of a run's orders, and return that."""
    folder.mkdir(exist_ok=True)
    (folder / ORDER).write_text(json.dumps(order), encoding="utf-8")
    return folder


def read_put_back(folder: Path) -> dict[int, list[str]]:
    """Return the files that each attempt of a run was given."""
    lists = sorted(folder.glob(f"{PUT_BACK}-*.json"))
    return {int(f.stem.rpartition("-")[2]): json.loads(f.read_text("utf-8")) for f in lists}


def _copies(folder: Path, place: Place) -> Path:
    return folder / f"files-{place.epoch}-{place.step}"


def _name(file: str, suffix: str) -> str:
    return hashlib.blake2b(file.encode(), digest_size=8).hexdigest() + suffix


def _put_back_once(folder: Path, files: Sequence[str], copies: Path, attempt: int) -> None:
    """Put files back before any rank of an attempt begins; the others wait for the first."""
    done = folder / f"{PUT_BACK}-{attempt}.json"
    try:
        os.close(os.open(folder / f"putting-back-{attempt}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        for _ in range(_WAITS):
            if done.exists():
                break
            time.sleep(0.01)
        return
    given = [file for file in files if copies.is_dir() and _put_back(file, copies)]
    draft = done.with_suffix(".new")
    draft.write_text(json.dumps(given), encoding="utf-8")
    draft.rename(done)


def _put_back(file: str, copies: Path) -> bool:
    """Make a file, and what belongs to it, what was copied; return whether that was done."""
    for suffix in _BESIDE:
        kept, path = copies / _name(file, suffix), Path(file + suffix)
        try:
            if kept.is_file():
                shutil.copyfile(kept, path)
            else:
                path.unlink(missing_ok=True)
        except OSError:
            return False
    return True
