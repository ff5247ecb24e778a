"""One entry of a scenario's faults: where, and what. A new fault is a line here."""

from typing import TYPE_CHECKING, Any, Self, TypeAlias, get_args

from pydantic import create_model, model_validator

from chaos.faults.corrupt_snapshot import CorruptSnapshot
from chaos.faults.delayed_visibility import DelayedVisibility
from chaos.faults.disk_full import DiskFull
from chaos.faults.exhaust_memory import ExhaustMemory
from chaos.faults.fail_upload import FailUpload
from chaos.faults.freeze_node import FreezeNode
from chaos.faults.hang_worker import HangWorker
from chaos.faults.kill_controller import KillController
from chaos.faults.kill_driver import KillDriver
from chaos.faults.kill_gcs import KillGcs
from chaos.faults.kill_node import KillNode
from chaos.faults.kill_worker import KillWorker
from chaos.faults.partition_node import PartitionNode
from chaos.faults.pause_worker import PauseWorker
from chaos.faults.poison_step import PoisonStep
from chaos.faults.preempt_node import PreemptNode
from chaos.faults.raise_in_worker import RaiseInWorker
from chaos.faults.registered import registered_faults
from chaos.faults.return_capacity import ReturnCapacity
from chaos.faults.slow_upload import SlowUpload
from chaos.faults.slow_worker import SlowWorker
from chaos.faults.torn_checkpoint import TornCheckpoint
from chaos.faults.withhold_capacity import WithholdCapacity
from chaos.model.absent import AbsentFault
from chaos.model.trigger import PLACE_WORDS, AtState, AtTime, Trigger, only_attempt
from chaos.record import Record

WorkerFault: TypeAlias = (
    KillWorker | RaiseInWorker | PauseWorker | SlowWorker | HangWorker | PoisonStep | ExhaustMemory
)
NodeFault: TypeAlias = KillNode | FreezeNode | PartitionNode | PreemptNode
CapacityFault: TypeAlias = WithholdCapacity | ReturnCapacity
ControlFault: TypeAlias = KillDriver | KillController | KillGcs
StorageFault: TypeAlias = (
    FailUpload | SlowUpload | TornCheckpoint | DiskFull | DelayedVisibility | CorruptSnapshot
)
Fault: TypeAlias = (
    WorkerFault | NodeFault | CapacityFault | ControlFault | StorageFault | AbsentFault
)


class OwnEntry(Record):
    """One fault at one place; exactly one fault key."""

    at: Trigger
    kill_worker: KillWorker | None = None
    raise_in_worker: RaiseInWorker | None = None
    pause_worker: PauseWorker | None = None
    slow_worker: SlowWorker | None = None
    hang_worker: HangWorker | None = None
    poison_step: PoisonStep | None = None
    exhaust_memory: ExhaustMemory | None = None
    kill_node: KillNode | None = None
    freeze_node: FreezeNode | None = None
    partition_node: PartitionNode | None = None
    preempt_node: PreemptNode | None = None
    withhold_capacity: WithholdCapacity | None = None
    return_capacity: ReturnCapacity | None = None
    kill_driver: KillDriver | None = None
    kill_controller: KillController | None = None
    kill_gcs: KillGcs | None = None
    fail_upload: FailUpload | None = None
    slow_upload: SlowUpload | None = None
    torn_checkpoint: TornCheckpoint | None = None
    disk_full: DiskFull | None = None
    delayed_visibility: DelayedVisibility | None = None
    corrupt_snapshot: CorruptSnapshot | None = None

    @model_validator(mode="after")
    def _names_one_fault(self) -> Self:
        if len(self._named()) != 1:
            given = ", ".join(self._named()) or "none"
            raise ValueError(f"an entry needs exactly one of {', '.join(FAULTS)}; it has {given}")
        return self

    def _named(self) -> list[str]:
        return [name for name in FAULTS if getattr(self, name) is not None]

    @property
    def kind(self) -> str:
        """The fault's key in YAML, such as `kill_worker`."""
        return self._named()[0]

    @property
    def fault(self) -> Fault:
        """The fault itself."""
        fault: Fault = getattr(self, self.kind)
        return fault

    @property
    def victim_rank(self) -> int | None:
        """The rank that is struck: the fault's own, or the trigger's."""
        return self.at.rank if self.fault.rank is None else self.fault.rank

    @property
    def nodes_lost(self) -> int:
        """How many nodes that hold workers it takes at most."""
        return int(getattr(self.fault, "nodes_lost", 0))

    @property
    def orders_all(self) -> bool:
        """Whether every rank is told, at the place, to do something to itself."""
        fault = self.fault
        return isinstance(fault, RaiseInWorker | SlowWorker | HangWorker) and fault.ranks == "all"

    @property
    def is_repeated(self) -> bool:
        """Whether the place may strike in several attempts, instead of once in the run."""
        raises = self.raise_in_worker
        return self.poison_step is not None or (raises is not None and raises.attempts is not None)

    @property
    def lets_go_first(self) -> bool:
        """Whether training goes on before the strike is over."""
        if isinstance(self.fault, PreemptNode | WithholdCapacity | ReturnCapacity | KillGcs):
            return True
        return bool(getattr(self.fault, "lets_go_first", False))

    @property
    def ends_attempt(self) -> bool | None:
        """What a fault of another package says of itself; None: it is chaos's own."""
        ends: bool | None = getattr(self.fault, "ends_attempt", None)
        return ends

    def may_strike(self, attempt: int) -> bool:
        """Say whether the fault is meant for an attempt."""
        if only_attempt(self.at) not in (None, attempt):
            return False
        raises = self.raise_in_worker
        return raises is None or raises.attempts is None or attempt in raises.attempts

    @property
    def strikes_no_worker(self) -> bool:
        """Whether there need be no worker to strike."""
        return isinstance(self.fault, CapacityFault | ControlFault)

    @property
    def holds_a_worker(self) -> bool:
        """Whether a worker is held at the place, and training with it."""
        return not isinstance(self.at, AtState | AtTime)


REGISTERED = registered_faults(
    taken=(*OwnEntry.model_fields, *dir(OwnEntry), "index", "absent", "package"),
    places=[word for word in PLACE_WORDS if word != "rank"],
)

if TYPE_CHECKING:

    class FaultEntry(OwnEntry):
        """An entry with the keys of all faults, those of other packages among them."""

else:
    _OTHERS: dict[str, Any] = {f.name: (f.what | None, None) for f in REGISTERED.usable}
    FaultEntry = create_model(
        "FaultEntry", __base__=OwnEntry, __doc__=OwnEntry.__doc__, __module__=__name__, **_OTHERS
    )


def record_of(fault: str) -> type[Record]:
    """Give the record that a fault's key holds."""
    options = get_args(FaultEntry.model_fields[fault].annotation)
    record: type[Record] = next(option for option in options if option is not type(None))
    return record


# What a worker that is held at its place is told to do to itself.
BY_ITSELF = ("raise_in_worker", "slow_worker", "hang_worker", "poison_step", "exhaust_memory")
OWN_FAULTS = tuple(name for name in OwnEntry.model_fields if name != "at")
FAULTS = (*OWN_FAULTS, *REGISTERED.packages)
