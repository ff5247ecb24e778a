"""The state of a job at its resumes, part by part."""

from typing import Literal, TypeAlias

from chaos.record import Record

Standing: TypeAlias = Literal["restored", "reset", "not restored", "different", "not compared"]


class Part(Record):
    """One part of one rank's state at a resume, compared with the baseline's at that place."""

    group: str
    component: str
    rank: int
    #: `reset`: it has its very first value; `not restored`: the baseline has it, and the run has
    #: nothing; `different`: it is neither that nor the baseline's
    standing: Standing
    #: False where a difference had no consequence that was seen, such as an RNG that nothing drew
    #: from, or where other parts explain all differences
    matters: bool = True
    #: the norm of tensors, the value of a number, a place in the inputs
    ours: str = ""
    #: likewise
    baseline: str = ""


class Resume(Record):
    """One resume: its place, the parts of the state, and the consequences."""

    attempt: int
    epoch: int
    step: int
    checkpoint: str | None
    sound: bool
    #: names the defect, the likely fix, and the place where the loss first leaves the baseline; for
    #: a sound resume it states that nothing is wrong
    sentence: str
    parts: tuple[Part, ...]
    #: the entries of the ranks
    events: tuple[int, ...] = ()
    #: the evidence for the place, in words; empty where no first step was seen
    grounds: str = ""
