"""The backend without a cluster: a warm start of the script per job, forked for each run."""

import os
import threading
from functools import partial
from pathlib import Path

from chaos.errors import NoViewError
from chaos.launch.environment import HASH_SEED, OTHER_HASH_SEED
from chaos.launch.forked.handles import LaneHandle, ZygoteHandle, end_root, get_root
from chaos.launch.forked.run import ForkedRun
from chaos.launch.launched_run import execute_with_retry
from chaos.model.plan import Plan
from chaos.processes.tree import find_written_files
from chaos.run.directory import RunDirectory
from chaos.run.ports import LaneFolders, ScriptBackend, ShowEntries


class SharedZygote:
    """The zygote that all lanes are forked from; the first plan that needs it starts it.

    With a hash seed other than the usual one, it has a root of its own, which ends with it.
    """

    def __init__(self, hash_seed: str = HASH_SEED) -> None:
        self._lock = threading.Lock()
        self._zygote: ZygoteHandle | None = None
        self._hash_seed = hash_seed
        self._plan: Plan | None = None

    def warm_up(self, plan: Plan, log: Path) -> None:
        """Start the root, whose imports take seconds, while the harness does other work."""
        self._plan = plan
        get_root(plan, log=log, hash_seed=self._hash_seed)

    def get_zygote(self, plan: Plan, directory: RunDirectory) -> ZygoteHandle:
        """Return the zygote of a plan's script: a new one when the job is not the last one's."""
        shape, job = plan.shape, plan.job
        cpus = str(shape.nodes * shape.cpus_per_node)  # which the script may ask for
        key = (plan.cwd, job.source, repr(job.args), repr(job.env), cpus)
        with self._lock:
            if self._zygote is not None:
                if self._zygote.job == key and self._zygote.can_be_used:
                    return self._zygote
                self._zygote.end()
            self._plan = plan
            self._zygote = ZygoteHandle(key, plan, directory, hash_seed=self._hash_seed)
            return self._zygote

    def find_open_files(self, view: LaneFolders) -> list[str]:
        """Return the files of a view that the script, up to its `fit()`, has opened to write."""
        with self._lock:
            pids = [] if self._zygote is None else [self._zygote.pid]
        return [path for path in find_written_files(pids) if view.covers(path)]

    def close(self) -> None:
        with self._lock:
            if self._zygote is not None:
                self._zygote.end()
                self._zygote = None
            if self._plan is not None and self._hash_seed != HASH_SEED:
                end_root(self._plan, self._hash_seed)


class ForkBackend(ScriptBackend):
    """The backend, with its lane: the first plan names the job whose script is started.

    `close` ends the zygote of `shared_zygote` only if it made `shared_zygote`, or if `owns_zygote`
    is set.
    """

    def __init__(
        self,
        shared_zygote: SharedZygote | None = None,
        view: LaneFolders | None = None,
        *,
        owns_zygote: bool = False,
    ) -> None:
        self._shared_zygote = shared_zygote or SharedZygote()
        self._view = view
        self._owns_zygote = shared_zygote is None or owns_zygote
        self._lane: LaneHandle | None = None

    def open_parallel(self, view: LaneFolders | None = None) -> "ForkBackend":
        if view is not None and (open_files := self._shared_zygote.find_open_files(view)):
            raise NoViewError(f"the script holds {min(open_files)} open before its fit()")
        return ForkBackend(self._shared_zygote, view)

    def open_fresh(self, *, reseeded_plan: Plan | None = None) -> "ForkBackend":
        if reseeded_plan is None:
            return ForkBackend()
        shared_zygote = SharedZygote(OTHER_HASH_SEED)
        shared_zygote.warm_up(reseeded_plan, Path(os.devnull))
        return ForkBackend(shared_zygote, owns_zygote=True)

    def close(self) -> None:
        try:
            self._end_lane()
        finally:
            if self._owns_zygote:
                self._shared_zygote.close()

    def execute(self, plan: Plan, directory: RunDirectory, show: ShowEntries) -> None:
        execute_with_retry(partial(self._execute_run, plan, directory, show), directory)

    def _execute_run(
        self, plan: Plan, directory: RunDirectory, show: ShowEntries, retry_reason: str | None
    ) -> str | None:
        zygote = self._shared_zygote.get_zygote(plan, directory)
        try:
            fork_sources = zygote, self._get_lane
            run = ForkedRun(plan, directory, show, retry_reason, *fork_sources, view=self._view)
            return run.execute()
        except BaseException:  # a message may be half sent: the next run gets a new lane
            self._end_lane()
            raise

    def _get_lane(self, zygote: ZygoteHandle) -> LaneHandle:
        lane = self._lane
        if lane is not None and (lane.zygote is not zygote or not lane.can_be_used):
            self._end_lane()
        if self._lane is None:
            self._lane = LaneHandle(zygote, self._view)
        return self._lane

    def _end_lane(self) -> None:
        lane, self._lane = self._lane, None
        if lane is not None:
            lane.end()
