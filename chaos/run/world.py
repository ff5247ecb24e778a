"""The part of every backend's world: workers, decisions, obeyed orders, storage, the end."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from chaos.faults.order import Order
from chaos.faults.world import RefusedError, Target
from chaos.model.event import FailureDecided
from chaos.model.plan import Plan
from chaos.run.armed import ArmedFaults
from chaos.run.clock import Clock, SystemClock, seconds_since
from chaos.run.controller import ChaosController
from chaos.run.directory import RunDirectory
from chaos.run.machine import free_bytes
from chaos.run.metadata import MetadataService

POLL_S = 0.005
METADATA_LOG = "metadata.log"


def answers(controller: ChaosController, world: "RunWorld") -> dict[str, Callable[..., Any]]:
    """Return, by its name, the answer to each question of a process of the run."""
    return {
        "group_launched": controller.group_launched,
        "committed": controller.committed,
        "may_poll": controller.may_poll,
        "await_hold": controller.await_hold,
        "enter_state": controller.enter_state,
        "arrive": controller.arrive,
        "obeyed": world.obeyed,
        "failure_decided": world.failure_decided,
    }


@contextmanager
def metadata_of(plan: Plan, world: "RunWorld", directory: RunDirectory) -> Iterator[dict[str, str]]:
    """Serve the metadata that a plan's job asks for meanwhile; yield the job's variables for it."""
    if plan.shape.metadata is None:
        yield {}
        return
    log = directory.logs / METADATA_LOG
    world.metadata = MetadataService(plan.shape.metadata, SystemClock(), world.group, log)
    try:
        yield world.metadata.variables()
    finally:
        world.metadata.close()


class RunWorld:
    """The part of a `World` that is the same on any backend, for one run.

    Observer, workers and harness report to it; faults ask it.
    """

    def __init__(self, clock: Clock, armed: ArmedFaults) -> None:
        self._clock = clock
        self._armed = armed
        self._group: dict[int, Target] = {}
        self._failures: dict[int, FailureDecided] = {}
        self._obeyed: set[str] = set()
        self._over = False
        self.driver: int | None = None
        self.metadata: MetadataService | None = None  # set where the plan asks for it

    # -- reports ---------------------------------------------------------------------------

    def learn_group(self, group: Mapping[int, Target]) -> None:
        """Set the worker of each rank."""
        self._group = dict(group)

    def failure_decided(self, event: FailureDecided) -> None:
        """Note Ray's decision about a failure."""
        self._failures.setdefault(event.attempt, event)

    def obeyed(self, token: str) -> None:
        """Note that a worker carries out an order, by its token."""
        self._obeyed.add(token)

    def end(self) -> None:
        """Note that the run is over, and end all waits."""
        self._over = True

    # -- questions of faults ---------------------------------------------------------------

    def group(self) -> Mapping[int, Target]:
        """Return the present worker of each rank."""
        return self._group

    def failure_of(self, target: Target, *, within_s: float) -> Mapping[int, str] | None:
        """Wait until Ray has recorded the failure of an attempt; return the ranks' errors."""
        self._await(lambda: target.attempt in self._failures, within_s)
        event = self._failures.get(target.attempt)
        return None if event is None else event.errors

    def free_memory(self) -> int:
        """Return the bytes of free memory, of this machine or of its container."""
        return free_bytes()

    def has_obeyed(self, order: Order, *, within_s: float) -> bool:
        """Wait until a worker carries out an order; return whether it does."""
        return self._await(lambda: order.token in self._obeyed, within_s)

    def let_pass(self, seconds: float) -> bool:
        """Wait for so many seconds; return False if the run ended before."""
        self._await(lambda: False, seconds)
        return not self._over

    def wait_until(self, deadline_ns: int) -> bool:
        """Wait until a deadline (monotonic ns); return False if the run ended before."""
        self._await(lambda: self._clock.now_ns() >= deadline_ns)
        return self._clock.now_ns() >= deadline_ns

    def post_notice(self, node_id: str, *, deadline_ns: int) -> None:
        """Announce the loss of a node by the run's metadata service, if it has one."""
        if self.metadata is not None:
            self.metadata.post(node_id, deadline_ns=deadline_ns)

    def arm_storage(self, target: Target) -> None:
        """Arm the storage fault of an op: for its rank's next upload, or Ray's next snapshot."""
        self._armed.arm(target.op, target.rank)

    def await_storage(self, target: Target) -> str | None:
        """Wait for and return the effect of an op's storage fault; None if the run ended before."""
        self._await(lambda: self._armed.effect(target.op) is not None)
        return self._armed.effect(target.op)

    def cut_off_node(self, node_id: str, *, for_s: float) -> None:
        """Refuse, unless each node has a network of its own."""
        del node_id, for_s
        raise RefusedError("the nodes share one host, and have no network between them")

    def node_is_silent(self, node_id: str, *, within_s: float) -> bool:
        """Return whether a node that was cut off does not answer in time."""
        raise AssertionError(node_id, within_s)  # refused in `cut_off_node`

    def node_is_back(self, node_id: str, *, within_s: float) -> bool:
        """Return whether a node that was cut off answers again in time."""
        raise AssertionError(node_id, within_s)  # refused in `cut_off_node`

    def _await(self, is_there: Callable[[], bool], within_s: float | None = None) -> bool:
        """Wait for a condition, at most `within_s` and to the run's end; return whether it came."""
        start = self._clock.now_ns()
        while not is_there():
            late = within_s is not None and seconds_since(start, self._clock) > within_s
            if self._over or late:
                return is_there()
            self._clock.sleep(POLL_S)
        return True
