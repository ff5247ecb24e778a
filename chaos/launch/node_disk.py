"""The disk of an emulated node in a run: its temporary folder, and a list of its writes.

    <run>/nodes/<node>/tmp            TMPDIR of its workers, and of all that they start
    <run>/nodes/<node>/written.jsonl  which files they have written, wherever (see `probe.written`)

If the run's folder lies so deep that no socket could be bound in it (a socket's path has at
most 107 bytes), TMPDIR is `/tmp/chaos-<token>.held/<node>`, which is removed when the harness
ends, however it ends (see `held_folders`). The loss of a node removes its TMPDIR and the files that
it made elsewhere on its disk; the rest is removed at the end of the run.
"""

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import process
from pathlib import Path

from chaos.launch.unsynced import find_epoch_ago_ns, find_files_at_risk, find_rewritten
from chaos.model.objects import is_store_object
from chaos.model.paths import is_in_folder, is_node_path
from chaos.model.plan import Plan
from chaos.model.tiers import Tiers
from chaos.probe.address import RunAddress
from chaos.probe.write_ledger import (
    TRAINS,
    FileState,
    LedgerLine,
    WriteLedger,
    WriteLimits,
    build_file_state,
    load_ledger,
    start_ledger,
)
from chaos.run import held_folders
from chaos.run.directory import RunDirectory
from chaos.run.journal import read_history
from chaos.run.ports import LaneFolders

HEAD, START, LEDGER = "head", "start", "written.jsonl"
LONGEST_NODE_NAME = "node-new-999"  # see `ProcessWorld`: this name decides for all nodes of a run
# Of Linux's `sockaddr_un`, without the closing zero: a longer TMPDIR breaks jobs that open sockets
# in it.
SOCKET_PATH_MAX = 107
TMP_SOCKET_NAME_MAX = (
    len("/torch-shm-dir-XXXXXX/manager.sock") + 10
)  # the longest that torch and Python bind
INDUCTOR_ENV = "TORCHINDUCTOR_CACHE_DIR"
NO_TIERS = Tiers({}, ())
RUN_FOLDERS = ("journals", "logs", "saves", "storage-faults", "trials", "nodes")


@dataclass(frozen=True)
class NodeDisk:
    """One node of one run."""

    run: RunAddress
    node_id: str
    #: those of the run's processes, None for none
    confines: WriteLimits | None = None
    tiers: Tiers = NO_TIERS

    @property
    def tmp(self) -> Path:
        """The temporary folder of the node's processes."""
        return (
            _short_folder(self.run) / self.node_id if _is_deep(self.run) else self._folder / "tmp"
        )

    def list_writes(self) -> list[LedgerLine]:
        return load_ledger(self.ledger)

    def use(self) -> WriteLedger:
        """Let this process, and all forked from it, use this node's disk; return its writes."""
        # Three things remember the temporary folder: the environment, for processes that are
        # started; `tempfile`, once it was asked; and multiprocessing, for its sockets. In a fork
        # all of them have the parent's.
        host_tmp = tempfile.gettempdir()
        self.tmp.mkdir(parents=True, exist_ok=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        # torch's compiled code is no state of a job; in TMPDIR each run would compile it anew.
        os.environ.setdefault(INDUCTOR_ENV, f"{host_tmp}/torchinductor_{os.getuid()}")
        os.environ["TMPDIR"] = str(self.tmp)
        tempfile.tempdir = None
        process.current_process()._config.pop("tempdir", None)  # type: ignore[attr-defined]  # noqa: SLF001
        run_folders = [self.run.directory / name for name in RUN_FOLDERS]
        keep_object = (
            self._back_up_object if "bucket" in self.tiers.tier_by_folder.values() else None
        )
        ledger = WriteLedger(
            self.ledger,
            [*run_folders, self.tmp],
            self.confines,
            keep_object,
            has_trained_before=any(find_training_marks(self.run)),
        )
        start_ledger(ledger)
        return ledger

    def _back_up_object(self, path: str) -> None:
        """Keep what a bucket has under a name, before a file is written there."""
        real = os.path.realpath(path)
        if self.tiers.find_tier(real) == "bucket":
            backup = self._backup_path(real)
            backup.parent.mkdir(exist_ok=True)
            backup.unlink(missing_ok=True)
            with suppress(FileNotFoundError):
                shutil.copyfile(path, backup)

    def _restore_object(self, path: str) -> None:
        """Let a bucket have again what it had under the name of a file that was not closed."""
        backup = self._backup_path(path)
        if backup.exists():
            shutil.copyfile(backup, path)
        else:
            Path(path).unlink(missing_ok=True)

    def _backup_path(self, path: str) -> Path:
        return self._folder / "objects" / hashlib.sha256(path.encode()).hexdigest()

    def simulate_loss(
        self, *, unsynced: bool = False, unfinished: Collection[str] = ()
    ) -> list[str]:
        """Remove the files that were on the node's own disk, as far as that is known.

        They are its temporary folder, and files that only this node's processes made: output
        below the host's temporary folders, and all below a folder that is the node's by name.
        With `unsynced`, files on disks that outlive it are emptied; returns these. Of `unfinished`
        files, which its processes were writing, a bucket has what it had before.
        """
        for path in unfinished:
            if self.tiers.find_tier(path) == "bucket":
                self._restore_object(path)
        emptied = self.find_unsynced() if unsynced else []
        for path in emptied:
            with suppress(OSError):
                os.truncate(path, 0)
        shutil.rmtree(self.tmp, ignore_errors=True)
        other_disks = [disk for disk in find_disks(self.run) if disk.node_id != self.node_id]
        other_paths = {line.path for disk in other_disks for line in disk.list_writes()}
        for line in self.list_writes():
            if line.path in other_paths or not self._is_lost(line):
                continue
            if line.how == "created":
                Path(line.path).unlink(missing_ok=True)
            elif line.how == "folder" and not any(
                is_in_folder(path, line.path) for path in other_paths
            ):
                # With what other programs have put into it.
                shutil.rmtree(line.path, ignore_errors=True)
        return emptied

    def find_unsynced(self) -> list[str]:
        """Return the files that its power's loss may leave empty, on disks that outlive it."""
        lines = self.list_writes()
        states = {path: self._find_surviving_state(path) for path in find_rewritten(lines)}
        surviving_states = {path: state for path, state in states.items() if state is not None}
        if not surviving_states:
            return []
        history = read_history(self.run.directory / "journals")
        return find_files_at_risk(surviving_states, lines, since_ns=find_epoch_ago_ns(history))

    def _find_surviving_state(self, path: str) -> FileState | None:
        """Return the state of a regular file on a disk that outlives the node; none in a bucket."""
        if self.tiers.find_tier(os.path.realpath(path)) != "shared":
            return None
        with suppress(OSError):
            status = os.lstat(path)
            return build_file_state(status) if stat.S_ISREG(status.st_mode) else None
        return None

    def _is_lost(self, line: LedgerLine) -> bool:
        path = os.path.realpath(line.path)
        is_removable = (
            line.is_output or is_node_path(path) or self.tiers.find_named_folder(path) is not None
        )
        return is_removable and self.tiers.find_tier(path) == "node"

    @property
    def _folder(self) -> Path:
        return self.run.directory / "nodes" / self.node_id

    @property
    def ledger(self) -> Path:
        """The list of its processes' writes."""
        return self._folder / LEDGER


def build_confines(plan: Plan) -> WriteLimits | None:
    """Return the confines of the processes of a plan's run, None if nothing is forbidden."""
    if plan.confined is None:
        return None
    writable = plan.confined.may_write
    files = tuple(Path(path) for path in writable if not is_store_object(path))
    objects = tuple(path for path in writable if is_store_object(path))
    return WriteLimits(Path(plan.confined.folder), files, objects, is_local_only=True)


def build_run_confines(plan: Plan, run: Path) -> WriteLimits:
    """Return the confines of a command's run: none may harm, or find, files of another.

    Outside of an audit they are those of all runs in one folder of reports.
    """
    return build_confines(plan) or WriteLimits(run.parents[1])


def build_node_disk(plan: Plan, run: RunAddress, node_id: str) -> NodeDisk:
    """Return the disk of a node for a process of a command."""
    tiers = Tiers.from_plan(plan, normalize=os.path.realpath)
    return NodeDisk(run, node_id, build_run_confines(plan, run.directory), tiers)


def record_start_writes(directory: RunDirectory, plan: Plan) -> None:
    """Record the script's writes up to its `fit()`, beside those of this run's nodes."""
    ledger = directory.path / "nodes" / START / LEDGER
    ledger.parent.mkdir(parents=True, exist_ok=True)  # a killed driver's script starts once more
    start_ledger(
        WriteLedger(ledger, [directory.path / name for name in RUN_FOLDERS], build_confines(plan))
    )


def find_disks(run: RunAddress, tiers: Tiers = NO_TIERS) -> list[NodeDisk]:
    """Return the disks of all nodes that had a process of a run, and that of the script's start."""
    folders = sorted((run.directory / "nodes").glob(f"*/{LEDGER}"))
    return [NodeDisk(run, folder.parent.name, tiers=tiers) for folder in folders]


def find_training_marks(run: RunAddress) -> Iterator[Path]:
    """Yield a file of each node on which a run has trained, as old as the training there."""
    yield from (run.directory / "nodes").glob(f"*/{TRAINS}")


def reserve_short_folder(run: RunAddress) -> None:
    """Hold, in the harness, the folder that a run's nodes need outside of the run's own."""
    if _is_deep(run):
        held_folders.hold(_short_folder(run))


def remove_disks(run: RunAddress, view: LaneFolders | None = None) -> None:
    """Remove the disks of a run's nodes, which were in a view, if there is one."""
    shutil.rmtree(run.directory / "nodes", ignore_errors=True)
    if view is not None and _is_deep(run):
        view.call(shutil.rmtree, _short_folder(run), ignore_errors=True)
    held_folders.release(_short_folder(run))


def _is_deep(run: RunAddress) -> bool:
    """Return whether a run's folder lies too deep for sockets: of all its nodes, or of none."""
    longest = run.directory / "nodes" / LONGEST_NODE_NAME / "tmp"
    return len(os.fsencode(longest)) + TMP_SOCKET_NAME_MAX > SOCKET_PATH_MAX


def _short_folder(run: RunAddress) -> Path:
    return held_folders.build_path(f"chaos-{run.token}")
