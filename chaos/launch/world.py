"""The part of every backend's world: workers, decisions, obeyed orders, storage, the end."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from chaos.faults.order import Order
from chaos.faults.world import RefusedError, Target, WorkerRelease
from chaos.launch.cluster_extension import MetadataService, load_cluster_extension
from chaos.model.event import FailureDecided
from chaos.model.plan import Plan
from chaos.processes.tree import is_stopped
from chaos.run.armed_faults import ArmedFaults
from chaos.run.clock import Clock, SystemClock, await_condition, elapsed_seconds
from chaos.run.controller import ChaosController
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal
from chaos.run.machine import free_bytes

POLL_S = 0.005


def build_answers(controller: ChaosController, world: "RunWorld") -> dict[str, Callable[..., Any]]:
    """Return, by its name, the answer to each question of a process of the run."""
    return {
        "next_attempt": world.next_attempt,
        "group_launched": controller.group_launched,
        "resumed": controller.resumed,
        "committed": controller.committed,
        "may_poll": controller.may_poll,
        "await_hold": controller.await_hold,
        "enter_state": controller.enter_state,
        "arrive": controller.arrive,
        "obeyed": world.order_obeyed,
        "failure_decided": world.failure_decided,
    }


@contextlib.contextmanager
def serve_metadata(
    plan: Plan, world: "RunWorld", directory: RunDirectory
) -> Iterator[dict[str, str]]:
    """Serve the metadata that a plan's job asks for meanwhile; yield the job's variables for it."""
    if plan.shape.metadata is None:
        yield {}
        return
    extension = load_cluster_extension("cluster.metadata")
    journal = Journal(directory.journals, "metadata", role="chaos", clock=SystemClock())
    world.metadata = extension.open_metadata(
        plan.shape.metadata, world.list_targets, directory.logs / "metadata.log", journal
    )
    try:
        yield world.metadata.variables()
    finally:
        world.metadata.close()
        journal.close()


class RunWorld:
    """The part of a `World` that is the same on any backend, for one run.

    Observer, workers and harness report to it; faults ask it.
    """

    def __init__(self, clock: Clock, armed: ArmedFaults, *, poll_s: float = POLL_S) -> None:
        self._clock = clock
        self._poll_s = poll_s  # for a proof
        self._armed = armed
        self._group: dict[int, Target] = {}
        self._failures: dict[int, FailureDecided] = {}
        self._obeyed_tokens: set[str] = set()
        self._is_over = False
        self._drivers: list[int] = []  # oldest first
        self._drivers_ended: set[int] = set()
        self._frozen_pids: tuple[int, ...] = ()  # the processes of a frozen driver
        self._wants_driver = False
        self._attempts = 0
        self._attempt_lock = threading.Lock()
        self.has_trained: Callable[[int], bool] = lambda _: False
        self.metadata: MetadataService | None = None  # set where the plan asks for it

    # -- reports ---------------------------------------------------------------------------

    def next_attempt(self, known_attempts: int) -> int:
        """Return the number of the attempt that begins now; so many are known to its driver."""
        with self._attempt_lock:
            # Two drivers may run at a time, and each counts only the attempts that it knows of.
            self._attempts = max(self._attempts, known_attempts) + 1
            return self._attempts - 1

    def learn_group(self, group: Mapping[int, Target]) -> None:
        self._group = dict(group)

    def failure_decided(self, event: FailureDecided) -> None:
        self._failures.setdefault(event.attempt, event)

    def order_obeyed(self, token: str) -> None:
        self._obeyed_tokens.add(token)

    def driver_started(self, pid: int) -> None:
        self._drivers.append(pid)

    def driver_ended(self, pid: int) -> None:
        self._drivers_ended.add(pid)

    def take_driver_request(self) -> bool:
        """Return whether a fault asks for a second driver; a second call returns False."""
        is_wanted, self._wants_driver = self._wants_driver, False
        return is_wanted

    def end(self) -> None:
        self._is_over = True

    # -- questions of faults ---------------------------------------------------------------

    def list_targets(self) -> Mapping[int, Target]:
        return self._group

    def wait_for_failure(self, target: Target, *, within_s: float) -> Mapping[int, str] | None:
        self._await_condition(lambda: target.attempt in self._failures, within_s)
        event = self._failures.get(target.attempt)
        return None if event is None else event.errors

    @property
    def driver_pid(self) -> int | None:
        """The process that runs the user's script, the newest; None before there is one."""
        return self._drivers[-1] if self._drivers else None

    def workers_outlive_driver(self) -> bool:
        return False

    def start_driver(self, *, within_s: float) -> int | None:
        driver_count, self._wants_driver = len(self._drivers), True
        return (
            self.driver_pid
            if self._await_condition(lambda: len(self._drivers) > driver_count, within_s)
            else None
        )

    def wait_for_driver(self, pid: int, *, attempt: int, within_s: float) -> str | None:
        self._await_condition(
            lambda: pid in self._drivers_ended or self.has_trained(attempt + 1), within_s
        )
        if pid in self._drivers_ended:
            return "has ended"
        return "trains" if self.has_trained(attempt + 1) else None

    def freeze_driver(self, *, within_s: float) -> int | None:
        self._frozen_pids = tuple(pid for pid in self._list_job_pids() if not is_stopped(pid))
        for pid in self._frozen_pids:
            with contextlib.suppress(ProcessLookupError):  # it may have ended just now
                os.kill(pid, signal.SIGSTOP)
        is_still = self._await_even_after_run(
            lambda: all(map(is_stopped, self._frozen_pids)), within_s
        )
        return len(self._frozen_pids) if is_still else None

    def thaw_driver(self) -> None:
        for pid in self._frozen_pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _list_job_pids(self) -> list[int]:
        driver_pids = [] if self.driver_pid is None else [self.driver_pid]
        return [*driver_pids, *(target.pid for target in self.list_targets().values())]

    def free_memory(self) -> int:
        return free_bytes()

    def has_obeyed(self, order: Order, *, within_s: float) -> bool:
        return self._await_condition(lambda: order.token in self._obeyed_tokens, within_s)

    def wait_seconds(self, seconds: float) -> bool:
        self._await_condition(lambda: False, seconds)
        return not self._is_over

    def wait_for_deadline(self, deadline_ns: int) -> bool:
        self._await_condition(lambda: self._clock.now_ns() >= deadline_ns)
        return self._clock.now_ns() >= deadline_ns

    def post_notice(self, node_id: str, *, deadline_ns: int) -> None:
        if self.metadata is not None:
            self.metadata.post(node_id, deadline_ns=deadline_ns)

    def reclaim_node(self, node_id: str, *, notice_s: float, release: WorkerRelease) -> bool | None:
        """Return None: there is no platform but chaos."""
        del node_id, notice_s, release
        return None

    def describe_taker(self, node_id: str) -> str | None:
        del node_id
        return None

    def queue(self) -> Any:
        raise RefusedError("the job waits in no queue")

    def arm_storage(self, target: Target) -> None:
        self._armed.arm(target.op, target.rank)

    def await_storage(self, target: Target) -> str | None:
        self._await_condition(lambda: self._armed.find_effect(target.op) is not None)
        return self._armed.find_effect(target.op)

    def cut_off_node(self, node_id: str, *, for_s: float) -> None:
        del node_id, for_s
        raise RefusedError("the nodes share one host, and have no network between them")

    def await_node_silence(self, node_id: str, *, within_s: float) -> bool:
        raise AssertionError(node_id, within_s)  # refused in `cut_off_node`

    def await_node_return(self, node_id: str, *, within_s: float) -> bool:
        raise AssertionError(node_id, within_s)  # refused in `cut_off_node`

    def _await_even_after_run(self, is_met: Callable[[], bool], within_s: float) -> bool:
        """Wait for a proof, even beyond the end of the run; return whether it came."""
        return await_condition(is_met, self._clock, within_s=within_s, poll_s=self._poll_s)

    def _await_condition(self, is_met: Callable[[], bool], within_s: float | None = None) -> bool:
        """Wait for a condition, at most `within_s` and to the run's end; return whether it came."""
        start = self._clock.now_ns()
        while not is_met():
            is_late = within_s is not None and elapsed_seconds(start, self._clock) > within_s
            if self._is_over or is_late:
                return is_met()
            self._clock.sleep(POLL_S)
        return True
