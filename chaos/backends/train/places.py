"""The places of a plan at which one worker is to stop."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from chaos.faults.world import Target
from chaos.model.plan import Op
from chaos.model.trigger import IN_A_SAVE, AtMoment, AtRecovery, AtStart, AtStep, Moment, Stage


@dataclass
class Places:
    """The ops that wait at each place; `leads`: those whose place is this worker's own."""

    leads: set[int] = field(default_factory=set)
    launches: list[int] = field(default_factory=list)
    stages: dict[Stage, list[int]] = field(default_factory=dict)
    steps: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    moments: dict[tuple[int, Moment], list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, ops: Sequence[Op], target: Target) -> "Places":
        """Return the ops that a worker must stop for, by their place."""
        places = cls()
        for op in ops:
            leads = op.at.rank == target.rank
            if (leads or op.fault.orders_all) and op.may_inject(target.attempt):
                places._add(op, leads=leads)
        return places

    @property
    def saves(self) -> frozenset[Moment]:
        """The moments of a save at which an op waits."""
        return frozenset(moment for _, moment in self.moments if moment in IN_A_SAVE)

    @property
    def strikes_in_validation(self) -> bool:
        """Whether an op waits at the first call of a model in evaluation mode."""
        return any(moment == "validating" for _, moment in self.moments)

    def _add(self, op: Op, *, leads: bool) -> None:
        index, place = op.index, op.at
        if leads:
            self.leads.add(index)
        match place:
            case AtStart(at_launch=True):
                self.launches.append(index)
            case AtRecovery():
                self.stages.setdefault(place.stage, []).append(index)
            case AtStart():
                self.stages.setdefault("start", []).append(index)
            case AtStep():
                self.steps.setdefault((place.epoch, place.step), []).append(index)
            case AtMoment():
                self.moments.setdefault((place.epoch, place.moment), []).append(index)
            case _:  # a state or a time holds no worker
                pass


def is_in_load(op: Op) -> bool:
    """Return whether an op's place is inside the load of a file."""
    return isinstance(op.at, AtRecovery) and op.at.stage == "loading"
