"""Which attempts did what storage did bring to an end?"""

from collections.abc import Sequence

from chaos.check.attempt import Attempt
from chaos.model.event import StorageFaulted, TrainFnEnded
from chaos.model.history import History


def harmed(
    effects: Sequence[tuple[int, StorageFaulted]], history: History, attempts: Sequence[Attempt]
) -> dict[int, int]:
    """Give the attempts that ended by these effects, in order, each with when (monotonic ns).

    A rank that was killed ends its attempt. An error does where the train
    function raised after it, or was never seen to end (an upload in the
    background fails outside it) and Ray decided on a failure; a job that
    catches the error, or Ray's own second try that succeeds, goes on. What
    waits, or believes a lie, goes on too.
    """
    ended = list(history.of(TrainFnEnded))
    failed = {a.index: [d.number for d in a.decisions] for a in attempts}
    hits: dict[int, int] = {}
    for number, effect in effects:
        if effect.rank is None or effect.effect in ("delayed", "cut"):
            continue
        ends = [(n, e) for n, e in ended if _is_of(e, effect)]
        raised = any(n > number and e.error is not None for n, e in ends)
        unseen = not ends and any(n > number for n in failed.get(effect.attempt, ()))
        if effect.effect == "killed" or raised or unseen:
            hits.setdefault(effect.attempt, history.time_ns(number))
    return hits


def _is_of(ended: TrainFnEnded, effect: StorageFaulted) -> bool:
    return (ended.attempt, ended.rank) == (effect.attempt, effect.rank)
