"""Values that were not measured, each between two ends, and the ways to read a question."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from chaos.errors import UsageError
from chaos.extensions.preflight.estimate import format_hours
from chaos.extensions.preflight.market import Market, TraceReading
from chaos.extensions.preflight.question import COSTS_IN_WORDS, Question, change_question
from chaos.wording import plural

HALVINGS = 6  # a border is within 1 in 64 of the range's length, on a scale of ratios


class ValueRange(NamedTuple):
    """A value between two ends; a job does better at `good`."""

    good: float
    bad: float
    #: the question with the value
    apply_value: Callable[[Question, float], Question]
    #: the value in words: `a restart of 60 s`
    describe_value: Callable[[float], str]
    #: a border in words: `a restart costs 7 min at most`
    describe_border: Callable[[float], str]


class QuestionReading(NamedTuple):
    """A question as it is read one way."""

    question: Question
    #: the way as an option or in words; empty if there is no other
    name: str = ""


def cost_ranges(question: Question) -> tuple[ValueRange, ...]:
    """Return the costs of a question that lie between two ends."""
    return tuple(_build_cost_range(name, *ends) for name, ends in question.between.items())


def _build_cost_range(name: str, low: float, high: float) -> ValueRange:
    noun = COSTS_IN_WORDS[name]
    return ValueRange(
        low,
        high,
        lambda question, value: change_question(question, {f"costs.{name}": value}),
        lambda value: f"{noun} of {format_hours(value / 3600)}",
        lambda value: f"{noun} costs {format_hours(value / 3600)} at most",
    )


def build_held_range(
    min_nodes: int,
    max_nodes: int,
    market_of: Callable[[int], Market],
    values: Mapping[str, Any] = MappingProxyType({}),
) -> ValueRange:
    """Return the range of the nodes that there were when a log was written.

    `values` are those of the market that were said beside the log.
    """

    def replace_market(question: Question, value: float) -> Question:
        nodes, market = question.market.trace_nodes, market_of(round(value))
        changed_market = market if nodes is None else market.choose_reading(nodes.read)
        return change_question(question.replace(market=changed_market), values)

    return ValueRange(
        max_nodes,
        min_nodes,
        replace_market,
        lambda value: f"{plural(round(value), 'node')} when the log was written",
        lambda value: f"there were {math.ceil(value)} nodes at least when the log was written",
    )


def list_readings(
    question: Question, ranges: Sequence[ValueRange] = ()
) -> tuple[QuestionReading, ...]:
    """Return the question by each way to read it: its trace's nodes, and the ends of its ranges.

    Of ranges there are two: all at their good ends, and all at their bad ones. A trace of fewer
    nodes than the job needs does not show whether more could be had: it is read by shares. Raises
    `UsageError` if it is to be read as a market nonetheless.
    """
    ends = [
        tuple(value_range.good for value_range in ranges),
        tuple(value_range.bad for value_range in ranges),
    ]
    base_readings = [
        QuestionReading(apply_values(question, ranges, values), _describe_values(ranges, values))
        for values in (ends if ranges else [()])
    ]
    trace_readings = [
        QuestionReading(trace_question, ", ".join(filter(None, (option, reading.name))))
        for reading in base_readings
        for trace_question, option in _list_trace_readings(reading.question)
    ]
    return tuple(trace_readings)


def apply_values(
    question: Question, ranges: Sequence[ValueRange], values: Sequence[float]
) -> Question:
    """Return the question with a value for each range."""
    for value_range, value in zip(ranges, values, strict=True):
        question = value_range.apply_value(question, value)
    return question


def _describe_values(ranges: Sequence[ValueRange], values: Sequence[float]) -> str:
    return ", ".join(
        value_range.describe_value(value) for value_range, value in zip(ranges, values, strict=True)
    )


def _list_trace_readings(question: Question) -> Iterator[tuple[Question, str]]:
    market, min_nodes = question.market, question.job.min_nodes or question.job.nodes
    if market.trace_nodes is None:
        yield question, ""
        return
    readings: tuple[TraceReading, ...] = ("pool", "market")
    if market.trace_nodes.read is not None:
        readings = (market.trace_nodes.read,)
    if min_nodes > market.trace_nodes.most:
        if market.is_shared:
            trace_nodes = plural(market.trace_nodes.most, "node")
            raise UsageError(
                f"the job needs {min_nodes} nodes, and the trace has {trace_nodes} at most: "
                "whether more "
                "could be had is not in it",
                "Read it by shares: --trace-nodes pool.",
                location=market.name,
            )
        readings = ("pool",)
    for reading in readings:
        option = f"--trace-nodes {reading}" if len(readings) > 1 else ""
        yield question.replace(market=market.choose_reading(reading)), option


def find_border(
    questions: Sequence[Question],
    ranges: Sequence[ValueRange],
    suffices: Callable[[Question], bool],
) -> str | None:
    """Return in words up to where one value alone decides, with the others at their bad ends.

    None if no value does. `suffices` says of a question whether its goals are met; they are to be
    met in every one of `questions`, which differ by the reading of a trace.
    """
    borders = []
    for number, value_range in enumerate(ranges):
        other_ranges = [*ranges[:number], *ranges[number + 1 :]]
        bad = [other_range.bad for other_range in other_ranges]
        value = _find_last_good(
            value_range,
            [apply_values(question, other_ranges, bad) for question in questions],
            suffices,
        )
        if value is not None:
            conditions = _describe_values(other_ranges, bad)
            borders.append(
                value_range.describe_border(value) + (f" (with {conditions})" if conditions else "")
            )
    return ", or if ".join(borders) or None


def _find_last_good(
    value_range: ValueRange, questions: Sequence[Question], suffices: Callable[[Question], bool]
) -> float | None:
    """Return the value furthest from the good end that suffices, by halves on a scale of ratios."""

    def holds(value: float) -> bool:
        return all(suffices(value_range.apply_value(question, value)) for question in questions)

    good, bad = value_range.good, value_range.bad
    if not holds(good):
        return None
    for _ in range(HALVINGS):
        middle = _find_middle(good, bad)
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good


def _find_middle(first_value: float, second_value: float) -> float:
    return (
        math.sqrt(first_value * second_value)
        if min(first_value, second_value) > 0
        else (first_value + second_value) / 2
    )
