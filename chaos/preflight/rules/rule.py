"""A rule, its findings, and the question on which rules show their examples."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from chaos.preflight.forecast import Forecast
from chaos.preflight.intervals import Curve
from chaos.preflight.market import Exponential, Market, Notice
from chaos.preflight.question import Costs, Goal, JobShape, Question, RaySettings

Weight: TypeAlias = Literal["stops", "costs", "advice"]


@dataclass(frozen=True)
class Predictions:
    """Results of the simulation: the forecast, and the interval curve if there is one."""

    seen: Forecast
    curve: Curve | None = None


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule. `static` returns its finding in words, or None, only from the question.

    `simulated` replaces it if runs were simulated, so that a rule and a forecast on one page
    have the same figures; a rule without `static` needs them. `bad` and `good` are its two
    examples: changes to `sound_question()`, keyed by the value's place
    (`settings.max_failures`), of which one triggers it. `stops`: the training may end for good.
    `costs`: it wastes time or money.
    """

    id: str
    weight: Weight
    static: Callable[[Question], str | None] | None = None
    reason: str
    source: str
    bad: Mapping[str, Any]
    good: Mapping[str, Any]
    simulated: Callable[[Question, Predictions], str | None] | None = None

    def finds(self, question: Question, told: Predictions | None) -> str | None:
        """Return the finding for a question, by `told` if it was simulated; None: no finding."""
        if told is not None and self.simulated is not None:
            return self.simulated(question, told)
        return None if self.static is None else self.static(question)


@dataclass(frozen=True)
class RuleFinding:
    """The finding of one rule."""

    rule: str
    weight: Weight
    text: str
    reason: str
    source: str


def sound_question() -> Question:
    """Return a job of eight nodes whose settings fit its market."""
    return Question(
        preflight="sound settings on a calm market",
        job=JobShape(
            nodes=8,
            min_nodes=6,
            spare_nodes=1,
            steps=40_000,
            checkpoint_every_steps=900,
            saves_on_notice=True,
            rescales_batch=True,
        ),
        settings=RaySettings(
            max_failures=200,
            num_to_keep=3,
            storage_path="s3://bucket/runs",
            run_name="big-run",
            health_check_timeout_s=120,
            collective_timeout_s=200,
            group_start_timeout_s=180,
            report_timeout_s=1800,
            node_death_s=3,
            checkpoint_upload_mode="async",
        ),
        costs=Costs(
            step_s=1.0,
            save_s=8.0,
            upload_s=20.0,
            detect_s=3.0,
            teardown_s=6.0,
            schedule_s=10.0,
            start_s=15.0,
            restore_s=12.0,
        ),
        market=Market(
            name="sound",
            lifetime=Exponential(mtbf_h=100.0),
            away_h=0.2,
            notice=Notice(seconds=120.0, reliability=0.9),
            price_ratio=0.35,
        ),
        goal=Goal(deadline_h=24.0),
    )
