"""A rule and its findings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

from chaos.extensions.preflight.forecast import Forecast
from chaos.extensions.preflight.intervals import IntervalCurve
from chaos.extensions.preflight.question import Question
from chaos.extensions.preflight.settings import RaySettings, TorchrunSettings

Weight: TypeAlias = Literal["stops", "costs", "advice"]


@dataclass(frozen=True)
class Predictions:
    """Results of the simulation: the forecast, and the interval curve if there is one."""

    forecast: Forecast
    curve: IntervalCurve | None = None


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule, and its two examples, of which one triggers it."""

    id: str
    #: `stops`: the training may end for good; `costs`: it wastes time or money
    weight: Weight
    #: returns its finding in words, or None, only from the question
    static: Callable[[Question], str | None] | None = None
    reason: str
    source: str
    #: changes to a sound question, keyed by the value's place (`settings.max_failures`)
    bad: Mapping[str, Any]
    #: likewise
    good: Mapping[str, Any]
    #: whose settings it is on; None: on those of a job and its market, with every launcher
    of: type[RaySettings | TorchrunSettings] | None = RaySettings
    #: replaces `static` if runs were simulated, so that a rule and a forecast on one page have the
    #: same figures; a rule without `static` needs them
    simulated: Callable[[Question, Predictions], str | None] | None = None
    #: whether the simulation knows all that it is on
    in_figures: bool = True

    def find(self, question: Question, predictions: Predictions | None) -> str | None:
        """Return the finding for a question, by `predictions` of a simulation, or None."""
        if self.of is not None and not isinstance(question.settings, self.of):
            return None
        if predictions is not None and self.simulated is not None:
            return self.simulated(question, predictions)
        return None if self.static is None else self.static(question)


RULES: list[Rule] = []  # in the order in which they are defined
Finds = TypeVar("Finds", bound=Callable[..., str | None])


def _make_rule(
    weight: Weight,
    name: str,
    *,
    by: Literal["static", "simulated"] = "static",
    **facts: Any,  # noqa: ANN401 - the other fields of `Rule`
) -> Callable[[Finds], Finds]:
    """Make a function a rule of this weight and id."""

    def register(finds: Finds) -> Finds:
        RULES.append(Rule(id=name, weight=weight, **facts | {by: finds}))
        return finds

    return register


stops, wastes, advises = (partial(_make_rule, weight) for weight in ("stops", "costs", "advice"))


@dataclass(frozen=True)
class RuleFinding:
    """The finding of one rule."""

    rule: str
    weight: Weight
    text: str
    reason: str
    source: str
    #: false if the figures beside it do not know what it is on
    in_figures: bool = True
