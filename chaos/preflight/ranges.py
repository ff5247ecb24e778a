"""Values that were not measured, each between two ends, and the ways to read a question."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from chaos.errors import UsageError
from chaos.preflight.estimate import in_hours
from chaos.preflight.market import Market, TraceReading
from chaos.preflight.question import COSTS_IN_WORDS, Question, changed
from chaos.words import plural

HALVINGS = 6  # a border is within 1 in 64 of the range's length, on a scale of ratios


class Range(NamedTuple):
    """A value between two ends; a job does better at `good`."""

    good: float
    bad: float
    #: the question with the value
    at: Callable[[Question, float], Question]
    #: the value in words: `a restart of 60 s`
    words: Callable[[float], str]
    #: a border in words: `a restart costs 7 min at most`
    border: Callable[[float], str]


class Way(NamedTuple):
    """A question as it is read one way."""

    question: Question
    #: the way as an option or in words; empty if there is no other
    name: str = ""


def cost_ranges(question: Question) -> tuple[Range, ...]:
    """Return the costs of a question that lie between two ends."""
    return tuple(_of_cost(name, *ends) for name, ends in question.between.items())


def _of_cost(name: str, low: float, high: float) -> Range:
    what = COSTS_IN_WORDS[name]
    return Range(
        low,
        high,
        lambda question, value: changed(question, {f"costs.{name}": value}),
        lambda value: f"{what} of {in_hours(value / 3600)}",
        lambda value: f"{what} costs {in_hours(value / 3600)} at most",
    )


def held_range(
    few: int,
    many: int,
    market_of: Callable[[int], Market],
    values: Mapping[str, Any] = MappingProxyType({}),
) -> Range:
    """Return the range of the nodes that there were when a log was written.

    `values` are those of the market that were said beside the log.
    """

    def at(question: Question, value: float) -> Question:
        nodes, market = question.market.trace_nodes, market_of(round(value))
        read = market if nodes is None else market.read_as(nodes.read)
        return changed(question.model_copy(update={"market": read}), values)

    return Range(
        many,
        few,
        at,
        lambda value: f"{plural(round(value), 'node')} when the log was written",
        lambda value: f"there were {math.ceil(value)} nodes at least when the log was written",
    )


def ways_to_read(question: Question, ranges: Sequence[Range] = ()) -> tuple[Way, ...]:
    """Return the question by each way to read it: its trace's nodes, and the ends of its ranges.

    Of ranges there are two: all at their good ends, and all at their bad ones. A trace of fewer
    nodes than the job needs does not show whether more could be had: it is read by shares. Raises
    `UsageError` if it is to be read as a market nonetheless.
    """
    ends = [tuple(one.good for one in ranges), tuple(one.bad for one in ranges)]
    asked = [
        Way(at_ends(question, ranges, values), _named(ranges, values))
        for values in (ends if ranges else [()])
    ]
    found = [
        Way(read, ", ".join(filter(None, (option, way.name))))
        for way in asked
        for read, option in _by_trace(way.question)
    ]
    return tuple(found)


def at_ends(question: Question, ranges: Sequence[Range], values: Sequence[float]) -> Question:
    """Return the question with a value for each range."""
    for one, value in zip(ranges, values, strict=True):
        question = one.at(question, value)
    return question


def _named(ranges: Sequence[Range], values: Sequence[float]) -> str:
    return ", ".join(one.words(value) for one, value in zip(ranges, values, strict=True))


def _by_trace(question: Question) -> Iterator[tuple[Question, str]]:
    market, least = question.market, question.job.min_nodes or question.job.nodes
    if market.trace_nodes is None:
        yield question, ""
        return
    ways: tuple[TraceReading, ...] = ("pool", "market")
    if market.trace_nodes.read is not None:
        ways = (market.trace_nodes.read,)
    if least > market.trace_nodes.most:
        if market.is_shared:
            most = plural(market.trace_nodes.most, "node")
            raise UsageError(
                f"the job needs {least} nodes, and the trace has {most} at most: whether more "
                "could be had is not in it",
                "Read it by shares: --trace-nodes pool.",
                place=market.name,
            )
        ways = ("pool",)
    for way in ways:
        named = f"--trace-nodes {way}" if len(ways) > 1 else ""
        yield question.model_copy(update={"market": market.read_as(way)}), named


def border(
    questions: Sequence[Question],
    ranges: Sequence[Range],
    suffices: Callable[[Question], bool],
) -> str | None:
    """Return in words up to where one value alone decides, with the others at their bad ends.

    None if no value does. `suffices` says of a question whether its goals are met; they are to be
    met in every one of `questions`, which differ by the reading of a trace.
    """
    found = []
    for number, one in enumerate(ranges):
        rest = [*ranges[:number], *ranges[number + 1 :]]
        bad = [other.bad for other in rest]
        value = _last_good(one, [at_ends(asked, rest, bad) for asked in questions], suffices)
        if value is not None:
            beside = _named(rest, bad)
            found.append(one.border(value) + (f" (with {beside})" if beside else ""))
    return ", or if ".join(found) or None


def _last_good(
    one: Range, questions: Sequence[Question], suffices: Callable[[Question], bool]
) -> float | None:
    """Return the value furthest from the good end that suffices, by halves on a scale of ratios."""

    def holds(value: float) -> bool:
        return all(suffices(one.at(asked, value)) for asked in questions)

    good, bad = one.good, one.bad
    if not holds(good):
        return None
    for _ in range(HALVINGS):
        middle = _between(good, bad)
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good


def _between(one: float, other: float) -> float:
    return math.sqrt(one * other) if min(one, other) > 0 else (one + other) / 2
