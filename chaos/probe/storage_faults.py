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
from chaos.run.armed_faults import ArmedFaults, HiddenFolder
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal

Effect = Literal["raised", "killed", "delayed", "cut"]


_Turn = tuple[int, int]


@dataclass(frozen=True)
class StorageSettings:
    """The settings that every copy of a run's wrapped storage shares."""

    directory: Path
    ops: tuple[Op, ...]
    #: the run's own folder in storage; None for the objects that a job puts itself
    root: str | None = None
    #: the name of the file in it with the list of checkpoints of Ray's controller
    snapshot: str = ""

    def find_checkpoint(self, path: str) -> str:
        if self.root is None:
            return path
        root = self.root.strip("/") + "/"
        relative_path = path.strip("/")
        if not relative_path.startswith(root):
            return os.path.dirname(path)  # noqa: PTH120 - may be a key in a bucket
        return root + relative_path.removeprefix(root).partition("/")[0]


class StorageInjector:
    """The faults of one run in one process, asked before each use of storage, by all threads."""

    def __init__(self, settings: StorageSettings) -> None:
        directory = RunDirectory(settings.directory)
        self._journals = directory.journals
        self._settings = settings
        self._ops = settings.ops
        self._armed = ArmedFaults(directory.storage_faults)
        self._lock = threading.Lock()
        self._journal: Journal | None = None
        self._claim_by_turn: dict[_Turn, bool] = {}
        self._begun_turns: set[_Turn] = set()
        self._recorded_turns: set[_Turn] = set()
        self._written_bytes: dict[_Turn, int] = {}
        self.clock = SystemClock()

    def find_faults(self, path: str) -> Iterator[tuple[Op, Fault]]:
        """Yield the ops whose faults take effect on the writing of a file, in plan order."""
        for op in self._ops:
            if self._can_affect(op.fault, path) and self._claims_turn(op):
                yield op, op.fault

    def find_hiding_op(self, path: str) -> Op | None:
        """Return the op that hides a path now, None if none; its time begins at the first look."""
        with self._lock:
            hidden = self._find_hidden(path)
            if hidden is None:
                return None
            op = next(op for op in self._ops if op.index == hidden.op)
            if hidden.until_ns is None and isinstance(op.fault, DelayedVisibility):
                until_ns = self.clock.now_ns() + int(op.fault.for_s * 1e9)
                self._armed.hide_folder(replace(hidden, until_ns=until_ns))
        return op

    def list_hidden_paths(self) -> list[str]:
        """Return what is, or was, hidden."""
        hidden_paths = (self._armed.find_hidden(op.index) for op in self._ops)
        return [hidden_path.path for hidden_path in hidden_paths if hidden_path is not None]

    def is_hidden(self, path: str) -> bool:
        return self._find_hidden(path) is not None

    def hide(self, op: Op, path: str) -> None:
        with self._lock:
            if self._armed.find_hidden(op.index) is None:
                self._armed.hide_folder(
                    HiddenFolder(op.index, self._settings.find_checkpoint(path))
                )

    def reserve_bytes(self, op: Op, count: int, *, room: int) -> int:
        """Return how many of `count` bytes this upload may still write, of so much room in all."""
        with self._lock:
            turn = _build_turn(op)
            written_count = self._written_bytes.get(turn, 0)
            granted_count = min(count, max(0, room - written_count))
            self._written_bytes[turn] = written_count + granted_count
        return granted_count

    def is_upload_begin(self, op: Op) -> bool:
        """Return whether an upload begins here: true once for each."""
        with self._lock:
            turn = _build_turn(op)
            is_first = turn not in self._begun_turns
            self._begun_turns.add(turn)
        return is_first

    def record_effect(self, op: Op, path: str, effect: Effect, description: str) -> None:
        """Record an op's effect on a rank's upload, once; on Ray's controller, each time."""
        with self._lock:
            turn = _build_turn(op)
            if turn in self._recorded_turns and HERE.rank is not None:
                return
            self._recorded_turns.add(turn)
            process_name = "Ray's controller" if HERE.rank is None else f"rank {HERE.rank}"
            name = os.path.basename(path)  # noqa: PTH119 - may be a key in a bucket
            detail = f"{description} ({name}, {process_name} in attempt {HERE.attempt})"
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
            self._armed.record_effect(op.index, detail)

    # -- inside ------------------------------------------------------------------------------

    def _can_affect(self, fault: Fault, path: str) -> bool:
        name = os.path.basename(path)  # noqa: PTH119 - may be a key in a bucket
        if isinstance(fault, CorruptSnapshot):
            return HERE.rank is None and name == self._settings.snapshot
        if HERE.rank is None:
            return False
        return not isinstance(fault, TornCheckpoint) or fnmatch.fnmatch(name, fault.file)

    def _claims_turn(self, op: Op) -> bool:
        """Return whether an op's fault applies to this upload, whose files share one turn."""
        # Uploads of several ranks run in several processes, so a fault is claimed by a file that
        # can be made once, and not by a counter. An upload has many files: the answer for the first
        # holds for all of them.
        armed_rank = self._armed.find_armed_rank(op.index)
        is_own_rank = HERE.rank is None or armed_rank == HERE.rank
        if armed_rank is None or not is_own_rank:
            return False
        if isinstance(op.fault, CorruptSnapshot):  # each writing of it is a turn
            return self._armed.claim(op.index, times=op.fault.times)
        with self._lock:
            turn = _build_turn(op)
            if turn not in self._claim_by_turn:
                self._claim_by_turn[turn] = self._armed.claim(
                    op.index, times=_count_times(op.fault)
                )
            return self._claim_by_turn[turn]

    def _find_hidden(self, path: str) -> HiddenFolder | None:
        if HERE.is_removing:  # see `DelayedVisibility`
            return None
        now_ns = self.clock.now_ns()
        for op in self._ops:
            if isinstance(op.fault, DelayedVisibility):
                hidden = self._armed.find_hidden(op.index)
                if hidden is not None and hidden.covers(path, now_ns):
                    return hidden
        return None

    def _open_journal(self) -> Journal:
        if self._journal is None:
            name = f"storage-{os.getpid()}"
            self._journal = Journal(self._journals, name, role="storage", clock=self.clock)
        return self._journal


_INJECTORS: dict[tuple[StorageSettings, int], StorageInjector] = {}


def find_injector(settings: StorageSettings) -> StorageInjector:
    """Return this process's injector for a run, however often its storage was unpickled."""
    # pyarrow unpickles the file system again and again, in Ray's controller and in workers, and a
    # process may be forked: what is remembered of an upload belongs to the process.
    key = (settings, os.getpid())
    if key not in _INJECTORS:
        _INJECTORS[key] = StorageInjector(settings)
    return _INJECTORS[key]


def _count_times(fault: Fault) -> int:
    return fault.times if isinstance(fault, FailUpload | SlowUpload | DiskFull) else 1


def _build_turn(op: Op) -> _Turn:
    return op.index, HERE.upload_count
