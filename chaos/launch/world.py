"""The part of every backend's world: workers, decisions, obeyed orders, storage, the end."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from chaos.faults.order import Order
from chaos.faults.world import JobQueue, RefusedError, Release, Target
from chaos.model.event import FailureDecided
from chaos.model.plan import Plan
from chaos.processes.tree import stands_still
from chaos.run.armed import ArmedFaults
from chaos.run.clock import Clock, SystemClock, came, seconds_since
from chaos.run.controller import ChaosController
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal
from chaos.run.machine import free_bytes
from chaos.run.metadata import MetadataService

POLL_S = 0.005


def answers(controller: ChaosController, world: "RunWorld") -> dict[str, Callable[..., Any]]:
    """Return, by its name, the answer to each question of a process of the run."""
    return {
        "next_attempt": world.next_attempt,
        "group_launched": controller.group_launched,
        "committed": controller.committed,
        "may_poll": controller.may_poll,
        "await_hold": controller.await_hold,
        "enter_state": controller.enter_state,
        "arrive": controller.arrive,
        "obeyed": world.obeyed,
        "failure_decided": world.failure_decided,
    }


@contextlib.contextmanager
def metadata_of(plan: Plan, world: "RunWorld", directory: RunDirectory) -> Iterator[dict[str, str]]:
    """Serve the metadata that a plan's job asks for meanwhile; yield the job's variables for it."""
    if plan.shape.metadata is None:
        yield {}
        return
    log, clock = directory.logs / "metadata.log", SystemClock()
    journal = Journal(directory.journals, "metadata", role="chaos", clock=clock)
    world.metadata = MetadataService(plan.shape.metadata, clock, world.group, log, journal)
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
        self._obeyed: set[str] = set()
        self._over = False
        self._drivers: list[int] = []  # oldest first
        self._drivers_ended: set[int] = set()
        self._still: tuple[int, ...] = ()  # the processes of a frozen driver
        self._driver_wanted = False
        self._attempts = 0
        self._numbering = threading.Lock()
        self.has_trained: Callable[[int], bool] = lambda _: False
        self.metadata: MetadataService | None = None  # set where the plan asks for it

    # -- reports ---------------------------------------------------------------------------

    def next_attempt(self, known: int) -> int:
        """Return the number of the attempt that begins now; so many are known to its driver."""
        with self._numbering:
            # Two drivers may run at a time, and each counts only the attempts that it knows of.
            self._attempts = max(self._attempts, known) + 1
            return self._attempts - 1

    def learn_group(self, group: Mapping[int, Target]) -> None:
        self._group = dict(group)

    def failure_decided(self, event: FailureDecided) -> None:
        self._failures.setdefault(event.attempt, event)

    def obeyed(self, token: str) -> None:
        self._obeyed.add(token)

    def driver_started(self, pid: int) -> None:
        self._drivers.append(pid)

    def driver_ended(self, pid: int) -> None:
        self._drivers_ended.add(pid)

    def driver_wanted(self) -> bool:
        """Return whether a fault asks for a second driver; a second call returns False."""
        wanted, self._driver_wanted = self._driver_wanted, False
        return wanted

    def end(self) -> None:
        self._over = True

    # -- questions of faults ---------------------------------------------------------------

    def group(self) -> Mapping[int, Target]:
        return self._group

    def failure_of(self, target: Target, *, within_s: float) -> Mapping[int, str] | None:
        self._await(lambda: target.attempt in self._failures, within_s)
        event = self._failures.get(target.attempt)
        return None if event is None else event.errors

    @property
    def driver(self) -> int | None:
        """The process that runs the user's script, the newest; None before there is one."""
        return self._drivers[-1] if self._drivers else None

    def workers_outlive_driver(self) -> bool:
        return False

    def start_driver(self, *, within_s: float) -> int | None:
        known, self._driver_wanted = len(self._drivers), True
        return self.driver if self._await(lambda: len(self._drivers) > known, within_s) else None

    def driver_settles(self, pid: int, *, after: int, within_s: float) -> str | None:
        self._await(lambda: pid in self._drivers_ended or self.has_trained(after + 1), within_s)
        if pid in self._drivers_ended:
            return "has ended"
        return "trains" if self.has_trained(after + 1) else None

    def freeze_driver(self, *, within_s: float) -> int | None:
        self._still = tuple(pid for pid in self._of_driver() if not stands_still(pid))
        for pid in self._still:
            with contextlib.suppress(ProcessLookupError):  # it may have ended just now
                os.kill(pid, signal.SIGSTOP)
        is_still = self._until(lambda: all(map(stands_still, self._still)), within_s)
        return len(self._still) if is_still else None

    def thaw_driver(self) -> None:
        for pid in self._still:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _of_driver(self) -> list[int]:
        first = [] if self.driver is None else [self.driver]
        return [*first, *(target.pid for target in self.group().values())]

    def free_memory(self) -> int:
        return free_bytes()

    def has_obeyed(self, order: Order, *, within_s: float) -> bool:
        return self._await(lambda: order.token in self._obeyed, within_s)

    def let_pass(self, seconds: float) -> bool:
        self._await(lambda: False, seconds)
        return not self._over

    def wait_until(self, deadline_ns: int) -> bool:
        self._await(lambda: self._clock.now_ns() >= deadline_ns)
        return self._clock.now_ns() >= deadline_ns

    def post_notice(self, node_id: str, *, deadline_ns: int) -> None:
        if self.metadata is not None:
            self.metadata.post(node_id, deadline_ns=deadline_ns)

    def reclaim_node(self, node_id: str, *, notice_s: float, release: Release) -> bool | None:
        """Return None: there is no platform but chaos."""
        del node_id, notice_s, release
        return None

    def taken_by(self, node_id: str) -> str | None:
        del node_id
        return None

    def queue(self) -> JobQueue:
        raise RefusedError("the job waits in no queue")

    def arm_storage(self, target: Target) -> None:
        self._armed.arm(target.op, target.rank)

    def await_storage(self, target: Target) -> str | None:
        self._await(lambda: self._armed.effect(target.op) is not None)
        return self._armed.effect(target.op)

    def cut_off_node(self, node_id: str, *, for_s: float) -> None:
        del node_id, for_s
        raise RefusedError("the nodes share one host, and have no network between them")

    def node_is_silent(self, node_id: str, *, within_s: float) -> bool:
        raise AssertionError(node_id, within_s)  # refused in `cut_off_node`

    def node_is_back(self, node_id: str, *, within_s: float) -> bool:
        raise AssertionError(node_id, within_s)  # refused in `cut_off_node`

    def _until(self, is_there: Callable[[], bool], within_s: float) -> bool:
        """Wait for a proof, even beyond the end of the run; return whether it came."""
        return came(is_there, self._clock, within_s=within_s, poll_s=self._poll_s)

    def _await(self, is_there: Callable[[], bool], within_s: float | None = None) -> bool:
        """Wait for a condition, at most `within_s` and to the run's end; return whether it came."""
        start = self._clock.now_ns()
        while not is_there():
            late = within_s is not None and seconds_since(start, self._clock) > within_s
            if self._over or late:
                return is_there()
            self._clock.sleep(POLL_S)
        return True
