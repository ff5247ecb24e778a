"""The comparison of a run with its baseline: values of the same place, in pairs.

Each kind of value (losses, metrics, inputs, parts of the state, entries and counts of files) is
made into pairs by a table of its own. All pairs are compared here, in the same way:

    control     what was recorded without any fault: before the first one, and in further clean
                runs. It shows which values repeat themselves, by name
    unstable    values that differ in the control; after the fault they prove nothing
    unproven    values that differ after the fault, and are not in the control
    proven      all the others; the first of them that differs lies nearest to the cause
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any, Generic, Protocol, Self, TypeVar

from chaos.model.places import RankEpoch
from chaos.resume.attempt import Attempt
from chaos.resume.lineage import Lineage
from chaos.resume.steps import Step, Steps


class ValuePair(Protocol):
    """A value of the run, and the baseline's at the same place."""

    @property
    def name(self) -> Hashable:
        """The unit that repeats itself or does not: a metric, or a part of one rank's state."""

    @property
    def order(self) -> tuple[Any, ...]:
        """Its place in training, and what decides between two at one place."""


P = TypeVar("P", bound=ValuePair)


@dataclass(frozen=True)
class PairTally(Generic[P]):
    """Counted pairs: the number compared, those that differ, and the names of those that do not."""

    compared_count: int
    differing_pairs: Sequence[P]
    equal_names: frozenset[Hashable] = frozenset()

    @classmethod
    def from_pairs(
        cls, pairs: Iterable[P], is_equal: Callable[[P], bool], *, equal_count: int = 0
    ) -> Self:
        """Compare pairs, in any order; `equal_count`: the number of others known to be equal."""
        compared_count, differing_pairs, equal_names = equal_count, list[P](), set[Hashable]()
        for pair in pairs:
            compared_count += 1
            if is_equal(pair):
                equal_names.add(pair.name)
            else:
                differing_pairs.append(pair)
        return cls(compared_count, differing_pairs, frozenset(equal_names))

    @cached_property
    def differing_names(self) -> frozenset[Hashable]:
        """The names of values that differ."""
        return frozenset(pair.name for pair in self.differing_pairs)

    @cached_property
    def earliest_pair(self) -> P | None:
        """The earliest pair that differs."""
        return min(self.differing_pairs, key=lambda pair: pair.order, default=None)


@dataclass(frozen=True)
class ControlledComparison(Generic[P]):
    """Pairs from after the fault, compared in the light of a control."""

    control: PairTally[P]
    compared_count: int
    proven: PairTally[P]
    unproven_names: frozenset[Hashable]
    unstable_names: frozenset[Hashable]


def compare_pairs(
    pairs: Iterable[P], is_equal: Callable[[P], bool], *, control: PairTally[P]
) -> ControlledComparison[P]:
    """Compare pairs from after the fault, as far as the control shows that they repeat."""
    # A name that differs without any fault proves nothing after one: the job does not repeat it.
    # A name that the control never saw may repeat or not. If it differs now, it is in doubt.
    all_pairs = list(pairs)
    stable_pairs = [pair for pair in all_pairs if pair.name not in control.differing_names]
    unproven_names = frozenset(
        pair.name
        for pair in stable_pairs
        if pair.name not in control.equal_names and not is_equal(pair)
    )
    return ControlledComparison(
        control=control,
        compared_count=len(stable_pairs),
        proven=PairTally.from_pairs(
            (pair for pair in stable_pairs if pair.name not in unproven_names), is_equal
        ),
        unproven_names=unproven_names,
        unstable_names=frozenset(pair.name for pair in all_pairs) & control.differing_names,
    )


# -- steps side by side ------------------------------------------------------------------------


def has_cut_inputs(step: Step, baseline_step: Step) -> bool:
    """Return whether a first step after a resume has only the last of the baseline's inputs.

    The job saved after it had called the model with gradients for something else than this step,
    such as the validation of a meta-learner. Where a part of the step's own batch was lost, its
    losses are not the baseline's.
    """
    inputs, baseline_inputs = step.inputs, baseline_step.inputs
    if step.attempt == 0 or inputs is None or baseline_inputs is None:
        return False
    is_shorter = 0 < inputs.count < baseline_inputs.count
    if baseline_inputs.samples is None:  # of very many there is their number alone
        is_last_part = not step.losses
    else:
        samples, baseline_samples = inputs.samples or "", baseline_inputs.samples
        is_part = 0 < len(samples) < len(baseline_samples)
        is_last_part = is_part and baseline_samples.endswith(samples)
    return is_shorter and is_last_part and step.losses == baseline_step.losses


@dataclass(frozen=True)
class AlignedSteps:
    """Steps of one rank and epoch, each with the baseline's at its place, None without one.

    Almost all are equal, so whole epochs are compared at once.
    """

    run_steps: Steps
    baseline_steps: Sequence[Step | None]

    @property
    def key(self) -> RankEpoch:
        return RankEpoch(self.run_steps[0].rank, self.run_steps[0].epoch)

    @cached_property
    def has_equal_losses(self) -> bool:
        """Whether all losses are there, and equal to the last bit."""
        baseline_losses = [None if s is None else s.done.losses for s in self.baseline_steps]
        return all(self.run_steps.losses) and self.run_steps.losses == baseline_losses

    @cached_property
    def has_equal_inputs(self) -> bool:
        """Whether all inputs were watched, and are equal."""
        baseline_inputs = [None if s is None else s.done.inputs for s in self.baseline_steps]
        return self.run_steps.are_watched and self.run_steps.inputs == baseline_inputs

    def pairs(self) -> Iterator[tuple[Step, Step | None]]:
        return zip(self.run_steps, self.baseline_steps, strict=True)


def align_surviving_steps(
    run_lineage: Lineage, baseline_lineage: Lineage, *, excluded_attempts: Collection[int] = ()
) -> tuple[AlignedSteps, ...]:
    """Align the steps of a lineage, in its order, apart from those of `excluded_attempts`."""
    groups: Iterable[Steps] = run_lineage.steps.values()
    if excluded_attempts:
        groups = (Steps(s for s in steps if s.attempt not in excluded_attempts) for steps in groups)
    return tuple(_align_steps(steps, baseline_lineage) for steps in groups if steps)


def align_control_steps(
    attempts: Iterable[Attempt], baseline_lineage: Lineage, *, fault_start: int
) -> tuple[AlignedSteps, ...]:
    """Align the steps made before the first fault, discarded by a later restart or not."""
    # By attempts and not by the lineage: a step that a later restart discarded was computed before
    # any fault all the same, and is as good a control.
    groups = []
    for attempt in attempts:
        for steps in attempt.steps.steps_by_epoch.values():
            control_steps = steps
            if steps[-1].number >= fault_start:
                control_steps = Steps(takewhile(lambda step: step.number < fault_start, steps))
            if control_steps:
                groups.append(_align_steps(control_steps, baseline_lineage))
    return tuple(groups)


def _align_steps(run_steps: Steps, baseline_lineage: Lineage) -> AlignedSteps:
    rank, epoch, first_step = run_steps[0].rank, run_steps[0].epoch, run_steps[0].step
    epoch_steps = baseline_lineage.select_steps(rank, epoch)
    # Where both count up one by one, the counterparts are one slice; else each is looked up.
    baseline_steps: Sequence[Step | None]
    if (
        epoch_steps
        and epoch_steps[0].step == 1
        and _is_unbroken(run_steps)
        and _is_unbroken(epoch_steps)
    ):
        baseline_steps = epoch_steps[first_step - 1 : first_step - 1 + len(run_steps)]
        baseline_steps = [
            *baseline_steps,
            *(None for _ in range(len(run_steps) - len(baseline_steps))),
        ]
    else:
        baseline_steps = [baseline_lineage.find_step(rank, epoch, step.step) for step in run_steps]
    return AlignedSteps(run_steps, baseline_steps)


def _is_unbroken(steps: Steps) -> bool:
    """Return whether steps count up one by one."""
    return steps.numbers == list(range(steps[0].step, steps[0].step + len(steps)))
