"""A rule, and what it found."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from chaos.preflight.question import Question

Weight: TypeAlias = Literal["stops", "costs", "advice"]
Look: TypeAlias = Callable[[Question], str | None]


@dataclass(frozen=True)
class Rule:
    """`look` says in words what is wrong, or None.

    `bad` and `good` are its two examples: changes to `sound_question()`, keyed
    by the value's place (`settings.max_failures`), of which one triggers it.
    `stops`: the training may end for good. `costs`: it wastes time or money.
    """

    id: str
    weight: Weight
    look: Look
    reason: str
    source: str
    bad: Mapping[str, Any]
    good: Mapping[str, Any]


@dataclass(frozen=True)
class Finding:
    """What a rule found in one question."""

    rule: str
    weight: Weight
    text: str
    reason: str
    source: str
