"""The disk of an emulated node in a run: its temporary folder, and a list of its writes.

    <run>/nodes/<node>/tmp            TMPDIR of its workers, and of all that they start
    <run>/nodes/<node>/written.jsonl  which files they have written, wherever (see `probe.written`)

If the run's folder lies so deep that no socket could be bound in it (a socket's path has at
most 107 bytes), TMPDIR is `/tmp/chaos-<token>.held/<node>`, which is removed when the harness
ends, however it ends (see `leavings`). The loss of a node removes its TMPDIR and the files that
it made elsewhere on its disk; the rest is removed at the end of the run.
"""

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import process
from pathlib import Path

from chaos.launch.unsynced import an_epoch_ago_ns, at_risk, written_anew
from chaos.model.objects import is_object
from chaos.model.paths import is_below, is_of_a_node
from chaos.model.plan import Plan
from chaos.model.tiers import Tiers
from chaos.probe.address import RunAddress
from chaos.probe.written import (
    Confines,
    FileState,
    WriteLedger,
    Written,
    file_state,
    read_ledger,
    record,
)
from chaos.run import leavings
from chaos.run.directory import RunDirectory
from chaos.run.journal import read_history
from chaos.run.ports import View

HEAD, START, LEDGER = "head", "start", "written.jsonl"
LONGEST = "node-new-999"  # see `ProcessWorld`: this name decides for all nodes of a run
# Of Linux's `sockaddr_un`, without the closing zero: a longer TMPDIR breaks jobs that open sockets
# in it.
SOCKET_PATH_MAX = 107
IN_TMP = len("/torch-shm-dir-XXXXXX/manager.sock") + 10  # the longest that torch and Python bind
INDUCTOR_ENV = "TORCHINDUCTOR_CACHE_DIR"
NO_TIERS = Tiers({}, ())
OURS = ("journals", "logs", "saves", "storage-faults", "trials", "nodes")


@dataclass(frozen=True)
class NodeDisk:
    """One node of one run."""

    run: RunAddress
    node_id: str
    #: those of the run's processes, None for none
    confines: Confines | None = None
    tiers: Tiers = NO_TIERS

    @property
    def tmp(self) -> Path:
        """The temporary folder of the node's processes."""
        return _short(self.run) / self.node_id if _is_deep(self.run) else self._folder / "tmp"

    def written(self) -> list[Written]:
        return read_ledger(self.ledger)

    def use(self) -> WriteLedger:
        """Let this process, and all forked from it, use this node's disk; return its writes."""
        # Three things remember the temporary folder: the environment, for processes that are
        # started; `tempfile`, once it was asked; and multiprocessing, for its sockets. In a fork
        # all of them have the parent's.
        before = tempfile.gettempdir()
        self.tmp.mkdir(parents=True, exist_ok=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        # torch's compiled code is no state of a job; in TMPDIR each run would compile it anew.
        os.environ.setdefault(INDUCTOR_ENV, f"{before}/torchinductor_{os.getuid()}")
        os.environ["TMPDIR"] = str(self.tmp)
        tempfile.tempdir = None
        process.current_process()._config.pop("tempdir", None)  # type: ignore[attr-defined]  # noqa: SLF001
        ours = [self.run.directory / name for name in OURS]
        keep = self._keep_object if "bucket" in self.tiers.named.values() else None
        ledger = WriteLedger(self.ledger, [*ours, self.tmp], self.confines, keep)
        record(ledger)
        return ledger

    def _keep_object(self, path: str) -> None:
        """Keep what a bucket has under a name, before a file is written there."""
        real = os.path.realpath(path)
        if self.tiers.of_file(real) == "bucket":
            kept = self._kept(real)
            kept.parent.mkdir(exist_ok=True)
            kept.unlink(missing_ok=True)
            with suppress(FileNotFoundError):
                shutil.copyfile(path, kept)

    def _put_back(self, path: str) -> None:
        """Let a bucket have again what it had under the name of a file that was not closed."""
        kept = self._kept(path)
        if kept.exists():
            shutil.copyfile(kept, path)
        else:
            Path(path).unlink(missing_ok=True)

    def _kept(self, path: str) -> Path:
        return self._folder / "objects" / hashlib.sha256(path.encode()).hexdigest()

    def lose(self, *, unsynced: bool = False, unfinished: Collection[str] = ()) -> list[str]:
        """Remove the files that were on the node's own disk, as far as that is known.

        They are its temporary folder, and files that only this node's processes made: output
        below the host's temporary folders, and all below a folder that is the node's by name.
        With `unsynced`, files on disks that outlive it are emptied; returns these. Of `unfinished`
        files, which its processes were writing, a bucket has what it had before.
        """
        for path in unfinished:
            if self.tiers.of_file(path) == "bucket":
                self._put_back(path)
        emptied = self.unsynced() if unsynced else []
        for path in emptied:
            with suppress(OSError):
                os.truncate(path, 0)
        shutil.rmtree(self.tmp, ignore_errors=True)
        others = [disk for disk in disks(self.run) if disk.node_id != self.node_id]
        theirs = {line.path for disk in others for line in disk.written()}
        for line in self.written():
            if line.path in theirs or not self._is_lost(line):
                continue
            if line.how == "created":
                Path(line.path).unlink(missing_ok=True)
            elif line.how == "folder" and not any(is_below(path, line.path) for path in theirs):
                # With what other programs have put into it.
                shutil.rmtree(line.path, ignore_errors=True)
        return emptied

    def unsynced(self) -> list[str]:
        """Return the files that its power's loss may leave empty, on disks that outlive it."""
        lines = self.written()
        states = {path: self._state_if_it_outlives(path) for path in written_anew(lines)}
        there = {path: state for path, state in states.items() if state is not None}
        if not there:
            return []
        history = read_history(self.run.directory / "journals")
        return at_risk(there, lines, since_ns=an_epoch_ago_ns(history))

    def _state_if_it_outlives(self, path: str) -> FileState | None:
        """Return the state of a regular file on a disk that outlives the node; none in a bucket."""
        if self.tiers.of_file(os.path.realpath(path)) != "shared":
            return None
        with suppress(OSError):
            found = os.lstat(path)
            return file_state(found) if stat.S_ISREG(found.st_mode) else None
        return None

    def _is_lost(self, line: Written) -> bool:
        path = os.path.realpath(line.path)
        is_due = line.is_output or is_of_a_node(path) or self.tiers.naming(path) is not None
        return is_due and self.tiers.of_file(path) == "node"

    @property
    def _folder(self) -> Path:
        return self.run.directory / "nodes" / self.node_id

    @property
    def ledger(self) -> Path:
        """The list of its processes' writes."""
        return self._folder / LEDGER


def confines_of(plan: Plan) -> Confines | None:
    """Return the confines of the processes of a plan's run, None if nothing is forbidden."""
    if plan.confined is None:
        return None
    may = plan.confined.may_write
    files = tuple(Path(path) for path in may if not is_object(path))
    objects = tuple(path for path in may if is_object(path))
    return Confines(Path(plan.confined.folder), files, objects, stays_here=True)


def confines_in(plan: Plan, run: Path) -> Confines:
    """Return the confines of a command's run: none may harm, or find, files of another.

    Outside of an audit they are those of all runs in one folder of reports.
    """
    return confines_of(plan) or Confines(run.parents[1])


def disk_in(plan: Plan, run: RunAddress, node_id: str) -> NodeDisk:
    """Return the disk of a node for a process of a command."""
    tiers = Tiers.of(plan, real=os.path.realpath)
    return NodeDisk(run, node_id, confines_in(plan, run.directory), tiers)


def record_start(directory: RunDirectory, plan: Plan) -> None:
    """Record the script's writes up to its `fit()`, beside those of this run's nodes."""
    ledger = directory.path / "nodes" / START / LEDGER
    ledger.parent.mkdir(parents=True, exist_ok=True)  # a killed driver's script starts once more
    record(WriteLedger(ledger, [directory.path / name for name in OURS], confines_of(plan)))


def disks(run: RunAddress, tiers: Tiers = NO_TIERS) -> list[NodeDisk]:
    """Return the disks of all nodes that had a process of a run, and that of the script's start."""
    folders = sorted((run.directory / "nodes").glob(f"*/{LEDGER}"))
    return [NodeDisk(run, folder.parent.name, tiers=tiers) for folder in folders]


def make_room(run: RunAddress) -> None:
    """Hold, in the harness, the folder that a run's nodes need outside of the run's own."""
    if _is_deep(run):
        leavings.hold(_short(run))


def remove_disks(run: RunAddress, view: View | None = None) -> None:
    """Remove the disks of a run's nodes, which were in a view, if there is one."""
    shutil.rmtree(run.directory / "nodes", ignore_errors=True)
    if view is not None and _is_deep(run):
        view.call(shutil.rmtree, _short(run), ignore_errors=True)
    leavings.drop(_short(run))


def _is_deep(run: RunAddress) -> bool:
    """Return whether a run's folder lies too deep for sockets: of all its nodes, or of none."""
    longest = run.directory / "nodes" / LONGEST / "tmp"
    return len(os.fsencode(longest)) + IN_TMP > SOCKET_PATH_MAX


def _short(run: RunAddress) -> Path:
    return leavings.named(f"chaos-{run.token}")
