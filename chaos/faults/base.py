"""The base of every fault: its settings are fields, its facts are class variables.

The rest of chaos reads all facts from the fault itself. A fact that depends on the settings is a
property of the same name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

from pydantic import Field

from chaos.faults.world import LauncherFeature, Outcome, Target, WorkerRelease, World
from chaos.record import Record

Family: TypeAlias = Literal["worker", "node", "capacity", "control", "storage"]
Ends: TypeAlias = Literal["always", "perhaps", "never"]
FAMILIES: tuple[Family, ...] = get_args(Family)
ENDS: tuple[Ends, ...] = get_args(Ends)

Platform: TypeAlias = Literal["local", "kubernetes", "aws", "azure", "google"]
PLATFORMS: tuple[Platform, ...] = get_args(Platform)


@dataclass(frozen=True)
class SharedCluster:
    """The rule for a fault on a cluster that chaos did not start, and its reason."""

    rule: Literal["safe", "costs a node", "never"]
    why: str = ""
    #: the platforms that take the node in place of chaos, where the nodes are theirs; there the
    #: fault costs a node, even if chaos itself never does it
    platforms: tuple[Platform, ...] = ()


SAFE = SharedCluster("safe")


@dataclass(frozen=True)
class SecondsRange:
    """A range of seconds, from which a number is drawn at random."""

    low: float
    high: float

    def interpolate(self, share: float) -> float:
        """Return the number at this share (0 to 1) of the range."""
        return round(self.low + share * (self.high - self.low), 3)


class Fault(Record):
    """One kind of harm, as a value.

    A subclass states at least `family`, `ends_attempt` and `rank`, and defines `inject`; `chaos
    list` prints its docstring. The other facts have defaults that fit most faults.
    """

    family: ClassVar[Family]
    # Does it end the attempt that it hits? `perhaps`: where the job's, its peers' or the cluster's
    # own time-outs end it. For a storage fault the history decides.
    ends_attempt: ClassVar[Ends]
    # The rule on a cluster that chaos did not start; a fault that states none is refused there.
    on_shared_cluster: ClassVar[SharedCluster] = SharedCluster(
        "never", "what it does to nodes of others has not been thought through"
    )
    # The settings of each variant that `--random` draws. Left out: it is never drawn.
    at_random: ClassVar[tuple[dict[str, object], ...]] = ()
    # The headline's words for it; `{fault.x}` is a setting.
    sentence: ClassVar[str] = "the fault {fault} was injected {place}"
    # The target that `--dry-run` prints.
    target_text: ClassVar[str] = "the worker of rank {rank}"

    # What does it need of a launcher, beside workers? None: any launcher's job can have it.
    needs: ClassVar[LauncherFeature | None] = "cluster"
    # If it is done to Ray Train's uploads: the like of it for a file that a job saves itself.
    own_file_fault: ClassVar[str] = ""
    # Is it done to the objects that a job puts into a store itself, beside Ray Train's uploads?
    own_objects: ClassVar[Literal["never", "also", "only"]] = "never"
    # Does all training stand still until it is healed?
    stops_progress: ClassVar[bool] = False
    # Does it release the worker itself, and do its harm while training goes on?
    releases_worker_itself: ClassVar[bool] = False
    # Is the worker that is held at the place ordered to do it to itself?
    is_ordered: ClassVar[bool] = False
    # Is the loss announced to Ray? It then charges a preemption, not a failure.
    is_announced: ClassVar[bool] = False
    # Does it make a save fail, without which the job may go on?
    fails_save: ClassVar[bool] = False
    # Does it end the user's script, so that the harness starts it again?
    ends_driver: ClassVar[bool] = False
    # Does it start the user's script once more, beside the driver that runs?
    starts_driver: ClassVar[bool] = False
    # Does it need a cluster whose control service can be started again with its former state?
    needs_durable_gcs: ClassVar[bool] = False

    @property
    def needs_drain_s(self) -> float | None:
        """The time for which nodes drain on SIGTERM that are `ray start --block`; None: no need."""
        return None

    @property
    def env_at_restart(self) -> Mapping[str, str]:
        """The variables that are other ones for a script that is started again by it."""
        return {}

    @property
    def lost_node_count(self) -> int:
        """The largest number of nodes that it takes from the job for good, with their workers."""
        return 0

    @property
    def nodes_added(self) -> int:
        """The number of nodes without workers that it adds, or takes for good (below 0)."""
        return 0

    @property
    def takes_others(self) -> bool:
        """Whether it may kill workers besides its target and those on the target's node."""
        return False

    @property
    def orders_all_ranks(self) -> bool:
        """Whether every rank is ordered, as it comes to the place, to do it to itself."""
        return False

    @property
    def is_repeated(self) -> bool:
        """Whether it is injected in each attempt that comes to the place, instead of once."""
        return False

    @property
    def only_attempts(self) -> tuple[int, ...] | None:
        """The attempts that it is meant for; None: any."""
        return None

    @property
    def fits_objects(self) -> bool:
        """Whether its settings can be done to an object that a job puts itself."""
        return True

    @property
    def needs_disks(self) -> bool:
        """Whether it needs nodes with disks of their own: emulated ones."""
        return False

    @property
    def needs_worker(self) -> bool:
        """Whether its target is a worker."""
        return self.family not in {"capacity", "control"}

    @property
    def shared_cluster_refusal(self) -> str | None:
        """The reason to refuse these settings on a cluster of others; None where there is none."""
        return None

    @property
    def platform_refusal(self) -> str | None:
        """The reason why no platform does it with these settings; None where there is none."""
        return None

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        """Do the harm, and return its known effect."""
        raise NotImplementedError

    def loss_ns(self, deadline_ns: int) -> int | None:
        """Return the time of an announced loss (monotonic ns); None where the node stays."""
        return deadline_ns

    def describe_injection(self, rank: int | None, place: str) -> str:
        """Return the injection, as part of a sentence."""
        return self.sentence.format(fault=self, rank=rank, place=place)


class OrderedFault(Fault):
    """The base of faults that a held worker, of whatever launcher, does to itself.

    One with a setting `ranks` orders every rank where that is `all`.
    """

    family = "worker"
    on_shared_cluster = SAFE
    needs: ClassVar[LauncherFeature | None] = None
    is_ordered = True
    rank: ClassVar[None] = None

    @property
    def orders_all_ranks(self) -> bool:
        return getattr(self, "ranks", "one") == "all"


class StartsScript(Fault):
    """The base of faults by which the user's script is started again, with other variables."""

    family = "control"

    env: dict[str, str] = Field(
        default={},
        description="variables that differ at the new start, such as `SLURM_JOB_ID`",
    )
    rank: ClassVar[None] = None

    @property
    def env_at_restart(self) -> Mapping[str, str]:
        return self.env

    @property
    def env_settings(self) -> list[str]:
        """The variables as a person writes them: `ID=2`."""
        return [f"{name}={value}" for name, value in self.env.items()]
