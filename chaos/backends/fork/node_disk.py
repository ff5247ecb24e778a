"""What an emulated node keeps for itself of a run: its temporary folder, and a list of its writes.

    <run>/nodes/<node>/tmp            TMPDIR of its workers, and of all that they start
    <run>/nodes/<node>/written.jsonl  which files they have written, wherever (see `written`)

Where the run's folder lies so deep that no socket could be bound in that
folder (a socket's path has 107 bytes), TMPDIR is `/tmp/chaos-<token>.held/<node>`, which goes
with the harness, however that ends (see `leavings`). A lost node takes both along; the rest is
removed at the end of the run.
"""

import os
import shutil
import tempfile
from dataclasses import dataclass
from multiprocessing import process
from pathlib import Path

from chaos.backends.train.address import RunAddress
from chaos.backends.train.written import Confines, Ledger, Written, is_below, read_ledger, record
from chaos.model.plan import Plan
from chaos.run import leavings
from chaos.run.directory import RunDirectory

HEAD, START, LEDGER = "head", "start", "written.jsonl"
LONGEST = "node-new-999"  # see `ForkWorld`: what the decision is made by, for all nodes alike
SOCKET_PATH_MAX = 107
IN_TMP = len("/torch-shm-dir-XXXXXX/manager.sock") + 10  # the longest that torch and Python bind
INDUCTOR_ENV = "TORCHINDUCTOR_CACHE_DIR"
HOSTS = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - nothing is made there
SESSION = ".session"
OURS = ("journals", "logs", "saves", "storage-faults", "trials", "nodes")


@dataclass(frozen=True)
class NodeDisk:
    """One node of one run; `confines` are those of the run's processes, None for none."""

    run: RunAddress
    node_id: str
    confines: Confines | None = None

    @property
    def tmp(self) -> Path:
        """The temporary folder of the node's processes."""
        return _short(self.run) / self.node_id if _is_deep(self.run) else self._folder / "tmp"

    def written(self) -> list[Written]:
        """Read what the node's processes have written so far."""
        return read_ledger(self._ledger)

    def use(self) -> None:
        """Have this process, and what is forked from it, live on this node's disk."""
        before = tempfile.gettempdir()
        self.tmp.mkdir(parents=True, exist_ok=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        # What torch compiles is nobody's state, and would be compiled anew in each run.
        os.environ.setdefault(INDUCTOR_ENV, f"{before}/torchinductor_{os.getuid()}")
        os.environ["TMPDIR"] = str(self.tmp)
        tempfile.tempdir = None
        process.current_process()._config.pop("tempdir", None)  # type: ignore[attr-defined]  # noqa: SLF001
        ours = [self.run.directory / name for name in OURS]
        record(Ledger(self._ledger, [*ours, self.tmp], self.confines))

    def lose(self) -> None:
        """Remove what was on the node's own disk, as far as that can be told.

        Its temporary folder; and of what its processes have made elsewhere, what they wrote
        as output below the host's temporary folders, or by a relative path in their working
        directory, unless another node wrote there as well.
        A path elsewhere may lie on a disk that all nodes share, and is left.
        """
        shutil.rmtree(self.tmp, ignore_errors=True)
        others = [disk for disk in disks(self.run) if disk.node_id != self.node_id]
        theirs = {line.path for disk in others for line in disk.written()}
        for line in self.written():
            is_made = line.how == "created" and line.path not in theirs
            is_gone = line.is_output and self._is_on_the_nodes_disk(line.path)
            if is_made and (is_gone or self._is_in_the_working_directory(line.path)):
                Path(line.path).unlink(missing_ok=True)

    def _is_on_the_nodes_disk(self, path: str) -> bool:
        real = os.path.realpath(path)
        if is_below(real, str(self.run.directory.resolve())):
            return False
        return any(is_below(real, folder) for folder in HOSTS)

    def _is_in_the_working_directory(self, path: str) -> bool:
        """Return whether a path is where a worker's relative paths lead.

        Ray Train makes that folder in Ray's session, of which each node has one of its
        own (2.60: `StorageContext.local_working_directory`).
        """
        session = self.run.directory.resolve() / "storage" / SESSION
        return is_below(os.path.realpath(path), str(session))

    @property
    def _folder(self) -> Path:
        return self.run.directory / "nodes" / self.node_id

    @property
    def _ledger(self) -> Path:
        return self._folder / LEDGER


def confines_of(plan: Plan) -> Confines | None:
    """Return what the processes of a plan's run may not harm, None where nothing is forbidden."""
    if plan.confined is None:
        return None
    allowed = tuple(Path(path) for path in plan.confined.may_write)
    return Confines(Path(plan.confined.folder), allowed)


def record_start(directory: RunDirectory, plan: Plan) -> None:
    """Write down what the script writes up to its `fit()`, beside what this run's nodes do."""
    ledger = directory.path / "nodes" / START / LEDGER
    ledger.parent.mkdir(parents=True, exist_ok=True)  # a killed driver's script starts once more
    record(Ledger(ledger, [directory.path / name for name in OURS], confines_of(plan)))


def disks(run: RunAddress) -> list[NodeDisk]:
    """Return the disks of all nodes that a process of a run has lived on, its start's too."""
    folders = sorted((run.directory / "nodes").glob(f"*/{LEDGER}"))
    return [NodeDisk(run, folder.parent.name) for folder in folders]


def make_room(run: RunAddress) -> None:
    """Hold, in the harness, what a run's nodes need outside of its folder."""
    if _is_deep(run):
        leavings.hold(_short(run))


def remove_disks(run: RunAddress) -> None:
    """Remove the disks of a run's nodes."""
    shutil.rmtree(run.directory / "nodes", ignore_errors=True)
    leavings.drop(_short(run))


def _is_deep(run: RunAddress) -> bool:
    """Return whether a run's folder lies too deep for sockets: of all its nodes, or of none."""
    longest = run.directory / "nodes" / LONGEST / "tmp"
    return len(os.fsencode(longest)) + IN_TMP > SOCKET_PATH_MAX


def _short(run: RunAddress) -> Path:
    return leavings.named(f"chaos-{run.token}")
