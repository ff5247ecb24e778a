"""One entry of a scenario's faults: a place, a fault under its own key, and what is drawn of it."""

from typing import TYPE_CHECKING, Any, Self

from pydantic import ConfigDict, Field, create_model, model_validator

from chaos.faults.base import Fault
from chaos.model.draws import Every, UpTo
from chaos.model.trigger import (
    OBJECT_MOMENTS,
    PLACE_WORDS,
    AtMoment,
    AtState,
    AtTime,
    Trigger,
    find_only_attempt,
)
from chaos.plugins import load_builtin_faults, load_registered_faults
from chaos.record import Record


class _Entry(Record):
    """One fault at one place; exactly one fault key."""

    at: Trigger

    @model_validator(mode="after")
    def _validate_single_fault(self) -> Self:
        if len(self._list_fault_names()) != 1:
            fault_names = ", ".join(self._list_fault_names()) or "none"
            raise ValueError(
                f"an entry needs exactly one of {', '.join(FAULTS)}; it has {fault_names}"
            )
        return self

    @property
    def is_own_object_fault(self) -> bool:
        """Whether it is a fault of storage in an object that the job puts itself."""
        is_object_moment = isinstance(self.at, AtMoment) and self.at.moment in OBJECT_MOMENTS
        return is_object_moment and self.fault.own_objects != "never"

    def _list_fault_names(self) -> list[str]:
        return [name for name in FAULTS if getattr(self, name) is not None]

    @property
    def kind(self) -> str:
        """The fault's key in YAML."""
        return self._list_fault_names()[0]

    @property
    def fault(self) -> Fault:
        fault: Fault = getattr(self, self.kind)
        return fault

    @property
    def fault_rank(self) -> int | None:
        """The rank that the fault itself names, if its target is not the rank at the place."""
        rank: int | None = getattr(self.fault, "rank", None)
        return rank

    @property
    def target_rank(self) -> int | None:
        """The target's rank: the fault's own, or the trigger's."""
        return self.at.rank if self.fault_rank is None else self.fault_rank

    def can_inject(self, attempt: int) -> bool:
        """Return whether the fault is meant for an attempt."""
        if find_only_attempt(self.at) not in (None, attempt):
            return False
        allowed_attempts = self.fault.only_attempts
        return allowed_attempts is None or attempt in allowed_attempts

    @property
    def holds_worker(self) -> bool:
        """Whether a worker is held at the place, and training with it."""
        return not isinstance(self.at, AtState | AtTime)


OWN_FAULTS = load_builtin_faults()
# The keys that stand beside a fault: in a scenario, and in a plan.
OF_ENTRIES = ("up_to", "chance", "every")
OF_OPS = ("index", "node", "absent", "package")
REGISTERED = load_registered_faults(
    taken_names=(*_Entry.model_fields, *dir(_Entry), *OWN_FAULTS, *OF_ENTRIES, *OF_OPS),
    place_words=[word for word in (*PLACE_WORDS, *OF_ENTRIES) if word != "rank"],
)
FAULTS: dict[str, type[Fault]] = {**OWN_FAULTS, **{f.name: f.extension for f in REGISTERED.usable}}

if TYPE_CHECKING:

    class PlacedFault(_Entry):
        """One fault at one place."""

        model_config = ConfigDict(extra="allow")  # a key for each fault

else:
    _FIELDS: dict[str, Any] = {name: (fault | None, None) for name, fault in FAULTS.items()}
    PlacedFault = create_model(
        "PlacedFault", __base__=_Entry, __doc__=_Entry.__doc__, __module__=__name__, **_FIELDS
    )


class FaultEntry(PlacedFault):
    """One fault at one place; exactly one fault key.

    With `up_to`, `chance` or `every` it stands for as many ops as the seed draws from it.
    """

    up_to: UpTo | None = Field(
        default=None, description="the place is drawn between `at` and this; left out: it is `at`"
    )
    chance: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="how probable the fault is, at each place; left out: certain",
    )
    every: Every | None = Field(
        default=None, description="it comes again and again; left out: it comes once"
    )

    @property
    def is_drawn(self) -> bool:
        """Whether the seed decides more than a rank that is left out."""
        return any(getattr(self, name) is not None for name in OF_ENTRIES)
