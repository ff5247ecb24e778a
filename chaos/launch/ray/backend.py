"""The backend on a Ray cluster: one driver process per run, one warm cluster per shape."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import psutil
import ray

from chaos.errors import HarnessError
from chaos.launch.cluster_extension import load_cluster_extension
from chaos.launch.launched_run import LaunchedRun, execute_with_retry
from chaos.launch.ray.actor import ChaosActor
from chaos.launch.ray.cluster import LocalCluster
from chaos.launch.ray.deaths import Deaths, JobDeaths, describe_lost_actor
from chaos.launch.ray.leftovers import Leftovers, record_bystanders
from chaos.launch.ray.ports import RayCluster, RunTerms
from chaos.launch.ray.settings import NAMESPACE, TRAIN_ENV
from chaos.launch.raytrain import CALLBACK
from chaos.launch.raytrain.compat import CALLBACKS_ENV
from chaos.model.event import Disturbed, FaultInvoked, NoticeGiven, ObserverFailed, StackTaken
from chaos.model.plan import Plan, Shape
from chaos.plan.driver_restart import build_driver_env
from chaos.plan.permissions import Permissions
from chaos.probe.address import RunAddress
from chaos.processes.tree import kill_tree
from chaos.run import held_folders
from chaos.run.clock import elapsed_seconds
from chaos.run.directory import RunDirectory
from chaos.run.ports import OpenBackend, Say, ShowEntries
from chaos.run.signals import DRIVER_STACKS, STACK_SIGNAL, describe_kill, is_foreign, rank_stacks

POLL_S = 0.1
FINISH_S = 45.0
STACKS_S = 1.0


def open_cluster(shape: Shape, permissions: Permissions, report: Say) -> RayCluster:
    """Return the cluster that a shape names, or a local one of that shape.

    First removes the folders of clusters whose harness was killed.
    """
    held_folders.sweep()
    if shape.address is not None:
        return load_cluster_extension("--address").join_cluster(shape, permissions, report)
    return LocalCluster.start(shape)


def needs_fresh_nodes(plan: Plan, cluster: RayCluster) -> bool:
    """Return whether an elastic job might begin with fewer workers than there is room for.

    Ray 2.60's autoscaling coordinator sees a node some seconds after it has joined;
    an elastic job begins without it, and grows afterwards.
    """
    return cluster.is_repaired and plan.job.min_workers is not None


class RayBackend(OpenBackend):
    """The backend, with the cluster of its last plan: the first plan has the shape."""

    def __init__(
        self,
        permissions: Permissions | None = None,
        report: Say = lambda _: None,
    ) -> None:
        self._permissions = permissions or Permissions()
        self._report = report
        self._cluster: RayCluster | None = None

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def execute(self, plan: Plan, directory: RunDirectory, show: ShowEntries) -> None:
        """Execute a plan; all that was recorded is in the directory's journals.

        Executes it once more, on a new cluster, if a process of chaos or of its cluster was
        ended from outside. Raises `HarnessError` or `ClusterError` if there is no cluster, and
        passes KeyboardInterrupt on after the run has been ended.
        """
        execute_run = partial(self._execute_run, plan, directory, show)
        if plan.shape.address is None:
            execute_with_retry(execute_run, directory, retryable_error=_ActorLostError)
        else:  # a second try would need leave to do the same harm again
            execute_run(None)

    def _execute_run(
        self, plan: Plan, directory: RunDirectory, show: ShowEntries, retry_reason: str | None
    ) -> str | None:
        cluster = self._ensure_cluster(plan)
        recording_show = cluster.show_and_record(show, plan)
        run = RayRun(plan, directory, recording_show, retry_reason, cluster)
        try:
            return run.execute()
        except ray.exceptions.RayActorError as error:  # of chaos: the driver has those of the job
            run.needs_new_cluster = True
            raise _ActorLostError(describe_lost_actor(error)) from error
        finally:
            if run.needs_new_cluster:
                self.close()

    def _ensure_cluster(self, plan: Plan) -> RayCluster:
        if self._cluster is not None and (
            self._cluster.shape != plan.shape or needs_fresh_nodes(plan, self._cluster)
        ):
            self.close()
        if self._cluster is None:
            self._cluster = open_cluster(plan.shape, self._permissions, self._report)
            if self._cluster.dashboard is not None:
                self._report(f"Ray dashboard: {self._cluster.dashboard}")
        return self._cluster


class _ActorLostError(HarnessError):
    """A part of chaos on the cluster does not answer any more."""


@dataclass
class RayRun(LaunchedRun["subprocess.Popen[bytes]"]):
    """One execution of one plan on a Ray cluster, where its chaos controller is an actor."""

    cluster: RayCluster

    def __post_init__(self) -> None:
        super().__post_init__()
        token = os.urandom(4).hex()
        self.address = RunAddress(self.directory.path, token, f"ray:chaos-{token}")
        self.jobs: frozenset[str] = frozenset()
        self.terms: RunTerms | None = None
        self.leftovers: Leftovers | None = None  # what was there before the run
        self.actor: Any = None  # a handle
        self.deaths = Deaths(
            self.cluster.find_deaths,
            lambda: self._ask("struck_nodes"),
            ends_gcs=self.plan.shape.keeps_gcs,
        )
        self.job_deaths = JobDeaths()
        self.is_headless = self.needs_new_cluster = False

    def execute(self) -> str | None:
        """Carry out the plan on a cluster that is prepared for it, and heal the cluster."""
        self.terms = self.cluster.prepare(self.plan, self.directory, self.address.token)
        disturbance = super().execute()
        if not self.needs_new_cluster:
            self.cluster.heal(
                {event.node_id for event in self.fetch_events() if isinstance(event, NoticeGiven)}
            )
        return disturbance

    @contextlib.contextmanager
    def controller(self) -> Iterator[None]:
        """Keep the chaos controller's actor, and the leases of the agents on others' nodes."""
        token = self.address.token
        leftovers = Leftovers.from_cluster(token, is_cluster_ours=self.cluster.is_ours)
        self.actor = self._start_actor(self.terms)
        self.leftovers = leftovers
        terms = self.terms
        leases = contextlib.nullcontext() if terms is None else terms.renew_leases(self.actor)
        with leases:
            try:
                yield
            finally:
                if not self.is_headless:  # otherwise no process would answer
                    self._finish()

    def clean_up(self) -> None:
        if self.leftovers is None or self.is_headless:
            return
        record_bystanders(self.journal, self.directory)
        replace(self.leftovers, jobs=self.jobs).search(
            self.journal, self.fetch_events(), self.directory, files=self.plan.watch.files
        )

    def _start_actor(self, terms: RunTerms | None) -> Any:  # an actor handle
        head = ray.get_runtime_context().get_node_id()
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        controller = ChaosActor.options(  # type: ignore[attr-defined]
            name=f"chaos-{self.address.token}",
            namespace=NAMESPACE,
            # Each call that waits (a rank at a gate, a fault that asks the harness for something)
            # occupies a thread of the actor. With too few, the call that opens a gate would queue
            # behind those that wait for it.
            max_concurrency=32 + 4 * len(self.plan.ops),
            scheduling_strategy=NodeAffinitySchedulingStrategy(head, soft=False),
        ).remote(
            str(self.directory.path),
            self.cluster.address,
            self.cluster.agents,
            terms,
        )
        variables = ray.get(controller.ready.remote(), timeout=60)
        self.address = replace(self.address, metadata=variables)
        return controller

    def start_driver(self) -> "subprocess.Popen[bytes]":
        log = (self.directory.logs / "driver.log").open("ab")
        module, harness_pid = "chaos.launch.ray.driver", str(os.getpid())
        command = [sys.executable, "-m", module, str(self.directory.path), harness_pid]
        with log:
            return subprocess.Popen(
                command,
                env=self._driver_env(),
                cwd=self.plan.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches the harness alone, which ends the driver
            )

    def _driver_env(self) -> dict[str, str]:
        callbacks = [os.environ.get(CALLBACKS_ENV, ""), CALLBACK]
        return {
            **TRAIN_ENV,
            **os.environ,
            "PYTHONUNBUFFERED": "1",
            **self.cluster.driver_env,
            CALLBACKS_ENV: ",".join(name for name in callbacks if name),
            **self.address.build_variables(),
            **build_driver_env(self.plan, self.fetch_events()),
            **self.start_env,
        }

    @property
    def sees_processes(self) -> bool:
        return self.cluster.is_ours

    def find_pids(self, driver: "subprocess.Popen[bytes]") -> list[int]:
        return [driver.pid]

    def driver_started(self, driver: "subprocess.Popen[bytes]") -> None:
        self._ask("driver_started", driver.pid)

    def driver_ended(self, driver: "subprocess.Popen[bytes]") -> None:
        if self._starts_driver:
            self._ask("driver_ended", driver.pid)

    def take_driver_request(self) -> bool:
        return self._starts_driver and self._ask("driver_wanted")

    def _ask(self, question: str, *arguments: object) -> Any:  # the question's answer
        return ray.get(self.actor.ask.remote(question, *arguments))

    @property
    def _starts_driver(self) -> bool:
        return any(op.fault.starts_driver for op in self.plan.ops)

    def exit_code(self, driver: "subprocess.Popen[bytes]") -> int | None:
        code, death = driver.poll(), self.deaths.find_unexplained()
        # A raylet or GCS that ended by a signal which no fault sent: the job would have the blame,
        # or wait for its nodes. Of the head's end nothing can be asked any more.
        if death is not None:
            self.is_headless, self.needs_new_cluster = death.is_head, True
            self.journal.add(Disturbed(why=str(death)))
        elif code is not None and is_foreign(code) and not self._is_driver_faulted():
            self.journal.add(Disturbed(why=describe_kill("the process that calls fit()", code)))
        elif code is None and (disturbance := self._find_vanished()) is not None:
            self.journal.add(Disturbed(why=disturbance))
        return code

    def _find_vanished(self) -> str | None:
        """Return the sentence for a process of the job that is gone without a fault, or None.

        Only in a run with faults, on a local cluster: a run without faults has no baseline that
        shows that the job does not end its processes itself.
        """
        if not self.plan.ops or not self.cluster.is_ours:
            return None
        # A raylet passes on no exit code of its workers, so one that was killed from outside looks
        # like one that the job has ended. Only a worker that is gone before Ray decided anything,
        # in an attempt without a fault, disturbs the run.
        if self.job_deaths.find_unexplained(self.fetch_events()) is None:
            return None
        return self.job_deaths.find_unexplained(
            self.fetch_events()
        )  # an explanation may have been written since

    def _is_driver_faulted(self) -> bool:
        ops = [
            self.plan.ops[event.op]
            for event in self.fetch_events()
            if isinstance(event, FaultInvoked)
        ]
        return any(op.fault.ends_driver for op in ops)

    def end_driver(self, driver: "subprocess.Popen[bytes]") -> int:
        """End the driver and what it forked; its Ray actors end with its connection."""
        if driver.poll() is None:
            kill_tree(driver.pid)
        return driver.wait()

    def do_background_work(self) -> None:
        self._run_errands()
        self.clock.sleep(POLL_S)

    def take_stacks(self, driver: "subprocess.Popen[bytes]") -> None:
        _request_stack(driver.pid)
        self._record_stack(driver.pid, None, DRIVER_STACKS)
        for worker in self.latest_workers():
            pid, node_id = worker.pid, worker.node_id
            try:
                if self.cluster.is_ours:
                    _request_stack(pid)
                else:  # it may be a pid of another host
                    ray.get(self.actor.ask.remote("request_stack", node_id, pid), timeout=STACKS_S)
            except (psutil.Error, ray.exceptions.RayError):
                continue
            self._record_stack(pid, worker.rank, rank_stacks(worker.rank, pid))
        self.clock.sleep(STACKS_S)

    def _record_stack(self, pid: int, rank: int | None, name: str) -> None:
        self.journal.add(StackTaken(pid=pid, rank=rank, path=f"logs/{name}"))

    def _run_errands(self) -> None:
        if any(op.fault.family == "capacity" for op in self.plan.ops):
            self._deliver_nodes()
        if self.plan.shape.keeps_gcs:
            self._run_gcs_errand()

    def _run_gcs_errand(self) -> None:
        """End or start the GCS if a fault asks for it: only the main thread may."""
        errand = self._ask("gcs_errand")
        if errand is not None:
            assert isinstance(self.cluster, LocalCluster)  # others refuse in `prepare`
            pid = self.cluster.end_gcs() if errand == "end" else self.cluster.start_gcs()
            self._ask("gcs_done", pid)

    def _deliver_nodes(self) -> None:
        """Start the nodes that a fault asks for: only the main thread may."""
        count = self._ask("nodes_wanted")
        if count:
            assert isinstance(self.cluster, LocalCluster)  # others refuse in `prepare`
            self._ask("nodes_joined", self.cluster.grow(count))

    def _finish(self) -> None:
        controller = self.actor
        limit_s = FINISH_S if self.terms is None else max(FINISH_S, self.terms.fault_limit_s)
        try:
            finished, start = controller.finish.remote(limit_s), self.clock.now_ns()
            while not ray.wait([finished], timeout=POLL_S)[0]:
                self._run_errands()  # a fault that is being injected may wait for one
                if elapsed_seconds(start, self.clock) > limit_s + 15:
                    break
            ray.get(finished, timeout=0)
            self.jobs = ray.get(controller.retire.remote(), timeout=FINISH_S + 15)
        except ray.exceptions.RayError as error:
            self.directory.write("logs/controller-error.txt", str(error))
            if isinstance(error, ray.exceptions.RayActorError):
                self.journal.add(Disturbed(why=describe_lost_actor(error)))
            if not self.cluster.is_ours:  # the history may be incomplete
                name = type(error).__name__
                self.journal.add(ObserverFailed(where="collecting the history", error=name))
        finally:
            with contextlib.suppress(ray.exceptions.RayError):
                ray.kill(controller)


def _request_stack(pid: int) -> None:
    psutil.Process(pid).send_signal(STACK_SIGNAL)
