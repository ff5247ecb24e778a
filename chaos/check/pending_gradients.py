"""Steps whose first micro-batches came back with a checkpoint, as gradients that were pending.

A job may save within an accumulation, with the gradients so far. Its next attempt makes the rest:

    baseline     | 1 2 3 |          the micro-batches of one step
    attempt 0    | 1 [saved] 2 .    killed
    attempt 1    |     2 3 |        after the gradient of 1 was read back

Such a step has the baseline's inputs and losses, the first of them from the save. Where gradients
that were pending did not come back, the step stays as it was recorded: it lacks micro-batches.
"""

import msgspec

from chaos.check.lineage import Lineage
from chaos.check.steps import Losses, Step, steps_by_attempt
from chaos.model.event import Inputs, StateSeen, StepDone
from chaos.model.history import Entry, History
from chaos.model.places import AttemptRank

GRADIENTS = "gradients"


def complete_first_steps(history: History, baseline: Lineage) -> History:
    """Return a run in which the first step of each resume has what its pending gradients hold."""
    completed: dict[int, StepDone] = {}
    ranks = _ranks_with_gradients(history)
    for attempt, steps in steps_by_attempt(history).items() if ranks else ():
        for rank, made in steps.by_rank.items():
            if (attempt, rank) in ranks:
                first = made[0]
                whole = _complete(first, baseline.at(rank, first.epoch, first.step))
                if whole is not None:
                    completed[first.number] = whole
    if not completed:
        return history
    entries = [_replaced(entry, completed.get(number)) for number, entry in enumerate(history)]
    return History(entries, torn=history.torn, hidden=history.hidden)


def _ranks_with_gradients(history: History) -> set[AttemptRank]:
    """Return the ranks of later attempts that had gradients before their first backward pass."""
    first: dict[AttemptRank, StateSeen] = {}
    for _, seen in history.of(StateSeen):
        if seen.attempt > 0 and seen.moment == "entered":
            first.setdefault(AttemptRank(seen.attempt, seen.rank), seen)
    return {
        rank
        for rank, seen in first.items()
        if any(part.name == GRADIENTS and part.digest for part in seen.components)
    }


def _complete(step: Step, expected: Step | None) -> StepDone | None:
    """Return a step with the baseline's micro-batches before its own; None if they do not fit."""
    if expected is None or not step.losses or not expected.losses:
        return None
    before = len(expected.losses) - len(step.losses)
    inputs = _complete_inputs(step.inputs, expected.inputs)
    if before <= 0 or (inputs is None and step.losses != expected.losses[before:]):
        return None
    losses: Losses = (*expected.losses[:before], *step.losses)
    if inputs is None and step.inputs is not None:
        inputs = expected.inputs  # samples are not known one by one; the losses are those of them
    return msgspec.structs.replace(step.done, losses=losses, inputs=inputs)


def _complete_inputs(inputs: Inputs | None, expected: Inputs | None) -> Inputs | None:
    """Return the baseline's inputs if these are the last of them; None if that is not known."""
    if inputs is None or expected is None or not inputs.samples or not expected.samples:
        return None
    return expected if expected.samples.endswith(inputs.samples) else None


def _replaced(entry: Entry, what: StepDone | None) -> Entry:
    return entry if what is None else msgspec.structs.replace(entry, what=what)
