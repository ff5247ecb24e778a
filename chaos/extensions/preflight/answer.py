"""The answer (go, go with changes, no-go or cannot tell) and its evidence."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from chaos.extensions.preflight.advice import SettingsAdvice, build_counsel, find_improvement
from chaos.extensions.preflight.capacity import Availability, availability
from chaos.extensions.preflight.forecast import Effort, Forecast, Outcomes, build_forecast
from chaos.extensions.preflight.go_conditions import describe_go_conditions
from chaos.extensions.preflight.intervals import IntervalCurve, interval_curve
from chaos.extensions.preflight.market import loss_interval_s
from chaos.extensions.preflight.question import Question, change_question, find_value
from chaos.extensions.preflight.ranges import ValueRange, cost_ranges, find_border, list_readings
from chaos.extensions.preflight.rules import findings
from chaos.extensions.preflight.rules.rule import Predictions, RuleFinding
from chaos.extensions.preflight.saving import NoticeCell, notice_sweep
from chaos.extensions.preflight.validation import Validation
from chaos.extensions.preflight.verdict import EXIT, Word, find_doubt, find_verdict, reaches


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
    counsel: SettingsAdvice | None = None
    curve: IntervalCurve | None = None
    grace: tuple[NoticeCell, ...] = ()
    availability: Availability | None = None
    finish_bins: tuple[tuple[float, float, int], ...] = ()
    notes: tuple[str, ...] = ()
    validation: tuple[Validation, ...] = ()
    #: the way that it is by, where there are several: an option, or values in words
    read_as: str = ""
    #: the answers by each way to read a trace, where none was chosen, and at the ends of ranges
    readings: tuple["Answer", ...] = ()
    #: the answers on known markets, where none was given
    markets: tuple["Answer", ...] = ()

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
        final_findings = self.findings if self.after is None else self.findings_after
        return tuple(finding for finding in final_findings if finding.weight == "stops")

    @property
    def new_findings(self) -> tuple[RuleFinding, ...]:
        """The findings that only the changes bring."""
        original_rules = {finding.rule for finding in self.findings}
        return tuple(f for f in self.findings_after if f.rule not in original_rules)

    def dump_values(self) -> dict[str, Any]:
        """Return everything as plain values; units are in the names."""
        plain = asdict(replace(self, readings=(), markets=()))
        plain["readings"] = [reading.dump_reading() for reading in self.readings]
        plain["markets"] = [
            {"market": item.question.market.name, **item.dump_reading()} for item in self.markets
        ]
        plain["question"] = self.question.model_dump(mode="json")
        plain["exit_code"] = self.exit_code
        plain["validation"] = [validation.dump_values() for validation in self.validation]
        finite: dict[str, Any] = _replace_infinities(plain)
        return finite

    def dump_reading(self) -> dict[str, Any]:
        """Return what is shown of an answer by one reading beside the other, as plain values."""
        nodes = self.question.market.trace_nodes
        changed_forecast = self.after and asdict(self.after)
        return {
            "read_as": self.read_as,
            "trace_nodes": nodes and nodes.read,
            "word": self.word,
            "why": self.why,
            "forecast": self.forecast and asdict(self.forecast),
            "changes": self.changes,
            "after": changed_forecast,
        }


def _replace_infinities(value: Any) -> Any:  # noqa: ANN401 (plain values, nested)
    """Return plain values, with numbers that JSON does not have as text: `Infinity`."""
    if isinstance(value, dict):
        return {key: _replace_infinities(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_infinities(item) for item in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def answer_question(
    question: Question,
    effort: Effort,
    *,
    ranges: Sequence[ValueRange] = (),
    ignore: Collection[str] = (),
    notes: Collection[str] = (),
    report_stage: Callable[[str], None] = lambda _: None,
) -> Answer:
    """Answer a question; without costs, only by the rules.

    What lies between two ends is answered at both: the question's own costs, and `ranges`.
    `report_stage` is called with the name of each stage.
    """
    ranges, ignored = (*cost_ranges(question), *ranges), tuple(sorted(ignore))
    answers = [
        replace(
            _answer_reading(reading.question, effort, ignored, report_stage), read_as=reading.name
        )
        for reading in list_readings(question, ranges)
    ]
    result = answers[0] if len(answers) == 1 else combine_answers(answers, ranges, effort)
    final_forecast = result.forecast if result.after is None else result.after
    if result.word == "no-go" and final_forecast is not None:
        report_stage("asking what it would take")
        result = replace(
            result,
            would_take=describe_go_conditions(
                result.question, result.changes, final_forecast, effort
            ),
        )
    return replace(result, notes=(*notes, *result.notes))


def combine_answers(
    answers: Sequence[Answer], ranges: Sequence[ValueRange], effort: Effort
) -> Answer:
    """Return the answer that holds by every way to read a question, of them the worst.

    A no-go is that of the best way. If no answer holds by all, it is `cannot tell`, with the value
    up to which it would be a go, where a range has one.
    """
    worst, best = min(answers, key=rank_answer), max(answers, key=rank_answer)
    question, words = worst.question, {item.word for item in answers}
    if question.costs is None:
        distinct_findings = {item.text: item for answer in answers for item in answer.findings}
        return replace(worst, findings=tuple(distinct_findings.values()), readings=tuple(answers))
    if words == {"no-go"}:
        return replace(best if ranges else worst, readings=tuple(answers))
    is_agreed = len(words) == 1 or words <= {"go", "go with changes"}
    if is_agreed and all(
        accepts_changes(item, worst.changes, effort) for item in answers if item is not worst
    ):
        return replace(worst, readings=tuple(answers))
    return Answer(
        question=question,
        effort=effort,
        word="cannot tell",
        why=(
            f"{_describe_dependence(answers, ranges)}: "
            f"{_describe_answers(answers)}{_describe_go_border(answers, best, ranges, effort)}"
        ),
        findings=tuple(
            item
            for item in worst.findings
            if all(item in other_answer.findings for other_answer in answers)
        ),
        ignored=worst.ignored,
        notes=tuple(dict.fromkeys(note for answer in answers for note in answer.notes)),
        readings=tuple(answers),
    )


def _describe_dependence(answers: Sequence[Answer], ranges: Sequence[ValueRange]) -> str:
    """Return in words what decides between the answers."""
    reasons = ["what was not measured"] if ranges else []
    readings = {
        answer.question.market.trace_nodes and answer.question.market.trace_nodes.read
        for answer in answers
    }
    trace_nodes, pool = answers[0].question.market.trace_nodes, answers[0].question.job.pool
    if trace_nodes is not None and len(readings) > 1:
        node_count = "" if ranges else f"{trace_nodes.most} "
        reasons.append(
            f"how the trace's {node_count}nodes are read as {pool} of yours (--trace-nodes)"
        )
    return f"it depends on {' and on '.join(reasons)}"


def _describe_answers(answers: Sequence[Answer]) -> str:
    """Return the answers in words: each by its way, or of many how often there is which."""
    counts = Counter(answer.word for answer in answers)
    if len(answers) > 2:  # noqa: PLR2004
        listing = ", ".join(f"{word} by {count}" for word, count in counts.items())
        return f"of {len(answers)} ways {listing}"
    words = "; ".join(f"{answer.word} {_describe_reading(answer)}" for answer in answers)
    return words if len(counts) > 1 else f"{words}, each with other changes"


def _describe_reading(answer: Answer) -> str:
    """Return in words the way that an answer is by."""
    words = answer.read_as.replace("--trace-nodes market", "as a market")
    words = words.replace("--trace-nodes pool", "by shares")
    return words if words.startswith(("as ", "by ")) else f"with {words}"


def _describe_go_border(
    answers: Sequence[Answer], best: Answer, ranges: Sequence[ValueRange], effort: Effort
) -> str:
    """Return in words up to which value it is a go, by every reading of a trace."""
    if not ranges or best.word not in ("go", "go with changes"):
        return ""
    questions_by_reading = {item.question.market.trace_nodes: item.question for item in answers}

    stopping_rules = {
        item.rule for item in (*best.findings, *best.findings_after) if item.weight == "stops"
    }

    def suffices(question: Question) -> bool:
        return _suffices(
            question, best.changes, best.ignored, effort, accepted_rules=stopping_rules
        )

    go_border = find_border([*questions_by_reading.values()], ranges, suffices)
    return "" if go_border is None else f". It is a {best.word} if {go_border}"


_ORDER: tuple[Word, ...] = ("no-go", "cannot tell", "go with changes", "go")


def rank_answer(answer: Answer) -> tuple[int, float]:
    """Return a key by the answer, and among equals by the goodput."""
    goodput = 0.0 if answer.forecast is None else answer.forecast.mean_goodput
    return _ORDER.index(answer.word), goodput


def accepts_changes(answer: Answer, changes: dict[str, Any], effort: Effort) -> bool:
    """Return whether changes that were found by one reading suffice by this one, too."""
    if answer.word == "cannot tell" or (answer.word == "go" and not changes):
        return True
    return _suffices(answer.question, changes, answer.ignored, effort)


def _suffices(
    question: Question,
    changes: dict[str, Any],
    ignored: Collection[str],
    effort: Effort,
    *,
    accepted_rules: Collection[str] | None = None,
) -> bool:
    """Return whether every goal is surely met with changes, and no rule stops the job for them.

    With `accepted_rules`, no rule may stop it but these.
    """
    changed_question = change_question(question, changes)
    changed_forecast = build_forecast(changed_question, effort.simulate(changed_question))
    if (
        not reaches(changed_forecast, changed_question.goal.confidence)
        or find_doubt(changed_question, changed_forecast, effort) is not None
    ):
        return False
    if accepted_rules is None:
        return not _find_new_stops(question, changes, ignored)
    rule_findings = findings(changed_question, Predictions(changed_forecast), ignore=ignored)
    return all(
        finding.rule in accepted_rules for finding in rule_findings if finding.weight == "stops"
    )


def _answer_reading(
    question: Question,
    effort: Effort,
    ignored: tuple[str, ...],
    report_stage: Callable[[str], None],
) -> Answer:
    if question.costs is None:
        why = "what a step, a save and a restart cost here is not known: calibrate, or give costs"
        rules = findings(question, ignore=ignored)
        return Answer(question, effort, "cannot tell", why, rules, ignored=ignored)
    report_stage(f"simulating {effort.runs:,} runs")
    outcomes = effort.simulate(question)
    run_forecast = build_forecast(question, outcomes)
    report_stage("trying checkpoint intervals")
    curve = interval_curve(question, effort.try_each)
    report_stage("trying changes, each by itself")
    advice, withheld = _drop_stopping_changes(
        question, build_counsel(question, curve, effort.try_each), ignored
    )
    report_stage("trying changes together")
    changes, changed_forecast, findings_after = _find_improvement(
        question, effort, (run_forecast, advice, curve), ignored
    )
    rule_findings = findings(question, Predictions(run_forecast, curve), ignore=ignored)
    word, why = find_verdict(question, run_forecast, rule_findings, changed_forecast)
    report_stage("asking what the market's data leave open")
    open_doubt = None
    if (
        word == "go with changes"
        and changed_forecast is not None
        and reaches(changed_forecast, question.goal.confidence)
    ):
        open_doubt = find_doubt(change_question(question, changes), changed_forecast, effort)
    elif word in ("go", "go with changes"):
        open_doubt = find_doubt(question, run_forecast, effort)
    job, hours = question.job, _span_h(question, run_forecast)
    return Answer(
        question=question,
        effort=effort,
        word=word if open_doubt is None else "cannot tell",
        why=why if open_doubt is None else f"{why}; but {open_doubt}",
        findings=rule_findings,
        findings_after=findings_after,
        ignored=ignored,
        loss_every_s=loss_interval_s(question.market, job.losable_nodes),
        forecast=run_forecast,
        changes=changes,
        after=changed_forecast,
        counsel=advice,
        curve=curve,
        grace=notice_sweep(question),
        availability=availability(question.market, job.spot_nodes, hours=hours, seed=effort.seed),
        finish_bins=_bins(outcomes),
        notes=withheld,
    )


def _drop_stopping_changes(
    question: Question, advice: SettingsAdvice, ignored: Collection[str]
) -> tuple[SettingsAdvice, tuple[str, ...]]:
    """Return the advice without changes that make a rule stop the job, and a note on each."""
    stops = {
        proposal.what: new_rules
        for proposal in (*advice.settings, *advice.spares)
        if (new_rules := _find_new_stops(question, proposal.values, ignored))
    }
    remaining_advice = replace(
        advice,
        settings=tuple(proposal for proposal in advice.settings if proposal.what not in stops),
        spares=tuple(proposal for proposal in advice.spares if proposal.what not in stops),
    )
    return remaining_advice, tuple(
        f"not advised: {change} ({', '.join(new_rules)})" for change, new_rules in stops.items()
    )


def _find_new_stops(
    question: Question, values: dict[str, Any], ignored: Collection[str]
) -> tuple[str, ...]:
    """Return the rules that stop a changed question, and did not stop it before."""
    original_rules, changed_rules = (
        [finding.rule for finding in findings(variant, ignore=ignored) if finding.weight == "stops"]
        for variant in (question, change_question(question, values))
    )
    return tuple(rule for rule in changed_rules if rule not in original_rules)


def _find_improvement(
    question: Question,
    effort: Effort,
    evidence: tuple[Forecast, SettingsAdvice, IntervalCurve],
    ignored: Collection[str],
) -> tuple[dict[str, Any], Forecast | None, tuple[RuleFinding, ...]]:
    """Return the advised changes, their forecast, and the findings of the rules with them.

    There are no changes if every goal is met without, and none that make a rule stop the job.
    """
    run_forecast, advice, curve = evidence
    if reaches(run_forecast, question.goal.confidence):
        return {}, None, ()
    values, changed_forecast = find_improvement(question, effort, advice, curve)
    plain = question.model_dump(mode="json")
    values = {key: value for key, value in values.items() if find_value(plain, key) != value}
    if not values or changed_forecast is None or _find_new_stops(question, values, ignored):
        return {}, None, ()
    return (
        values,
        changed_forecast,
        findings(change_question(question, values), Predictions(changed_forecast), ignore=ignored),
    )


def _span_h(question: Question, run_forecast: Forecast) -> float:
    candidates = (
        run_forecast.finish_h.high,
        run_forecast.finish_h.middle,
        2 * question.work_s / 3600,
    )
    finish = next(hours for hours in candidates if math.isfinite(hours))
    return min(24 * 30.0, max(1.0, finish))


def _bins(outcomes: Outcomes, count: int = 40) -> tuple[tuple[float, float, int], ...]:
    """Return (from h, to h, runs) of the finish times; the furthest 0.5 % share the last bin."""
    hours = outcomes.end_s[outcomes.finished > 0] / 3600
    if not len(hours):
        return ()
    low, top = float(hours.min()), float(np.quantile(hours, 0.995))
    span = (low, max(top, low * 1.02))  # if all runs take the same time, a bar is still drawn
    counts, edges = np.histogram(np.minimum(hours, top), bins=count, range=span)
    bin_edges = edges.tolist()
    return tuple(zip(bin_edges, bin_edges[1:], counts.tolist(), strict=False))
