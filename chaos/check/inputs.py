"""The inputs of the model, compared with the baseline's at the same place.

The inputs before the first fault are the control: inputs that differ there already (a shuffle
without a seed) do not repeat here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from chaos.check.compare import Aligned
from chaos.check.lineage import Lineage
from chaos.check.restarts import Restart
from chaos.check.steps import Step, count_samples
from chaos.model.places import RankEpoch

# Of stretches without a repeated sample: how many show how data are drawn, and how long they are of
# all samples where each is a pass. One that fills up its last batch begins two stretches a pass.
PASSES_MIN = 3
PASS_SHARE = 1 / 3


@dataclass(frozen=True, slots=True)
class InputsApart:
    """One rank's epoch whose inputs leave the baseline's."""

    rank: int
    epoch: int
    #: the first step with other inputs
    first: Step
    #: the last one
    last: Step
    steps: Sequence[Step]

    @property
    def stretch(self) -> Sequence[Step]:
        """The steps from the first to the last whose inputs differ."""
        return [step for step in self.steps if self.first.step <= step.step <= self.last.step]


@dataclass
class Counted:
    """Inputs beside the baseline's."""

    #: the steps that were compared
    compared: int = 0
    #: those of them that differ
    differing: int = 0
    #: these by rank and epoch
    apart: list[InputsApart] = field(default_factory=list)
    #: the attempts that owe some
    due: set[int] = field(default_factory=set)
    #: those that have some
    seen: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, groups: Iterable[Aligned]) -> Self:
        """Compare the steps of ranks and epochs."""
        found = cls()
        for group in groups:
            found._add(group)
        return found

    def _add(self, group: Aligned) -> None:
        if group.has_equal_inputs:
            self.compared += len(group.ours)
            self.seen |= {group.ours[0].attempt, group.ours[-1].attempt}
            return
        apart: list[Step] = []
        for step, due in group.pairs():
            if due is None or due.inputs is None:
                continue
            self.due.add(step.attempt)
            if step.inputs is None:
                continue
            self.seen.add(step.attempt)
            self.compared += 1
            if step.inputs.digest != due.inputs.digest:
                apart.append(step)
        self.differing += len(apart)
        if apart:
            self.apart.append(InputsApart(*group.key, apart[0], apart[-1], group.ours))


@dataclass(frozen=True)
class InputComparison:
    """The inputs of a lineage and the baseline's."""

    ours: Lineage
    theirs: Lineage
    steps: Sequence[Aligned]
    #: the steps from before the first fault
    before: Sequence[Aligned]
    #: the steps between two reports use the same part of the data in both
    has_epochs: bool = True

    @cached_property
    def are_watched(self) -> bool:
        """Whether the run's inputs were recorded."""
        return any(steps.digests for steps in self.ours.steps.values())

    @cached_property
    def were_watched(self) -> bool:
        """Whether the baseline's inputs were recorded."""
        return any(steps.digests for steps in self.theirs.steps.values())

    @cached_property
    def control(self) -> Counted:
        """The inputs before the first fault, compared with the baseline's."""
        return Counted.of(self.before)

    @property
    def repeat(self) -> bool:
        """Whether inputs were seen to repeat before the first fault."""
        return self.control.compared > 0 and self.control.differing == 0

    @cached_property
    def _counted(self) -> Counted:
        return Counted.of(self.steps)

    @property
    def compared(self) -> int:
        """The number of surviving steps whose inputs could be compared."""
        return self._counted.compared

    @cached_property
    def apart(self) -> tuple[InputsApart, ...]:
        """The epochs, rank by rank, whose inputs leave the baseline's, earliest first."""
        return tuple(sorted(self._counted.apart, key=lambda a: (a.epoch, a.rank)))

    @cached_property
    def apart_by_epoch(self) -> Mapping[int, Sequence[InputsApart]]:
        """The same, the ranks of each epoch together."""
        found: dict[int, list[InputsApart]] = {}
        for apart in self.apart:
            found.setdefault(apart.epoch, []).append(apart)
        return found

    @cached_property
    def silent(self) -> tuple[int, ...]:
        """The resumed attempts without any inputs seen, though the baseline's were."""
        missed = self._counted.due - self._counted.seen
        return tuple(sorted(index for index in missed if index > 0))

    # -- order ---------------------------------------------------------------------------------

    @cached_property
    def _positions(self) -> Mapping[int, tuple[list[Step], dict[str, list[int]]]]:
        """The baseline's steps in order for each rank, and the positions of each batch in them."""
        found: dict[int, tuple[list[Step], dict[str, list[int]]]] = {}
        for (rank, _), steps in sorted(self.theirs.steps.items()):
            flat, where = found.setdefault(rank, ([], {}))
            for step in steps:
                if step.inputs is not None:
                    where.setdefault(step.inputs.digest, []).append(len(flat))
                flat.append(step)
        return found

    def found_at(self, steps: Sequence[Step]) -> int | None:
        """Return the number of the baseline's steps before these inputs; None if it has them not.

        Where it has them twice, the position nearest to their own place counts.
        """
        digests = [step.inputs.digest for step in steps if step.inputs is not None]
        if not digests or len(digests) < len(steps):
            return None
        flat, where = self._positions.get(steps[0].rank, ([], {}))
        due = self.due_at(steps[0])
        candidates = sorted(where.get(digests[0], ()), key=lambda at: abs(at - due))
        return next((at for at in candidates if _digests(flat, at, len(digests)) == digests), None)

    def due_at(self, step: Step) -> int:
        """Return the number of the baseline's steps before a step's own place."""
        return self._offsets.get(RankEpoch(step.rank, step.epoch), 0) + step.step - 1

    @cached_property
    def _offsets(self) -> Mapping[RankEpoch, int]:
        found: dict[RankEpoch, int] = {}
        ends: dict[int, int] = {}
        epochs = sorted({epoch for _, epoch in {**self.ours.steps, **self.theirs.steps}})
        for epoch in epochs:
            for rank in self.theirs.ranks:
                before = found[RankEpoch(rank, epoch)] = ends.get(rank, 0)
                ends[rank] = before + self.theirs.count(rank, epoch)
        return found

    def found_as(self, steps: Sequence[Step]) -> Step | None:
        """Return the step of the baseline at which these inputs begin, in their order."""
        flat, _ = self._positions.get(steps[0].rank, ([], {}))
        at = self.found_at(steps)
        return None if at is None else flat[at]

    def other_epoch(self, steps: Sequence[Step]) -> int | None:
        """Return the epoch of the baseline whose inputs these are, step for step."""
        found = self.found_as(steps)
        return found.epoch if found and found.step == steps[0].step else None

    def is_replay(self, apart: InputsApart) -> bool:
        """Return whether these are another epoch's inputs, of samples that are not this epoch's."""
        other = self.other_epoch(apart.steps)
        if other is None or other == apart.epoch:
            return False
        one, two = (self.theirs.samples(epoch) for epoch in (apart.epoch, other))
        return one is not None and two is not None and one != two

    # -- samples -------------------------------------------------------------------------------

    @cached_property
    def known(self) -> frozenset[str]:
        """Every sample of the baseline."""
        return frozenset(one for step in self.theirs.all_steps() for one in step.samples or ())

    @cached_property
    def batch(self) -> int:
        """The largest number of samples that one rank had in one step."""
        counts = (s.inputs.count for s in self.theirs.all_steps() if s.inputs is not None)
        return max(counts, default=0)

    def drawn_anew(self, apart: InputsApart) -> bool:
        """Return whether the baseline never saw these samples: augmented ones, or other ones."""
        mine = apart.first.samples
        return mine is not None and not self.known.issuperset(mine)

    @cached_property
    def is_with_replacement(self) -> bool:
        """Whether the baseline draws samples that it has trained shortly before.

        In a pass over the data no sample repeats before all others have come. Drawn with
        replacement, one does after a small part of them.
        """
        passes, current = 1, set[str]()
        in_order = sorted(self.theirs.all_steps(), key=lambda step: (step.epoch, step.step))
        for sample in (one for step in in_order for one in step.samples or ()):
            if sample in current:
                passes, current = passes + 1, set()
            current.add(sample)
        total = sum(len(step.samples or ()) for step in in_order)
        return passes > PASSES_MIN and total / passes < PASS_SHARE * len(self.known)

    @cached_property
    def _is_in_first_pass(self) -> bool:
        counted = count_samples(self.theirs.all_steps())
        return counted is not None and counted.total() == len(counted)

    def is_drawn_again(self, apart: InputsApart) -> bool:
        """Return whether most batches mix known samples with others, of data not yet passed."""
        if not self._is_in_first_pass:
            return False
        batches = [step.samples for step in apart.stretch]
        told = [set(batch) for batch in batches if batch is not None]
        mixed = [batch for batch in told if 0 < len(batch & self.known) < len(batch)]
        return len(told) == len(batches) and 2 * len(mixed) >= len(batches)


def input_offsets(restarts: Sequence[Restart], inputs: InputComparison) -> Mapping[int, int]:
    """Return the attempts that continued at another place of the inputs, with the offset in steps.

    A negative offset leads back. An offset counts only where the whole run is as much too long, or
    too short: a job that draws one epoch in another's order is not longer.
    """
    found = {r.attempt.index: by for r in restarts if (by := _offset(r, inputs))}
    surplus = inputs.ours.steps_done - inputs.theirs.steps_done
    # Each offset is measured at its own resume. Where a job stays at the shifted place, that of
    # the last resume is already the sum of all.
    in_all = {-by for by in (sum(found.values()), *list(found.values())[-1:])}
    return found if surplus and surplus in in_all else {}


def _offset(restart: Restart, inputs: InputComparison) -> int | None:
    """Return the offset that all ranks share; None where they differ."""
    seen: set[int | None] = set()
    apart = {(a.rank, a.epoch) for a in inputs.apart}
    for rank, start in restart.attempt.starts.items():
        if (rank, start.epoch) not in apart:
            seen.add(0)
            continue
        steps = restart.attempt.steps_of(rank, start.epoch)
        at = inputs.found_at(steps)
        seen.add(None if at is None else at - inputs.due_at(steps[0]))
    return seen.pop() if len(seen) == 1 else None


def _digests(steps: Sequence[Step], at: int, count: int) -> list[str | None]:
    return [s.inputs.digest if s.inputs else None for s in steps[at : at + count]]
