"""The answer (go, go with changes, no-go or cannot tell) and its evidence."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from chaos.preflight.advice import Counsel, counsel, improved
from chaos.preflight.capacity import Availability, availability
from chaos.preflight.forecast import Effort, Forecast, Outcomes, forecast
from chaos.preflight.intervals import Curve, interval_curve
from chaos.preflight.market import loss_interval_s
from chaos.preflight.needed import would_take
from chaos.preflight.question import Question, changed, value_at
from chaos.preflight.ranges import Range, border, cost_ranges, ways_to_read
from chaos.preflight.rules import findings, refuse_unknown
from chaos.preflight.rules.rule import Predictions, RuleFinding
from chaos.preflight.saving import NoticeCell, notice_sweep
from chaos.preflight.validation import Validation
from chaos.preflight.verdict import EXIT, Word, doubt, reaches, verdict


@dataclass(frozen=True)
class Answer:
    """A verdict, its reason, and the figures. A figure that could not be computed is None."""

    question: Question
    effort: Effort
    word: Word
    why: str
    findings: tuple[RuleFinding, ...]
    #: those of the question with the changes
    findings_after: tuple[RuleFinding, ...] = ()
    ignored: tuple[str, ...] = ()
    loss_every_s: float | None = None
    forecast: Forecast | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    #: the forecast of the question with the changes
    after: Forecast | None = None
    #: of a no-go, in a sentence: the things of which each alone would make it a go
    would_take: str = ""
    counsel: Counsel | None = None
    curve: Curve | None = None
    grace: tuple[NoticeCell, ...] = ()
    availability: Availability | None = None
    finish_bins: tuple[tuple[float, float, int], ...] = ()
    notes: tuple[str, ...] = ()
    validation: tuple[Validation, ...] = ()
    #: the way that it is by, where there are several: an option, or values in words
    read_as: str = ""
    #: the answers by each way to read a trace, where none was chosen, and at the ends of ranges
    readings: tuple["Answer", ...] = ()

    @property
    def depends(self) -> bool:
        """Whether it depends on how the question is read: then only `readings` have figures."""
        return bool(self.readings) and self.forecast is None and self.question.costs is not None

    @property
    def exit_code(self) -> int:
        """0 go, 5 go with changes, 1 no-go, 2 cannot tell."""
        return EXIT[self.word]

    @property
    def meets_changed(self) -> bool:
        """Whether every goal is surely met with the changes."""
        return self.after is not None and reaches(self.after, self.question.goal.confidence)

    @property
    def promised(self) -> Forecast | None:
        """The forecast that meets every goal: without changes if possible, otherwise with them."""
        if self.word == "go":
            return self.forecast
        return self.after if self.word == "go with changes" and self.meets_changed else None

    @property
    def by_hand(self) -> tuple[RuleFinding, ...]:
        """The findings that stop the job and that no advised change removes."""
        found = self.findings if self.after is None else self.findings_after
        return tuple(finding for finding in found if finding.weight == "stops")

    @property
    def new_findings(self) -> tuple[RuleFinding, ...]:
        """The findings that only the changes bring."""
        known = {finding.rule for finding in self.findings}
        return tuple(f for f in self.findings_after if f.rule not in known)

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values; units are in the names."""
        plain = asdict(replace(self, readings=()))
        plain["readings"] = [one.as_read() for one in self.readings]
        plain["question"] = self.question.model_dump(mode="json")
        plain["exit_code"] = self.exit_code
        plain["validation"] = [held.to_json() for held in self.validation]
        finite: dict[str, Any] = _finite(plain)
        return finite

    def as_read(self) -> dict[str, Any]:
        """Return what is shown of an answer by one reading beside the other, as plain values."""
        nodes = self.question.market.trace_nodes
        after = self.after and asdict(self.after)
        return {
            "read_as": self.read_as,
            "trace_nodes": nodes and nodes.read,
            "word": self.word,
            "why": self.why,
            "forecast": self.forecast and asdict(self.forecast),
            "changes": self.changes,
            "after": after,
        }


def _finite(value: Any) -> Any:  # noqa: ANN401 (plain values, nested)
    """Return plain values, with numbers that JSON does not have as text: `Infinity`."""
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
    ranges: Sequence[Range] = (),
    ignore: Collection[str] = (),
    notes: Collection[str] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> Answer:
    """Answer a question; without costs, only by the rules.

    What lies between two ends is answered at both: the question's own costs, and `ranges`.
    `tell` is called with the name of each stage.
    """
    refuse_unknown(ignore)
    ranges, ignored = (*cost_ranges(question), *ranges), tuple(sorted(ignore))
    each = [
        replace(_answered(way.question, effort, ignored, tell), read_as=way.name)
        for way in ways_to_read(question, ranges)
    ]
    found = each[0] if len(each) == 1 else of_all(each, ranges, effort)
    seen = found.forecast if found.after is None else found.after
    if found.word == "no-go" and seen is not None:
        tell("asking what it would take")
        found = replace(found, would_take=would_take(found.question, found.changes, seen, effort))
    return replace(found, notes=(*notes, *found.notes))


def of_all(each: Sequence[Answer], ranges: Sequence[Range], effort: Effort) -> Answer:
    """Return the answer that holds by every way to read a question, of them the worst.

    A no-go is that of the best way. If no answer holds by all, it is `cannot tell`, with the value
    up to which it would be a go, where a range has one.
    """
    worst, best = min(each, key=_rank), max(each, key=_rank)
    question, words = worst.question, {one.word for one in each}
    if question.costs is None:
        found = {one.text: one for answer in each for one in answer.findings}
        return replace(worst, findings=tuple(found.values()), readings=tuple(each))
    if words == {"no-go"}:
        return replace(best if ranges else worst, readings=tuple(each))
    agree = len(words) == 1 or words <= {"go", "go with changes"}
    if agree and all(_holds(one, worst.changes, effort) for one in each if one is not worst):
        return replace(worst, readings=tuple(each))
    return Answer(
        question=question,
        effort=effort,
        word="cannot tell",
        why=f"{_depends_on(each, ranges)}: {_by_ways(each)}{_up_to(each, best, ranges, effort)}",
        findings=tuple(
            one for one in worst.findings if all(one in other.findings for other in each)
        ),
        ignored=worst.ignored,
        notes=tuple(dict.fromkeys(note for answer in each for note in answer.notes)),
        readings=tuple(each),
    )


def _depends_on(each: Sequence[Answer], ranges: Sequence[Range]) -> str:
    """Return in words what decides between the answers."""
    reasons = ["what was not measured"] if ranges else []
    read = {
        one.question.market.trace_nodes and one.question.market.trace_nodes.read for one in each
    }
    nodes, pool = each[0].question.market.trace_nodes, each[0].question.job.pool
    if nodes is not None and len(read) > 1:
        of = "" if ranges else f"{nodes.most} "
        reasons.append(f"how the trace's {of}nodes are read as {pool} of yours (--trace-nodes)")
    return f"it depends on {' and on '.join(reasons)}"


def _by_ways(each: Sequence[Answer]) -> str:
    """Return the answers in words: each by its way, or of many how often there is which."""
    counts = Counter(one.word for one in each)
    if len(each) > 2:  # noqa: PLR2004
        said = ", ".join(f"{word} by {count}" for word, count in counts.items())
        return f"of {len(each)} ways {said}"
    words = "; ".join(f"{one.word} {_by(one)}" for one in each)
    return words if len(counts) > 1 else f"{words}, each with other changes"


def _by(one: Answer) -> str:
    """Return in words the way that an answer is by."""
    words = one.read_as.replace("--trace-nodes market", "as a market")
    words = words.replace("--trace-nodes pool", "by shares")
    return words if words.startswith(("as ", "by ")) else f"with {words}"


def _up_to(each: Sequence[Answer], best: Answer, ranges: Sequence[Range], effort: Effort) -> str:
    """Return in words up to which value it is a go, by every reading of a trace."""
    if not ranges or best.word not in ("go", "go with changes"):
        return ""
    read = {one.question.market.trace_nodes: one.question for one in each}

    known = {one.rule for one in (*best.findings, *best.findings_after) if one.weight == "stops"}

    def suffices(asked: Question) -> bool:
        return _suffices(asked, best.changes, best.ignored, effort, known=known)

    found = border([*read.values()], ranges, suffices)
    return "" if found is None else f". It is a {best.word} if {found}"


_ORDER: tuple[Word, ...] = ("no-go", "cannot tell", "go with changes", "go")


def _rank(found: Answer) -> tuple[int, float]:
    """Return a key by the answer, and among equals by the goodput."""
    goodput = 0.0 if found.forecast is None else found.forecast.mean_goodput
    return _ORDER.index(found.word), goodput


def _holds(found: Answer, changes: dict[str, Any], effort: Effort) -> bool:
    """Return whether changes that were found by one reading suffice by this one, too."""
    if found.word == "cannot tell" or (found.word == "go" and not changes):
        return True
    return _suffices(found.question, changes, found.ignored, effort)


def _suffices(
    question: Question,
    changes: dict[str, Any],
    ignored: Collection[str],
    effort: Effort,
    *,
    known: Collection[str] | None = None,
) -> bool:
    """Return whether every goal is surely met with changes, and no rule stops the job for them.

    With `known`, no rule may stop it but these.
    """
    asked = changed(question, changes)
    seen = forecast(asked, effort.simulate(asked))
    if not reaches(seen, asked.goal.confidence) or doubt(asked, seen, effort) is not None:
        return False
    if known is None:
        return not _new_stops(question, changes, ignored)
    found = findings(asked, Predictions(seen), ignore=ignored)
    return all(one.rule in known for one in found if one.weight == "stops")


def _answered(
    question: Question, effort: Effort, ignored: tuple[str, ...], tell: Callable[[str], None]
) -> Answer:
    if question.costs is None:
        why = "what a step, a save and a restart cost here is not known: calibrate, or give costs"
        rules = findings(question, ignore=ignored)
        return Answer(question, effort, "cannot tell", why, rules, ignored=ignored)
    tell(f"simulating {effort.runs:,} runs")
    outcomes = effort.simulate(question)
    seen = forecast(question, outcomes)
    tell("trying checkpoint intervals")
    curve = interval_curve(question, effort.try_each)
    tell("trying changes, each by itself")
    advised, withheld = _without_stops(question, counsel(question, curve, effort.try_each), ignored)
    tell("trying changes together")
    changes, after, findings_after = _improved(question, effort, (seen, advised, curve), ignored)
    found = findings(question, Predictions(seen, curve), ignore=ignored)
    word, why = verdict(question, seen, found, after)
    tell("asking what the market's data leave open")
    open_ = None
    if word == "go with changes" and after is not None and reaches(after, question.goal.confidence):
        open_ = doubt(changed(question, changes), after, effort)
    elif word in ("go", "go with changes"):
        open_ = doubt(question, seen, effort)
    job, hours = question.job, _span_h(question, seen)
    return Answer(
        question=question,
        effort=effort,
        word=word if open_ is None else "cannot tell",
        why=why if open_ is None else f"{why}; but {open_}",
        findings=found,
        findings_after=findings_after,
        ignored=ignored,
        loss_every_s=loss_interval_s(question.market, job.exposed),
        forecast=seen,
        changes=changes,
        after=after,
        counsel=advised,
        curve=curve,
        grace=notice_sweep(question),
        availability=availability(question.market, job.at_risk, hours=hours, seed=effort.seed),
        finish_bins=_bins(outcomes),
        notes=withheld,
    )


def _without_stops(
    question: Question, advised: Counsel, ignored: Collection[str]
) -> tuple[Counsel, tuple[str, ...]]:
    """Return the advice without changes that make a rule stop the job, and a note on each."""
    stops = {
        one.what: new
        for one in (*advised.settings, *advised.spares)
        if (new := _new_stops(question, one.values, ignored))
    }
    kept = replace(
        advised,
        settings=tuple(one for one in advised.settings if one.what not in stops),
        spares=tuple(one for one in advised.spares if one.what not in stops),
    )
    return kept, tuple(f"not advised: {what} ({', '.join(new)})" for what, new in stops.items())


def _new_stops(
    question: Question, values: dict[str, Any], ignored: Collection[str]
) -> tuple[str, ...]:
    """Return the rules that stop a changed question, and did not stop it before."""
    before, after = (
        [one.rule for one in findings(asked, ignore=ignored) if one.weight == "stops"]
        for asked in (question, changed(question, values))
    )
    return tuple(rule for rule in after if rule not in before)


def _improved(
    question: Question,
    effort: Effort,
    known: tuple[Forecast, Counsel, Curve],
    ignored: Collection[str],
) -> tuple[dict[str, Any], Forecast | None, tuple[RuleFinding, ...]]:
    """Return the advised changes, their forecast, and the findings of the rules with them.

    There are no changes if every goal is met without, and none that make a rule stop the job.
    """
    seen, advised, curve = known
    if reaches(seen, question.goal.confidence):
        return {}, None, ()
    values, after = improved(question, effort, advised, curve)
    plain = question.model_dump(mode="json")
    values = {place: value for place, value in values.items() if value_at(plain, place) != value}
    if not values or after is None or _new_stops(question, values, ignored):
        return {}, None, ()
    return values, after, findings(changed(question, values), Predictions(after), ignore=ignored)


def _span_h(question: Question, seen: Forecast) -> float:
    known = (seen.finish_h.high, seen.finish_h.middle, 2 * question.work_s / 3600)
    finish = next(hours for hours in known if math.isfinite(hours))
    return min(24 * 30.0, max(1.0, finish))


def _bins(outcomes: Outcomes, count: int = 40) -> tuple[tuple[float, float, int], ...]:
    """Return (from h, to h, runs) of the finish times; the furthest 0.5 % share the last bin."""
    hours = outcomes.end_s[outcomes.finished > 0] / 3600
    if not len(hours):
        return ()
    low, top = float(hours.min()), float(np.quantile(hours, 0.995))
    span = (low, max(top, low * 1.02))  # if all runs take the same time, a bar is still drawn
    counts, edges = np.histogram(np.minimum(hours, top), bins=count, range=span)
    since = edges.tolist()
    return tuple(zip(since, since[1:], counts.tolist(), strict=False))
