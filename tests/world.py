"""A world of memory that faults strike: two workers on two nodes, and what was done to them."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chaos.faults.order import Order
from chaos.faults.world import Target, WorkerRelease

RANK_0 = Target(attempt=0, rank=0, pid=70, node_id="node-a")
RANK_1 = Target(attempt=0, rank=1, pid=71, node_id="node-b")
DEADLINE_NS = 99


def _come() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


@dataclass
class FakeWorld:
    """Does what it is told and remembers it; `ends` has the signals that end a process.

    `gone` are the pids that have ended, `lost` the nodes, `effect` is what
    storage says it did. Waiting for a deadline lasts until `deadline` is set.
    A node that `leaves` ends on SIGTERM. With a `platform`, that takes the nodes.
    In a world that is `hardy` nothing ends, stops or joins.
    """

    hardy: bool = False
    workers: Mapping[int, Target] = field(default_factory=lambda: {0: RANK_0, 1: RANK_1})
    ends: tuple[str, ...] = ("KILL", "TERM")
    stops: bool = True
    obeys: bool = True
    over: bool = False
    leaves: bool = True
    errors: Mapping[int, str] | None = None
    free: int = 2**40
    effect: str | None = "raised on rank 1"
    loaders: list[int] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    deadline: threading.Event = field(default_factory=_come)
    done: list[str] = field(default_factory=list)
    posted: list[tuple[str, int]] = field(default_factory=list)
    platform: str | None = None

    def signal_worker(self, target: Target, signal_name: str) -> None:
        if target.pid in self.gone:
            raise ProcessLookupError(f"pid {target.pid}")
        self.done.append(f"SIG{signal_name} {target.pid}")
        if signal_name in self.ends:
            self.gone.add(target.pid)

    def end_worker_actor(self, target: Target) -> None:
        self.done.append(f"ray.kill {target.rank}")
        self.gone.add(target.pid)

    def free_memory(self) -> int:
        return self.free

    def disguise_as_memory_kill(self, target: Target) -> None:
        self.done.append(f"blame memory for {target.pid}")

    def await_worker_end(self, target: Target, *, within_s: float) -> bool:
        return target.pid in {0, *self.gone}

    def list_descendants(self, target: Target, *, name: str | None = None) -> list[int]:
        return self.loaders

    def await_worker_stop(self, target: Target, *, within_s: float) -> bool:
        return self.stops

    def list_targets(self) -> Mapping[int, Target]:
        return self.workers

    def wait_for_failure(self, target: Target, *, within_s: float) -> Mapping[int, str] | None:
        self.done.append(f"await failure of attempt {target.attempt}")
        return self.errors

    def has_obeyed(self, order: Order, *, within_s: float) -> bool:
        return self.obeys

    def wait_seconds(self, seconds: float) -> bool:
        self.done.append(f"{seconds:g} s pass")
        return not self.over

    def give_notice(self, node_id: str, *, notice_s: float) -> int:
        self.done.append(f"notice {node_id} {notice_s:g}")
        return DEADLINE_NS

    def post_notice(self, node_id: str, *, deadline_ns: int) -> None:
        self.posted.append((node_id, deadline_ns))

    def wait_for_deadline(self, deadline_ns: int) -> bool:
        self.deadline.wait(10)
        return not self.over

    def lose_node(
        self, node_id: str, *, raylet_only: bool = False, unsynced: bool = False
    ) -> Sequence[str]:
        self.done.append(f"lose {'raylet of ' if raylet_only else ''}{node_id}")
        if not self.hardy:
            self._lose(node_id)
        return ("ckpt/model.pt",) if unsynced else ()

    def reclaim_node(self, node_id: str, *, notice_s: float, release: WorkerRelease) -> bool | None:
        if self.platform is None:
            return None
        self.done.append(f"reclaim {node_id} {notice_s:g}")
        release(DEADLINE_NS)
        if not self.over and not self.hardy:
            self._lose(node_id)
        return not self.over

    def describe_taker(self, node_id: str) -> str | None:
        return None if self.platform is None else f"{self.platform} took it"

    def terminate_node(self, node_id: str, *, drains_s: float) -> int:
        self.done.append(f"SIGTERM {node_id}" + (f", drains {drains_s:g}" if drains_s else ""))
        if self.leaves and not self.hardy:
            self._lose(node_id)
        return 0

    def end_node(self, node_id: str) -> None:
        self.done.append(f"SIGKILL {node_id}")
        if not self.hardy:
            self._lose(node_id)

    def _lose(self, node_id: str) -> None:
        self.lost.add(node_id)
        self.gone.update(v.pid for v in self.list_targets().values() if v.node_id == node_id)

    def freeze_node(self, node_id: str, *, within_s: float) -> int | None:
        self.done.append(f"freeze {node_id}")
        return None if self.hardy else 2

    def thaw_node(self, node_id: str) -> None:
        self.done.append(f"thaw {node_id}")

    def queue(self) -> "FakeWorld":
        return self

    def requeue(self, *, is_held: bool) -> None:
        self.done.append("requeue and hold" if is_held else "requeue")
        self.gone |= set() if self.hardy else {worker.pid for worker in self.workers.values()}

    def release(self) -> None:
        self.done.append("release the job")

    def fail_prolog(self) -> None:
        self.done.append("let the prolog fail")

    def wait_for_drain(self, *, within_s: float) -> str | None:
        return "node-0" if self.stops else None

    def repair(self, node: str) -> None:
        self.done.append(f"give back {node}")

    def suspend(self) -> None:
        self.done.append("suspend")

    def resume(self) -> None:
        self.done.append("resume")

    def reach_time_limit(self, *, within_s: float) -> bool:
        self.done.append("time limit")
        self.gone |= set() if self.hardy else {worker.pid for worker in self.workers.values()}
        return not self.hardy

    def signal(self, name: str, *, to_batch: bool, within_s: float) -> bool:
        self.done.append(f"SIG{name} to the {'batch shell' if to_batch else 'steps'}")
        return not self.hardy

    def stop_daemon(self) -> int:
        self.done.append("stop slurmctld")
        return 80

    def start_daemon(self, *, within_s: float) -> int | None:
        self.done.append("start slurmctld")
        return None if self.hardy else 81

    def cut_off_node(self, node_id: str, *, for_s: float) -> None:
        self.done.append(f"cut off {node_id} for {for_s:g}")

    def await_node_silence(self, node_id: str, *, within_s: float) -> bool:
        return not self.hardy

    def await_node_return(self, node_id: str, *, within_s: float) -> bool:
        return not self.hardy

    def list_worker_nodes(self) -> list[str]:
        return ["node-a", "node-b", *(name for name in self.done if name.startswith("new-"))]

    def idle_nodes(self) -> list[str]:
        return ["spare-0", "spare-1"]

    def add_nodes(self, count: int, *, within_s: float) -> list[str]:
        self.done.append(f"add {count}")
        return [f"new-{number}" for number in range(0 if self.hardy else count)]

    def workers_outlive_driver(self) -> bool:
        return False

    def end_driver(self) -> int:
        self.done.append("end driver")
        self._end_all()
        return 55

    def start_driver(self, *, within_s: float) -> int | None:
        self.done.append("start driver")
        return None if self.hardy else 56

    def wait_for_driver(self, pid: int, *, attempt: int, within_s: float) -> str | None:
        self.done.append(f"await driver {pid} or attempt {attempt + 1}")
        return "trains" if self.obeys else None

    def freeze_driver(self, *, within_s: float) -> int | None:
        self.done.append("freeze driver")
        return 3 if self.stops else None

    def thaw_driver(self) -> None:
        self.done.append("thaw driver")

    def end_controller(self) -> int:
        self.done.append("end controller")
        self._end_all()
        return 56

    def end_gcs(self) -> int:
        self.done.append("end GCS")
        return 57

    def start_gcs(self, *, within_s: float) -> int | None:
        self.done.append("start GCS")
        return None if self.hardy else 58

    def _end_all(self) -> None:
        if not self.hardy:
            self.gone.update(v.pid for v in self.list_targets().values())

    def await_node_death(self, node_id: str, *, within_s: float) -> bool:
        return node_id in self.lost

    def arm_storage(self, target: Target) -> None:
        self.done.append(f"arm op {target.op} for rank {target.rank}")

    def await_storage(self, target: Target) -> str | None:
        return self.effect
