"""Which strikes can reveal a bug: rules on where a job was struck, and nothing else.

A bug in restoring state hides from a strike before the first checkpoint, and
one in a save from a strike anywhere else. Only what could have been seen
counts when it is asked how much was seen.
"""

from collections.abc import Callable
from typing import TypeAlias

from chaos.model.plan import Op
from chaos.model.trigger import AtMoment
from chaos.zoo.layout import Layout

Rule: TypeAlias = Callable[[Layout, Op], bool]


def never(course: Layout, op: Op) -> bool:
    """Say no: nothing can show what is not there."""
    del course, op
    return False


def after_a_save(course: Layout, op: Op) -> bool:
    """Say whether something was saved, which is not found again."""
    return course.resumes_at(op) >= 1


def between_saves(course: Layout, op: Op) -> bool:
    """Say whether something was saved and training goes on from it."""
    return 1 <= course.resumes_at(op) < course.reports


def inside_an_epoch(course: Layout, op: Op) -> bool:
    """Say whether the last thing saved is the middle of an epoch."""
    return between_saves(course, op) and not course.ended[course.resumes_at(op) - 1]


def inside_a_save(course: Layout, op: Op) -> bool:
    """Say whether a rank is writing its state."""
    del course
    return isinstance(op.at, AtMoment) and op.at.moment == "saving"


def after_more_digits(course: Layout, op: Op) -> bool:
    """Say whether the newest state, named by its step, comes earlier in the order of text."""
    saved = [course.steps_before(epoch) for epoch in range(1, course.resumes_at(op) + 1)]
    return bool(saved) and max(saved, key=str) != max(saved)
