"""What came back of a job's state at a resume, part by part."""

from typing import Literal, TypeAlias

from chaos.record import Record

Standing: TypeAlias = Literal["restored", "reset", "not restored", "different", "not compared"]

GROUPS = (
    "model",
    "buffers",
    "gradients",
    "optimizer",
    "optimizer settings",
    "schedule",
    "scaler",
    "averaged model",
    "declared",
    "rng",
    "data order",
    "cursor",
)


class Part(Record):
    """One part of one rank's state where it went on, beside the baseline's at that place.

    `reset`: as at the very beginning. `not restored`: the baseline has it, and
    here is nothing. `different`: neither that nor the baseline's. `matters`
    is False where a difference had no consequence that was seen, such as an
    RNG that nothing drew from, or where other parts explain all that was.
    `ours` and `baseline` say what each is: the norm of tensors, the value of
    a number, a place in the inputs.
    """

    group: str
    component: str
    rank: int
    standing: Standing
    matters: bool = True
    ours: str = ""
    baseline: str = ""


class Resume(Record):
    """One resume: where it went on, what came back, and what follows from it.

    `sentence` says what is wrong, where a fix is likely, and where the loss
    first leaves the baseline; for a resume with nothing wrong it says so.
    `events` are the entries of the ranks.
    """

    attempt: int
    epoch: int
    step: int
    checkpoint: str | None
    sound: bool
    sentence: str
    parts: tuple[Part, ...]
    events: tuple[int, ...] = ()
