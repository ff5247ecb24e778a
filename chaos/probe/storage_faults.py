"""The choice, in one process, of the armed fault for a use of storage, and the record of it.

Ray's uploads come to it through the wrapped file system, objects of a job's own through the calls
of its client.
"""

import fnmatch
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from chaos.faults.base import Fault
from chaos.faults.corrupt_snapshot import CorruptSnapshot
from chaos.faults.delayed_visibility import DelayedVisibility
from chaos.faults.disk_full import DiskFull
from chaos.faults.fail_upload import FailUpload
from chaos.faults.slow_upload import SlowUpload
from chaos.faults.torn_checkpoint import TornCheckpoint
from chaos.model.event import StorageFaulted
from chaos.model.plan import Op
from chaos.probe.process_identity import HERE
from chaos.run.armed import ArmedFaults, Hidden
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal

Effect = Literal["raised", "killed", "delayed", "cut"]


_Turn = tuple[int, int]


@dataclass(frozen=True)
class Layer:
    """The settings that every copy of a run's wrapped storage shares."""

    directory: Path
    ops: tuple[Op, ...]
    #: the run's own folder in storage; None for the objects that a job puts itself
    root: str | None = None
    #: the name of the file in it with the list of checkpoints of Ray's controller
    snapshot: str = ""

    def checkpoint_of(self, path: str) -> str:
        if self.root is None:
            return path
        root = self.root.strip("/") + "/"
        here = path.strip("/")
        if not here.startswith(root):
            return os.path.dirname(path)  # noqa: PTH120 - may be a key in a bucket
        return root + here.removeprefix(root).partition("/")[0]


class StorageInjector:
    """The faults of one run in one process, asked before each use of storage, by all threads."""

    def __init__(self, layer: Layer) -> None:
        directory = RunDirectory(layer.directory)
        self._journals = directory.journals
        self._layer = layer
        self._ops = layer.ops
        self._armed = ArmedFaults(directory.storage_faults)
        self._lock = threading.Lock()
        self._journal: Journal | None = None
        self._taken: dict[_Turn, bool] = {}
        self._begun: set[_Turn] = set()
        self._told: set[_Turn] = set()
        self._written: dict[_Turn, int] = {}
        self.clock = SystemClock()

    def due(self, path: str) -> Iterator[tuple[Op, Fault]]:
        """Yield the ops whose faults take effect on the writing of a file, in plan order."""
        for op in self._ops:
            if self._concerns(op.fault, path) and self._takes(op):
                yield op, op.fault

    def turned_away(self, path: str) -> Op | None:
        """Return the op that hides a path now, None if none; its time begins at the first look."""
        with self._lock:
            hidden = self._hiding(path)
            if hidden is None:
                return None
            op = next(op for op in self._ops if op.index == hidden.op)
            if hidden.until_ns is None and isinstance(op.fault, DelayedVisibility):
                until_ns = self.clock.now_ns() + int(op.fault.for_s * 1e9)
                self._armed.hide(replace(hidden, until_ns=until_ns))
        return op

    def hidden(self) -> list[str]:
        """Return what is, or was, hidden."""
        found = (self._armed.hidden(op.index) for op in self._ops)
        return [one.path for one in found if one is not None]

    def hides(self, path: str) -> bool:
        return self._hiding(path) is not None

    def hide(self, op: Op, path: str) -> None:
        with self._lock:
            if self._armed.hidden(op.index) is None:
                self._armed.hide(Hidden(op.index, self._layer.checkpoint_of(path)))

    def reserve(self, op: Op, count: int, *, room: int) -> int:
        """Return how many of `count` bytes this upload may still write, of so much room in all."""
        with self._lock:
            turn = _turn(op)
            written = self._written.get(turn, 0)
            granted = min(count, max(0, room - written))
            self._written[turn] = written + granted
        return granted

    def begins(self, op: Op) -> bool:
        """Return whether an upload begins here: true once for each."""
        with self._lock:
            turn = _turn(op)
            is_first = turn not in self._begun
            self._begun.add(turn)
        return is_first

    def record(self, op: Op, path: str, effect: Effect, what: str) -> None:
        """Record an op's effect on a rank's upload, once; on Ray's controller, each time."""
        with self._lock:
            turn = _turn(op)
            if turn in self._told and HERE.rank is not None:
                return
            self._told.add(turn)
            who = "Ray's controller" if HERE.rank is None else f"rank {HERE.rank}"
            name = os.path.basename(path)  # noqa: PTH119 - may be a key in a bucket
            detail = f"{what} ({name}, {who} in attempt {HERE.attempt})"
            self._open_journal().add(
                StorageFaulted(
                    op=op.index,
                    attempt=HERE.attempt,
                    rank=HERE.rank,
                    pid=os.getpid(),
                    effect=effect,
                    path=path,
                    detail=detail,
                )
            )
            self._armed.took_effect(op.index, detail)

    # -- inside ------------------------------------------------------------------------------

    def _concerns(self, fault: Fault, path: str) -> bool:
        name = os.path.basename(path)  # noqa: PTH119 - may be a key in a bucket
        if isinstance(fault, CorruptSnapshot):
            return HERE.rank is None and name == self._layer.snapshot
        if HERE.rank is None:
            return False
        return not isinstance(fault, TornCheckpoint) or fnmatch.fnmatch(name, fault.file)

    def _takes(self, op: Op) -> bool:
        """Return whether an op's fault applies to this upload, whose files share one turn."""
        # Uploads of several ranks run in several processes, so a fault is claimed by a file that
        # can be made once, and not by a counter. An upload has many files: the answer for the first
        # holds for all of them.
        armed_for = self._armed.armed_for(op.index)
        is_ours = HERE.rank is None or armed_for == HERE.rank
        if armed_for is None or not is_ours:
            return False
        if isinstance(op.fault, CorruptSnapshot):  # each writing of it is a turn
            return self._armed.claim(op.index, times=op.fault.times)
        with self._lock:
            turn = _turn(op)
            if turn not in self._taken:
                self._taken[turn] = self._armed.claim(op.index, times=_times(op.fault))
            return self._taken[turn]

    def _hiding(self, path: str) -> Hidden | None:
        if HERE.is_removing:  # see `DelayedVisibility`
            return None
        now_ns = self.clock.now_ns()
        for op in self._ops:
            if isinstance(op.fault, DelayedVisibility):
                hidden = self._armed.hidden(op.index)
                if hidden is not None and hidden.covers(path, now_ns):
                    return hidden
        return None

    def _open_journal(self) -> Journal:
        if self._journal is None:
            name = f"storage-{os.getpid()}"
            self._journal = Journal(self._journals, name, role="storage", clock=self.clock)
        return self._journal


_INJECTORS: dict[tuple[Layer, int], StorageInjector] = {}


def injector_of(layer: Layer) -> StorageInjector:
    """Return this process's injector for a run, however often its storage was unpickled."""
    # pyarrow unpickles the file system again and again, in Ray's controller and in workers, and a
    # process may be forked: what is remembered of an upload belongs to the process.
    key = (layer, os.getpid())
    if key not in _INJECTORS:
        _INJECTORS[key] = StorageInjector(layer)
    return _INJECTORS[key]


def _times(fault: Fault) -> int:
    return fault.times if isinstance(fault, FailUpload | SlowUpload | DiskFull) else 1


def _turn(op: Op) -> _Turn:
    return op.index, HERE.upload
