"""The backend without a cluster: a warm start of the script per job, forked for each run."""

import os
import threading
from functools import partial
from pathlib import Path

from chaos.errors import NoViewError
from chaos.launch.environment import HASH_SEED, OTHER_HASH_SEED
from chaos.launch.forked.lane_handle import LaneHandle
from chaos.launch.forked.roots import end_root, root_for
from chaos.launch.forked.run import ForkedRun
from chaos.launch.forked.zygote_handle import ZygoteHandle
from chaos.launch.frame import carry_out
from chaos.model.plan import Plan
from chaos.processes.tree import written_by
from chaos.run.directory import RunDirectory
from chaos.run.ports import ScriptBackend, Show, View


class Starts:
    """The zygote that all lanes are forked from; the first plan that needs it starts it.

    With a hash seed other than the usual one, it has a root of its own, which ends with it.
    """

    def __init__(self, hash_seed: str = HASH_SEED) -> None:
        self._turn = threading.Lock()
        self._zygote: ZygoteHandle | None = None
        self._hash_seed = hash_seed
        self._plan: Plan | None = None

    def warm_up(self, plan: Plan, log: Path) -> None:
        """Start the root, whose imports take seconds, while the harness does other work."""
        self._plan = plan
        root_for(plan, log=log, hash_seed=self._hash_seed)

    def of(self, plan: Plan, directory: RunDirectory) -> ZygoteHandle:
        """Return the zygote of a plan's script: a new one when the job is not the last one's."""
        shape, job = plan.shape, plan.job
        cpus = str(shape.nodes * shape.cpus_per_node)  # which the script may ask for
        key = (plan.cwd, job.source, repr(job.args), repr(job.env), cpus)
        with self._turn:
            if self._zygote is not None:
                if self._zygote.job == key and self._zygote.can_be_used:
                    return self._zygote
                self._zygote.end()
            self._plan = plan
            self._zygote = ZygoteHandle(key, plan, directory, hash_seed=self._hash_seed)
            return self._zygote

    def refuse_view(self, view: View) -> None:
        """Raise `NoViewError` if the script, up to its `fit()`, has opened files to write there."""
        with self._turn:
            pids = [] if self._zygote is None else [self._zygote.pid]
        shared = [path for path in written_by(pids) if view.covers(path)]
        if shared:
            raise NoViewError(f"the script holds {min(shared)} open before its fit()")

    def close(self) -> None:
        with self._turn:
            if self._zygote is not None:
                self._zygote.end()
                self._zygote = None
            if self._plan is not None and self._hash_seed != HASH_SEED:
                end_root(self._plan, self._hash_seed)


class ForkBackend(ScriptBackend):
    """The backend, with its lane: the first plan names the job whose script is started.

    `close` ends the zygote of `starts` only if it made `starts`, or if `starts_scripts` is set.
    """

    def __init__(
        self,
        starts: Starts | None = None,
        view: View | None = None,
        *,
        starts_scripts: bool = False,
    ) -> None:
        self._starts = starts or Starts()
        self._view = view
        self._starts_scripts = starts is None or starts_scripts
        self._lane: LaneHandle | None = None

    def beside(self, view: View | None = None) -> "ForkBackend":
        if view is not None:
            self._starts.refuse_view(view)
        return ForkBackend(self._starts, view)

    def afresh(self, *, other_hashes: Plan | None = None) -> "ForkBackend":
        if other_hashes is None:
            return ForkBackend()
        starts = Starts(OTHER_HASH_SEED)
        starts.warm_up(other_hashes, Path(os.devnull))
        return ForkBackend(starts, starts_scripts=True)

    def close(self) -> None:
        try:
            self._end_lane()
        finally:
            if self._starts_scripts:
                self._starts.close()

    def execute(self, plan: Plan, directory: RunDirectory, show: Show) -> None:
        carry_out(partial(self._once, plan, directory, show), directory)

    def _once(
        self, plan: Plan, directory: RunDirectory, show: Show, again_after: str | None
    ) -> str | None:
        zygote = self._starts.of(plan, directory)
        try:
            means = zygote, self._lane_of
            run = ForkedRun(plan, directory, show, again_after, *means, view=self._view)
            return run.execute()
        except BaseException:  # a message may be half sent: the next run gets a new lane
            self._end_lane()
            raise

    def _lane_of(self, zygote: ZygoteHandle) -> LaneHandle:
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


open_scripts = ForkBackend
