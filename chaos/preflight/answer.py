"""The answer: go, go with changes, or no-go; and everything that it rests on."""

import math
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from chaos.preflight.advice import Counsel, counsel
from chaos.preflight.availability import Availability, availability
from chaos.preflight.change import changed
from chaos.preflight.comparison import Validation
from chaos.preflight.curve import Curve, interval_curve
from chaos.preflight.doubts import doubt
from chaos.preflight.effort import Effort
from chaos.preflight.forecast import Forecast, forecast
from chaos.preflight.grace import Cell, grace_sweep
from chaos.preflight.improving import improved
from chaos.preflight.market import loss_interval_s
from chaos.preflight.question import Question
from chaos.preflight.rules.every import findings
from chaos.preflight.rules.rule import Finding
from chaos.preflight.simulate import Outcomes
from chaos.preflight.verdict import EXIT, Word, reaches, verdict


@dataclass(frozen=True)
class Answer:
    """A verdict, why, and the figures. What could not be computed is None."""

    question: Question
    effort: Effort
    word: Word
    why: str
    findings: tuple[Finding, ...]
    ignored: tuple[str, ...] = ()
    loss_every_s: float | None = None
    forecast: Forecast | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    after: Forecast | None = None
    counsel: Counsel | None = None
    curve: Curve | None = None
    grace: tuple[Cell, ...] = ()
    availability: Availability | None = None
    finish_bins: tuple[tuple[float, float, int], ...] = ()
    notes: tuple[str, ...] = ()
    validation: tuple[Validation, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 go, 1 go with changes or no-go, 2 unknown."""
        return EXIT[self.word]

    @property
    def meets_changed(self) -> bool:
        """Whether every goal is surely met with the changes."""
        return self.after is not None and reaches(self.after, self.question.goal.confidence)

    def to_json(self) -> dict[str, Any]:
        """Give everything as plain values; times as their names say."""
        plain = asdict(self)
        plain["question"] = self.question.model_dump(mode="json")
        plain["exit_code"] = self.exit_code
        plain["validation"] = [held.to_json() for held in self.validation]
        finite: dict[str, Any] = _finite(plain)
        return finite


def _finite(value: Any) -> Any:  # noqa: ANN401 (plain values, nested)
    """Spell numbers that JSON does not have as text: `Infinity`."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value


def answer(
    question: Question,
    effort: Effort,
    *,
    ignore: Collection[str] = (),
    notes: Collection[str] = (),
) -> Answer:
    """Answer a question; without costs, or with an impossible goal, only what can be said."""
    found = findings(question, ignore=ignore)
    ignored = tuple(sorted(ignore))
    if question.costs is None:
        why = "what a step, a save and a restart cost here is not known: calibrate, or give costs"
        return Answer(question, effort, "unknown", why, found, ignored, notes=tuple(notes))
    return _answered(question, effort, found, (ignored, tuple(notes)))


def _answered(
    question: Question,
    effort: Effort,
    found: tuple[Finding, ...],
    known: tuple[tuple[str, ...], tuple[str, ...]],
) -> Answer:
    ignored, notes = known
    outcomes = effort.simulate(question)
    seen = forecast(question, outcomes)
    curve = interval_curve(question, effort.try_each)
    advised = counsel(question, curve, effort.try_each)
    changes, after = improved(question, effort, advised)
    word, why = verdict(question, seen, found, after)
    if word in ("go", "go with changes"):
        asked, promised = question, seen
        if word != "go" and after is not None and reaches(after, question.goal.confidence):
            asked, promised = changed(question, changes), after
        open_ = doubt(asked, promised, effort)
        word, why = (word, why) if open_ is None else ("unknown", f"{why}; but {open_}")
    assert question.costs is not None
    return Answer(
        question=question,
        effort=effort,
        word=word,
        why=why,
        findings=found,
        ignored=ignored,
        loss_every_s=loss_interval_s(question.market, question.job.nodes),
        forecast=seen,
        changes=changes,
        after=after,
        counsel=advised,
        curve=curve,
        grace=grace_sweep(question),
        availability=availability(
            question.market, question.job.pool, hours=_span_h(question, seen), seed=effort.seed
        ),
        finish_bins=_bins(outcomes),
        notes=notes,
    )


def _span_h(question: Question, seen: Forecast) -> float:
    finish = seen.finish_h.high if seen.finish_h else 2 * question.work_s / 3600
    return min(24 * 30.0, max(1.0, finish))


def _bins(outcomes: Outcomes, count: int = 40) -> tuple[tuple[float, float, int], ...]:
    """Give (from h, to h, runs) of the finish times; the furthest 0.5 % share the last bin."""
    hours = outcomes.end_s[outcomes.finished > 0] / 3600
    if not len(hours):
        return ()
    low, top = float(hours.min()), float(np.quantile(hours, 0.995))
    span = (low, max(top, low * 1.02))  # runs that all take as long are still drawn as a bar
    counts, edges = np.histogram(np.minimum(hours, top), bins=count, range=span)
    return tuple(
        (float(since), float(until), int(n))
        for since, until, n in zip(edges, edges[1:], counts, strict=False)
    )
