"""A rule, and what it found."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from chaos.preflight.curve import Curve
from chaos.preflight.forecast import Forecast
from chaos.preflight.question import Question

Weight: TypeAlias = Literal["stops", "costs", "advice"]
Look: TypeAlias = Callable[[Question], str | None]


@dataclass(frozen=True)
class Foretold:
    """What was simulated of a question: its runs, and where it was, its checkpoint intervals."""

    seen: Forecast
    curve: Curve | None = None


@dataclass(frozen=True)
class Rule:
    """`look` says in words what is wrong, or None.

    `foretold` stands in its place where runs were simulated: whoever shows both
    a rule and a forecast has each figure from one of them. `bad` and `good` are
    its two examples: changes to `sound_question()`, keyed by the value's place
    (`settings.max_failures`), of which one triggers it.
    `stops`: the training may end for good. `costs`: it wastes time or money.
    """

    id: str
    weight: Weight
    look: Look
    reason: str
    source: str
    bad: Mapping[str, Any]
    good: Mapping[str, Any]
    foretold: Callable[[Question, Foretold], str | None] | None = None

    def finds(self, question: Question, told: Foretold | None) -> str | None:
        """Return what is wrong with a question of which `told` is foretold; None: nothing."""
        if told is None or self.foretold is None:
            return self.look(question)
        return self.foretold(question, told)


@dataclass(frozen=True)
class Finding:
    """What a rule found in one question."""

    rule: str
    weight: Weight
    text: str
    reason: str
    source: str
