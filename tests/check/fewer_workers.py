"""Histories of a job that goes on with fewer workers."""

from collections.abc import Callable

import msgspec

from chaos.model import event as ev
from chaos.model.history import History, JournalEntry
from chaos.model.verdict import CheckResult
from tests.check.each import judge_each
from tests.check.story import Story, Strike
from tests.check.tamper import changed
from tests.check.watching import digest, shuffled

STORY = Story(strikes=(Strike(epoch=2, step=3, rank=1),), least=1)

STEPS = 5


def shrunk(history: History) -> list[JournalEntry]:
    """Tell the story again with one worker after the fault, whose steps are other, larger steps."""
    return [
        msgspec.structs.replace(entry, event=_alone(entry.event))
        for entry in history
        if not _is_of_the_second_rank(entry.event)
    ]


def _is_of_the_second_rank(what: ev.AnyEvent) -> bool:
    is_later = getattr(what, "attempt", 0) > 0
    is_left_out = isinstance(what, ev.StepDone) and what.step > STEPS
    return is_later and (getattr(what, "rank", 0) == 1 or is_left_out)


def _alone(what: ev.AnyEvent) -> ev.AnyEvent:
    if getattr(what, "attempt", 0) == 0:
        return what
    match what:
        case ev.WorkerGroupStarted(workers=workers):
            return msgspec.structs.replace(what, workers=workers[:1])
        case ev.StepDone():
            alone = msgspec.structs.replace(what, losses=(0.125,))
            return msgspec.structs.replace(alone, inputs=part(what.epoch, what.step))
        case ev.Committed():
            return msgspec.structs.replace(what, metrics=({"epoch": what.epoch, "loss": 0.125},))
        case _:
            return what


def part(epoch: int, step: int, *, of: int = 2 * STORY.ranks * STORY.steps) -> ev.Inputs:
    """Return what one worker is given for a step: its part of the whole epoch."""
    order = shuffled(epoch, 2 * STORY.ranks * STORY.steps)[:of]
    size = -(-len(order) // STEPS)
    mine = order[size * (step - 1) : size * step]
    return ev.Inputs(count=len(mine), digest=digest(mine), samples="".join(mine))


def judged(entries: list[JournalEntry], baseline: History | None = None) -> dict[str, CheckResult]:
    verdict = judge_each(STORY.plan(), History(entries), baseline or STORY.baseline())
    return {result.check: result for result in verdict.results}


def fed(inputs: Callable[[ev.StepDone], ev.Inputs | None]) -> list[JournalEntry]:
    """Tell of one worker that is given these inputs after the fault."""
    later = lambda e: e.attempt == 1  # noqa: E731 (one word of a line)
    return list(changed(History(shrunk(STORY.history())), ev.StepDone, later, inputs=inputs))
