"""The steps of a run as columns: those of an attempt, and of each rank in each epoch.

A step is the event that tells of it, with its number. So a new field of `StepDone` is at hand for
every reader: it is declared with the event, recorded by `probe/probe.py`, and read where it counts.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

import msgspec

from chaos.model.event import Inputs, LossResolved, StepDone
from chaos.model.history import History
from chaos.model.places import RankEpoch

Losses: TypeAlias = tuple[float | str, ...]

_HEX = 8  # digits of a sample's digest


class Step(msgspec.Struct, frozen=True, gc=False):
    """A finished optimizer step; what was resolved after it is in its event."""

    number: int
    done: StepDone

    @property
    def attempt(self) -> int:
        return self.done.attempt

    @property
    def rank(self) -> int:
        return self.done.rank

    @property
    def epoch(self) -> int:
        return self.done.epoch

    @property
    def step(self) -> int:
        return self.done.step

    @property
    def losses(self) -> Losses | None:
        """Its losses, None where they were never resolved."""
        return self.done.losses

    @property
    def inputs(self) -> Inputs | None:
        return self.done.inputs

    @property
    def samples(self) -> list[str] | None:
        """The digests of its samples, in order; None where they are not known."""
        text = None if self.done.inputs is None else self.done.inputs.samples
        return (
            None
            if text is None
            else [text[start : start + _HEX] for start in range(0, len(text), _HEX)]
        )


class Steps(tuple[Step, ...]):  # noqa: SLOT001 (its columns are kept with it)
    """Steps in order, and their columns; each is made when it is first read."""

    @cached_property
    def steps_by_epoch(self) -> Mapping[RankEpoch, "Steps"]:
        """The steps of each rank in each epoch."""
        # Bare tuples: this runs once for each step, and they are made five times as fast.
        groups: dict[tuple[int, int], list[Step]] = {}
        for step in self:
            key = (step.done.rank, step.done.epoch)
            if key in groups:
                groups[key].append(step)
            else:
                groups[key] = [step]
        return {RankEpoch(*key): Steps(steps) for key, steps in groups.items()}

    @cached_property
    def steps_by_rank(self) -> Mapping[int, Sequence[Step]]:
        """The steps of each rank."""
        groups: dict[int, list[Step]] = {}
        for (rank, _), steps in self.steps_by_epoch.items():
            groups.setdefault(rank, []).extend(steps)
        return groups

    @cached_property
    def numbers(self) -> Sequence[int]:
        """The number of each step in its epoch."""
        return [step.done.step for step in self]

    @cached_property
    def losses(self) -> Sequence[Losses | None]:
        return [step.done.losses for step in self]

    @cached_property
    def inputs(self) -> Sequence[Inputs | None]:
        return [step.done.inputs for step in self]

    @cached_property
    def digests(self) -> Sequence[str]:
        """The inputs of the steps that had any seen, each by its digest."""
        return [inputs.digest for inputs in self.inputs if inputs is not None]

    @property
    def are_watched(self) -> bool:
        """Whether the inputs of every step were seen."""
        return None not in self.inputs

    @cached_property
    def samples(self) -> Counter[str] | None:
        """Their samples, counted; None if those of one step are not known."""
        return count_samples(self)


NO_STEPS = Steps()


def count_samples(steps: Iterable[Step]) -> Counter[str] | None:
    """Return the samples of steps, counted; None if those of one step are not known."""
    sample_counts: Counter[str] = Counter()
    for step in steps:
        step_samples = step.samples
        if step_samples is None:
            return None
        sample_counts.update(step_samples)
    return sample_counts


def group_steps_by_attempt(history: History) -> Mapping[int, Steps]:
    """Return the steps of each attempt; made once of a history, however many runs it serves."""
    return history.compute_once("steps", lambda: _build_attempt_steps(history))


def _build_attempt_steps(history: History) -> dict[int, Steps]:
    resolutions = {
        (e.attempt, e.rank, e.epoch, e.step): e for _, e in history.select_events(LossResolved)
    }
    groups: dict[int, list[Step]] = {}
    for number, step_event in history.select_events(StepDone):
        resolution = None
        if resolutions:
            resolution = resolutions.get(
                (step_event.attempt, step_event.rank, step_event.epoch, step_event.step)
            )
        step = Step(
            number,
            step_event if resolution is None else _add_resolved_values(step_event, resolution),
        )
        groups.setdefault(step_event.attempt, []).append(step)
    return {attempt: Steps(steps) for attempt, steps in sorted(groups.items())}


def _add_resolved_values(step_event: StepDone, resolution: LossResolved) -> StepDone:
    """Return the event of a step with what could be read only later."""
    losses = resolution.losses if step_event.losses is None else step_event.losses
    return msgspec.structs.replace(
        step_event, losses=losses, inputs=step_event.inputs or resolution.inputs
    )
