"""The base of every fault: its settings are fields, its facts are class variables.

What the rest of chaos wants to know of a fault it asks the fault. A fact that
depends on the settings is a property of the same name.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

from chaos.faults.world import Outcome, Release, Victim, World
from chaos.record import Record

Family: TypeAlias = Literal["worker", "node", "capacity", "control", "storage"]
Ends: TypeAlias = Literal["always", "perhaps", "never"]
FAMILIES: tuple[Family, ...] = get_args(Family)
ENDS: tuple[Ends, ...] = get_args(Ends)


@dataclass(frozen=True)
class Elsewhere:
    """Whether a fault may be injected on a cluster that chaos did not start, and why not."""

    rule: Literal["safe", "costs a node", "never"]
    why: str = ""


SAFE = Elsewhere("safe")


@dataclass(frozen=True)
class Between:
    """A number of seconds that is drawn at random."""

    low: float
    high: float

    def drawn(self, share: float) -> float:
        """Return the number that lies this far (0 to 1) between the two."""
        return round(self.low + share * (self.high - self.low), 3)


class Fault(Record):
    """One kind of harm, as a value.

    A subclass states at least `family`, `ends_attempt` and `rank`, and defines
    `strike`; its docstring is what `chaos list` prints. The other facts have
    the defaults that are right for most.
    """

    family: ClassVar[Family]
    # Does the attempt end that it strikes? `perhaps`: where the job's, its peers' or the cluster's
    # own time-outs end it. Of a storage fault the history tells.
    ends_attempt: ClassVar[Ends]
    # On a cluster of others; a fault of which nobody has said it is refused there.
    elsewhere: ClassVar[Elsewhere] = Elsewhere(
        "never", "what it does to nodes of others has not been thought through"
    )
    # How it is drawn for `--random`: the settings of each variant. Left out: it never is.
    at_random: ClassVar[tuple[dict[str, object], ...]] = ()
    # The headline's words for it; `{fault.x}` is a setting.
    sentence: ClassVar[str] = "the fault {fault} struck {place}"
    # Whom `--dry-run` says that it would strike.
    whom: ClassVar[str] = "the worker of rank {rank}"

    # Does nobody get on until it is healed?
    stops_progress: ClassVar[bool] = False
    # Does it release the worker by itself, and do its harm while training goes on?
    lets_go_first: ClassVar[bool] = False
    # Is the worker that is held at the place ordered to do it to itself?
    is_ordered: ClassVar[bool] = False
    # Does Ray hear of the loss beforehand? It then charges a preemption, not a failure.
    is_announced: ClassVar[bool] = False
    # Does it end the user's script, so that the harness starts it again?
    ends_driver: ClassVar[bool] = False
    # Does it take a cluster whose control service can be started again with what it knew?
    needs_kept_gcs: ClassVar[bool] = False

    @property
    def nodes_lost(self) -> int:
        """The most nodes that it takes from the job for good, workers and all."""
        return 0

    @property
    def nodes_added(self) -> int:
        """The nodes without workers that it adds to the cluster, or for good takes (below 0)."""
        return 0

    @property
    def takes_others(self) -> bool:
        """Whether it may kill workers besides the one that it strikes and those on its node."""
        return False

    @property
    def orders_all(self) -> bool:
        """Whether every rank is ordered, as it comes to the place, to do it to itself."""
        return False

    @property
    def is_repeated(self) -> bool:
        """Whether it strikes in each attempt that comes to the place, instead of once."""
        return False

    @property
    def only_attempts(self) -> tuple[int, ...] | None:
        """The attempts that it is meant for; None: any."""
        return None

    @property
    def needs_worker(self) -> bool:
        """Whether there must be a worker to strike."""
        return self.family not in {"capacity", "control"}

    @property
    def refused_elsewhere(self) -> str | None:
        """Why these settings are refused on a cluster of others, None where they are not."""
        return None

    def strike(self, world: World, victim: Victim, release: Release) -> Outcome:
        """Do the harm, and return what is known to have come of it."""
        raise NotImplementedError

    def loss_ns(self, deadline_ns: int) -> int | None:
        """Return when an announced loss comes true (monotonic ns); None where it does not."""
        return deadline_ns

    def in_words(self, rank: int | None, place: str) -> str:
        """Return what was done, as part of a sentence."""
        return self.sentence.format(fault=self, rank=rank, place=place)
