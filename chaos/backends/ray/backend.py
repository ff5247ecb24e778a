"""Executes plans on a Ray cluster: one driver process per run, one warm cluster per shape."""

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import psutil
import ray

from chaos.backends.ray.actor import ChaosActor
from chaos.backends.ray.bystanders import record_bystanders
from chaos.backends.ray.clusters import RayCluster, cluster_of
from chaos.backends.ray.existing.keeper import LeaseKeeper
from chaos.backends.ray.existing.terms import Terms
from chaos.backends.ray.leftovers import Leftovers
from chaos.backends.ray.settings import NAMESPACE, TRAIN_ENV
from chaos.backends.train.address import CALLBACK, RunAddress
from chaos.backends.train.compat import CALLBACKS_ENV
from chaos.model.event import (
    AnyEvent,
    DeadlinePassed,
    DriverExited,
    NoticeGiven,
    ObserverFailed,
    RunEnded,
    RunStarted,
    StackTaken,
    WorkerStarted,
)
from chaos.model.plan import Plan
from chaos.plan.again import driver_begins_again
from chaos.plan.permitted import Permissions
from chaos.run.clock import SystemClock, seconds_since
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal, Tail
from chaos.run.ports import Show

POLL_S = 0.1
FINISH_S = 45.0
STACKS_S = 1.0


class RayBackend:
    """A context: leaving it ends the cluster."""

    def __init__(self, permissions: Permissions | None = None) -> None:
        self._permissions = permissions or Permissions()
        self._cluster: RayCluster | None = None

    def __enter__(self) -> Self:
        """Start nothing yet; the first plan says which shape is needed."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the cluster."""
        self.close()

    def close(self) -> None:
        """End the cluster, if there is one."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def execute(self, plan: Plan, directory: RunDirectory, show: Show) -> None:
        """Carry out a plan; everything that was seen is in the directory's journals.

        Raises `HarnessError` or `ClusterError` where the cluster cannot be
        had, and passes KeyboardInterrupt on after the run has been ended.
        """
        cluster = self._cluster_for(plan)
        run = Run(plan=plan, directory=directory, cluster=cluster, show=show)
        run.execute()

    def _cluster_for(self, plan: Plan) -> RayCluster:
        if self._cluster is not None and (
            self._cluster.shape != plan.shape or _needs_fresh_nodes(plan, self._cluster)
        ):
            self.close()
        if self._cluster is None:
            self._cluster = cluster_of(plan.shape, self._permissions)
        return self._cluster


@dataclass
class Run:
    """One execution of one plan, from the harness's side."""

    plan: Plan
    directory: RunDirectory
    cluster: RayCluster
    show: Show

    def __post_init__(self) -> None:
        self.clock = SystemClock()
        token = os.urandom(4).hex()
        self.address = RunAddress(self.directory.path, token, f"ray:chaos-{token}")
        self.journal = Journal(self.directory.journals, "harness", role="harness", clock=self.clock)
        self.tail = Tail(self.directory.journals)
        self.seen: list[AnyEvent] = []
        self.jobs: frozenset[str] = frozenset()

    def execute(self) -> None:
        """Start controller and driver, watch, clean up; the history says how it went."""
        plan, token = self.plan, self.address.token
        terms = self.cluster.prepare(plan, self.directory, token)
        self.journal.add(RunStarted(scenario=plan.scenario, seed=plan.seed, backend=plan.backend))
        leftovers = Leftovers.before(token, is_cluster_ours=self.cluster.is_ours)
        controller = self._start_controller(terms)
        interrupted = True
        with contextlib.nullcontext() if terms is None else LeaseKeeper(controller):
            try:
                self._watch(controller)
                interrupted = False
            finally:
                with contextlib.ExitStack() as closing:  # each step is taken, come what may
                    closing.callback(self._close, interrupted=interrupted)
                    closing.callback(self._search, leftovers)
                    closing.callback(self._finish, controller)
        self.cluster.heal({e.node_id for e in self.seen if isinstance(e, NoticeGiven)})

    def _search(self, leftovers: Leftovers) -> None:
        record_bystanders(self.journal, self.directory)
        replace(leftovers, jobs=self.jobs).search(
            self.journal, self._seen_so_far(), self.directory, files=self.plan.watch.files
        )

    def _close(self, *, interrupted: bool) -> None:
        self.journal.add(RunEnded(interrupted=interrupted))
        self.journal.close()
        self._show_new()

    def _start_controller(self, terms: Terms | None) -> Any:  # noqa: ANN401 - an actor handle
        head = ray.get_runtime_context().get_node_id()
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        controller = ChaosActor.options(  # type: ignore[attr-defined]
            name=f"chaos-{self.address.token}",
            namespace=NAMESPACE,
            max_concurrency=32 + 4 * len(self.plan.ops),
            scheduling_strategy=NodeAffinitySchedulingStrategy(head, soft=False),
        ).remote(str(self.directory.path), self.cluster.address, self.cluster.agents, terms)
        ray.get(controller.ready.remote(), timeout=60)
        return controller

    def _start_driver(self) -> "subprocess.Popen[bytes]":
        log = (self.directory.logs / "driver.log").open("ab")
        module, me = "chaos.backends.ray.driver", str(os.getpid())
        command = [sys.executable, "-m", module, str(self.directory.path), me]
        with log:
            return subprocess.Popen(
                command,
                env=self._driver_env(),
                cwd=self.plan.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches us alone; we end the driver
            )

    def _driver_env(self) -> dict[str, str]:
        callbacks = [os.environ.get(CALLBACKS_ENV, ""), CALLBACK]
        return {
            **TRAIN_ENV,
            **os.environ,
            "PYTHONUNBUFFERED": "1",
            "RAY_ADDRESS": self.cluster.address,
            CALLBACKS_ENV: ",".join(name for name in callbacks if name),
            **self.address.as_env(),
            **self.plan.job.env,
        }

    def _watch(self, controller: Any) -> None:  # noqa: ANN401 - an actor handle
        """Watch the driver, and its successor where a fault killed it, to the end of the run."""
        start, again = self.clock.now_ns(), True
        while again:
            driver = self._start_driver()
            is_over = False
            try:
                ray.get(controller.driver_started.remote(driver.pid))
                is_over = self._watch_driver(driver, start, controller)
            finally:
                _end(driver)
                again = is_over and driver_begins_again(self.plan, self._seen_so_far())
                self.journal.add(DriverExited(code=driver.returncode))

    def _watch_driver(
        self,
        driver: "subprocess.Popen[bytes]",
        start_ns: int,
        controller: Any,  # noqa: ANN401 - an actor handle
    ) -> bool:
        """Say whether a driver ended before the run's limit."""
        while driver.poll() is None:
            self._show_new()
            if seconds_since(start_ns, self.clock) > self.plan.limits.run_s:
                self.journal.add(DeadlinePassed(limit_s=self.plan.limits.run_s))
                self._take_stacks(driver, controller)
                return False
            self._run_errands(controller)
            self.clock.sleep(POLL_S)
        return True

    def _run_errands(self, controller: Any) -> None:  # noqa: ANN401 - an actor handle
        if any(op.return_capacity or op.withhold_capacity for op in self.plan.ops):
            self._deliver_nodes(controller)
        if self.plan.shape.keeps_gcs:
            self._mind_gcs(controller)

    def _mind_gcs(self, controller: Any) -> None:  # noqa: ANN401 - an actor handle
        """End or start the GCS where a fault asks for it: that, too, is the main thread's."""
        errand = ray.get(controller.gcs_errand.remote())
        if errand is not None:
            pid = self.cluster.end_gcs() if errand == "end" else self.cluster.start_gcs()
            ray.get(controller.gcs_done.remote(pid))

    def _deliver_nodes(self, controller: Any) -> None:  # noqa: ANN401 - an actor handle
        """Start the nodes that a fault asks for: it must be done in this, the main thread."""
        wanted = ray.get(controller.nodes_wanted.remote())
        if wanted:
            ray.get(controller.nodes_joined.remote(self.cluster.grow(wanted)))

    def _show_new(self) -> None:
        entries = self.tail.new_entries()
        self.seen.extend(entry.what for entry in entries)
        self.show(entries)

    def _seen_so_far(self) -> list[AnyEvent]:
        self._show_new()
        return self.seen

    def _take_stacks(self, driver: "subprocess.Popen[bytes]", controller: Any) -> None:  # noqa: ANN401
        """Ask all ranks and the driver for their stacks: faulthandler answers even from C++."""
        _ask_here(driver.pid)
        self.journal.add(StackTaken(pid=driver.pid, rank=None, path="logs/stacks-driver.txt"))
        for started in [e for e in self._seen_so_far() if isinstance(e, WorkerStarted)]:
            pid, rank = started.pid, started.rank
            try:
                if self.cluster.is_ours:
                    _ask_here(pid)
                else:  # it may be a pid of another host
                    ray.get(controller.ask_for_stack.remote(started.node_id, pid), timeout=STACKS_S)
            except (psutil.Error, ray.exceptions.RayError):
                continue
            path = f"logs/stacks-rank-{rank}-{pid}.txt"
            self.journal.add(StackTaken(pid=pid, rank=rank, path=path))
        self.clock.sleep(STACKS_S)

    def _finish(self, controller: Any) -> None:  # noqa: ANN401 - an actor handle
        """Let strikes that are under way come to their end, then end the chaos controller."""
        try:
            finished, start = controller.finish.remote(FINISH_S), self.clock.now_ns()
            while not ray.wait([finished], timeout=POLL_S)[0]:
                self._run_errands(controller)  # a strike that is under way may wait for one
                if seconds_since(start, self.clock) > FINISH_S + 15:
                    break
            ray.get(finished, timeout=0)
            self.jobs = ray.get(controller.retire.remote(), timeout=FINISH_S + 15)
        except ray.exceptions.RayError as error:
            self.directory.write("logs/controller-error.txt", str(error))
            if not self.cluster.is_ours:  # some of the history may not have come
                name = type(error).__name__
                self.journal.add(ObserverFailed(where="collecting the history", error=name))
        finally:
            with contextlib.suppress(ray.exceptions.RayError):
                ray.kill(controller)


def _ask_here(pid: int) -> None:
    psutil.Process(pid).send_signal(signal.SIGUSR2)


def _end(driver: "subprocess.Popen[bytes]") -> None:
    """End the driver and what it forked; its Ray actors end with its connection."""
    if driver.poll() is None:
        with contextlib.suppress(psutil.Error):  # they may end while we look
            for process in psutil.Process(driver.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    process.kill()
        driver.kill()
    driver.wait()


def _needs_fresh_nodes(plan: Plan, cluster: RayCluster) -> bool:
    """Say whether an elastic job might begin with fewer workers than there is room for.

    Ray 2.60's autoscaling coordinator learns of a node some seconds after it
    has joined; until then an elastic job does without, and grows when it has.
    """
    return cluster.is_mended and plan.job.min_workers is not None
