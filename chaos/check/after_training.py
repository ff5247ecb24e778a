"""Was training over before an op struck?"""

from chaos.check.attempt import Attempt
from chaos.model.event import ControllerState, TrainFnEnded
from chaos.model.history import History
from chaos.model.plan import Op
from chaos.model.trigger import AtState

# Ray 2.60's controller comes to them once every train function has returned, or for good failed.
OVER = ("SHUTTING_DOWN", "FINISHED")


def is_meant_for_the_end(op: Op) -> bool:
    """Say whether an op's own place is one after training."""
    return isinstance(op.at, AtState) and op.at.state in OVER


def training_was_over(op: Op, struck: Attempt, history: History, *, invoked: int) -> bool:
    """Say whether an attempt had nothing left to train when an op began, by its event's number.

    Then Ray has no failure to decide on. An attempt with a decision was not over.
    """
    if struck.decisions:
        return False
    since = struck.opened or 0
    told = any(since < n < invoked and e.state in OVER for n, e in history.of(ControllerState))
    returned = {
        e.rank
        for n, e in history.of(TrainFnEnded)
        if n < invoked and e.attempt == struck.index and e.error is None
    }
    return is_meant_for_the_end(op) or told or 0 < struck.size <= len(returned)
