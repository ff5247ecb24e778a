"""The plan: a scenario with every choice made, to be executed, saved and replayed."""

from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from pydantic import Field, NonNegativeInt, PositiveInt

from chaos.faults.base import Fault
from chaos.model.expect import Expect
from chaos.model.fault_entry import FaultEntry, PlacedFault
from chaos.model.launcher import Launcher
from chaos.model.scenario import Cloud, Job, Limits, Tier
from chaos.model.watch import Watch
from chaos.plugins import AbsentFault
from chaos.record import Record

BackendName: TypeAlias = Literal["ray", "fork"]  # of a job that Ray Train starts
# Any job is on `fork`, embedded, or in its launcher's real processes, by the launcher's name.
if TYPE_CHECKING:
    PlanBackend: TypeAlias = str
else:
    PlanBackend = Literal["fork", Launcher]

PLAN_VERSION: Literal[1] = 1


class Op(PlacedFault):
    """One numbered entry of a plan: a trigger and a fault."""

    index: NonNegativeInt
    #: with a trigger by the clock, the node that is the target at that moment, whatever it holds
    #: then, by the order in which the run's nodes joined
    node: NonNegativeInt | None = None
    #: the one that brings the fault, where it is not chaos's own
    package: str | None = None
    #: stands in for the fault where its package is not installed
    absent: AbsentFault | None = None

    @classmethod
    def from_entry(cls, index: int, entry: FaultEntry) -> Self:
        """Return an entry of a scenario, in which nothing is left to draw, as op `index`."""
        assert not entry.is_drawn
        return cls(index=index, **{name: getattr(entry, name) for name in PlacedFault.model_fields})

    def _list_fault_names(self) -> list[str]:
        return [*super()._list_fault_names(), *([self.absent.kind] if self.absent else [])]

    @property
    def fault(self) -> Fault:
        """The fault itself, or the stand-in for one that is not installed."""
        return self.absent or super().fault

    def __str__(self) -> str:
        return f"op {self.index}: {self.fault} at {self.at}"


class Shape(Record):
    """The cluster a plan needs; runs whose shapes are equal share one cluster."""

    nodes: PositiveInt
    cpus_per_node: PositiveInt
    keeps_gcs: bool = Field(
        default=False, description="its control service can be started again with what it knew"
    )
    drain_s: float | None = Field(
        default=None,
        description="its nodes are `ray start --block`, which drain so long on SIGTERM",
    )
    #: that of a cluster that chaos did not start, with the nodes that it has
    address: str | None = None
    storage: str | None = None
    reclaim_by: str | None = None
    metadata: Cloud | None = None
    #: of a local Slurm's partition, None: requeue
    preempt_mode: Literal["requeue", "cancel"] | None = None


class Confined(Record):
    """The writes outside the audit's `folder` that its job may make, by absolute paths."""

    folder: str
    may_write: tuple[str, ...] = ()
    keeps_storage: bool = Field(default=False, description="a bucket of its own stays its storage")


class Plan(Record):
    """All choices that decide a run. Paths are absolute, ranks are drawn."""

    version: Literal[1] = PLAN_VERSION
    scenario: str
    #: the name of the run's folder under reports/, and no other
    slug: str = Field(pattern=r"^[^./\x00-\x1f][^/\x00-\x1f]*$")
    file: str
    seed: int
    backend: PlanBackend = "ray"
    #: where the job runs
    cwd: str
    job: Job
    shape: Shape
    ops: tuple[Op, ...]
    #: the seed decided more than ranks
    is_drawn: bool = False
    #: the steps of the epochs that the draws are for
    stated_steps: tuple[PositiveInt, ...] = ()
    expect: Expect
    watch: Watch = Watch()
    limits: Limits
    #: the tiers of the job's files, by folder; a relative one lies in `cwd`
    storage: dict[str, Tier] = Field(default_factory=dict)
    #: nothing but the audit's own folder is written to
    confined: Confined | None = None
    #: the number of workers is a guess, and the script's own stands
    follows_script: bool = False
    #: the name of the run whose folder this was written into
    token: str | None = None
    #: that of the file that this was read from
    digest: str | None = Field(default=None, exclude=True)
    #: the tokens of the clean runs that the run is judged by
    baselines: tuple[str, ...] = ()

    @property
    def required_backend(self) -> BackendName | None:
        """The one backend that can show it; None: any. A cluster's nodes share this host's disk."""
        disk_backend: BackendName | None = (
            "fork" if self.job.launcher_facts.nodes.has_spares else None
        )
        needs_disks = self.storage or any(op.fault.needs_disks for op in self.ops)
        return self.job.needs_backend or (disk_backend if needs_disks else None)

    @property
    def has_cluster(self) -> bool:
        """Whether it runs on a cluster, which may be one that chaos did not start."""
        return self.backend != "fork" and "address" in self.job.launcher_facts.fields.cluster

    @property
    def has_shared_queue(self) -> bool:
        """Whether the job waits for its nodes in a queue with others' jobs, which may take long."""
        return self.job.launcher_facts.waits_in_queue(self.shape.address)

    def select_storage_ops(self, *, own_objects: bool) -> tuple[Op, ...]:
        """Return the faults of storage: of objects that the job puts itself, or of all else."""
        storage_faults = (op for op in self.ops if op.fault.family == "storage")
        return tuple(op for op in storage_faults if op.is_own_object_fault == own_objects)

    @property
    def has_empty_draw(self) -> bool:
        """Whether the seed was to decide of faults, and none came of it."""
        return self.is_drawn and not self.ops

    def build_baseline_plan(self) -> "Plan":
        """Return the plan of the same job and seed without faults and special expectations.

        Where a restart may continue from any step, state is watched at every step.
        """
        is_step_aligned = self.expect.align == "steps"
        watch = self.watch.replace(entries="steps") if is_step_aligned else self.watch
        return self.replace(
            scenario=f"baseline of {self.scenario}",
            slug=f"{self.slug}-baseline",
            ops=(),
            expect=Expect(),
            watch=watch,
        )
