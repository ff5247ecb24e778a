"""Steps whose first micro-batches came back with a checkpoint, as gradients that were pending.

A job may save within an accumulation, with the gradients so far. Its next attempt makes the rest:

    baseline     | 1 2 3 |          the micro-batches of one step
    attempt 0    | 1 [saved] 2 .    killed
    attempt 1    |     2 3 |        after the gradient of 1 was read back

Such a step has the baseline's inputs and losses, the first of them from the save. Where gradients
that were pending did not come back, the step stays as it was recorded: it lacks micro-batches.
"""

import msgspec

from chaos.model.event import Inputs, StateSeen, StepDone
from chaos.model.history import History, JournalEntry
from chaos.model.places import AttemptRank
from chaos.resume.lineage import Lineage
from chaos.resume.steps import Losses, Step, group_steps_by_attempt

GRADIENTS = "gradients"


def complete_first_steps(history: History, baseline: Lineage) -> History:
    """Return a run in which the first step of each resume has what its pending gradients hold."""
    completed_steps: dict[int, StepDone] = {}
    ranks = _find_gradient_ranks(history)
    for attempt, steps in group_steps_by_attempt(history).items() if ranks else ():
        for rank, rank_steps in steps.steps_by_rank.items():
            if (attempt, rank) in ranks:
                first_step = rank_steps[0]
                full_step = _complete_step(
                    first_step, baseline.find_step(rank, first_step.epoch, first_step.step)
                )
                if full_step is not None:
                    completed_steps[first_step.number] = full_step
    if not completed_steps:
        return history
    entries = [
        _replace_event(entry, completed_steps.get(number)) for number, entry in enumerate(history)
    ]
    return History(entries, torn=history.torn, hidden=history.hidden)


def _find_gradient_ranks(history: History) -> set[AttemptRank]:
    """Return the ranks of later attempts that had gradients before their first backward pass."""
    first_states: dict[AttemptRank, StateSeen] = {}
    for _, state in history.select_events(StateSeen):
        if state.attempt > 0 and state.moment == "entered":
            first_states.setdefault(AttemptRank(state.attempt, state.rank), state)
    return {
        rank
        for rank, state in first_states.items()
        if any(part.name == GRADIENTS and part.digest for part in state.components)
    }


def _complete_step(step: Step, expected: Step | None) -> StepDone | None:
    """Return a step with the baseline's micro-batches before its own; None if they do not fit."""
    if expected is None or not step.losses or not expected.losses:
        return None
    missing_count = len(expected.losses) - len(step.losses)
    inputs = _complete_inputs(step.inputs, expected.inputs)
    if missing_count <= 0 or (inputs is None and step.losses != expected.losses[missing_count:]):
        return None
    losses: Losses = (*expected.losses[:missing_count], *step.losses)
    if inputs is None and step.inputs is not None:
        inputs = expected.inputs  # samples are not known one by one; the losses are those of them
    return msgspec.structs.replace(step.done, losses=losses, inputs=inputs)


def _complete_inputs(inputs: Inputs | None, expected: Inputs | None) -> Inputs | None:
    """Return the baseline's inputs if these are the last of them; None if that is not known."""
    if inputs is None or expected is None or not inputs.samples or not expected.samples:
        return None
    return expected if expected.samples.endswith(inputs.samples) else None


def _replace_event(entry: JournalEntry, event: StepDone | None) -> JournalEntry:
    return entry if event is None else msgspec.structs.replace(entry, event=event)
