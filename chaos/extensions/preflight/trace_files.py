"""Files of traces and of AWS Spot Advisor, in the formats of their publishers."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from chaos.errors import UsageError, raise_when_called
from chaos.extensions.preflight.event_logs import parse_log
from chaos.extensions.preflight.trace import Kind, NodeLife, Trace, build_trace, find_lives
from chaos.extensions.preflight.trace_columns import (
    TraceError,
    Unit,
    is_table,
    number_lines,
    parse_rows,
)
from chaos.extensions.preflight.trace_lives import parse_lives
from chaos.extensions.preflight.trace_losses import parse_losses
from chaos.scenario_file.yaml_lines import load_text
from chaos.wording import plural

KNOWN = (
    "Known are columns of times and of counts (`2021-12-11, 11:11:30, 55`), or of times, `add` or "
    "`remove`, and nodes (Bamboo: `milliseconds,add,node1`), or of losses alone "
    "(`preemption_time`; `hour,preempted`), or of lives (`instance_id,lifetime_hours`); "
    "Parcae's lines (`[0, "
    '"add", {"nodes": [...]}]`) and '
    'SkyPilot\'s JSON (`{"metadata": {"gap_seconds": 300}, "data": [4, 4, 3]}`); and logs: '
    "EventBridge's events, Google Cloud's audit log and operations, Azure's scheduled events, "
    "Kubernetes' events and Ray's node events, all as JSON, and `sacct -D -P`."
)
# Nodes at one time: more is a time in the wrong column.
COUNT_MAX = 1_000_000
# Times the usual distance of rows: what is longer is cut out, since changes in it were not seen.
GAP_FACTOR = 20


def parse_table(name: str, lines: Sequence[str], unit: Unit | None) -> Trace:
    """Read a trace in columns: counts of nodes, or nodes that are added and removed."""
    columns, rows = parse_rows(name, lines, unit)
    if columns.count is None:
        first_s = 0.0 if columns.is_plain else min(row.at_s for row in rows)
        events = [(row.at_s - first_s, row.line, row.event, [row.node]) for row in rows]
        trace = _build_event_trace(name, events, "Bamboo events" if columns.is_plain else "events")
        note = "its times are read as milliseconds, as Bamboo writes them (--trace-unit)"
        return replace(trace, repairs=(*trace.repairs, note)) if columns.is_assumed else trace
    counts = [(row.at_s, _check_count(name, row.line, row.count)) for row in rows]
    return _build_count_trace(name, counts, "count series")


def parse_parcae(name: str, lines: Sequence[str]) -> Trace:
    """Read one JSON list per line, `[milliseconds, "add|remove|no-op", {"nodes": [...]}]`."""
    rows, last_ms = [], 0.0
    for number, line in number_lines(lines):
        try:
            # NaN and Infinity are no times.
            values = json.loads(line, parse_constant=raise_when_called(ValueError))
            milliseconds, event_kind, details = values
            nodes = _names(details["nodes"])
            last_ms = max(last_ms, float(milliseconds) + float(details.get("duration", 0)))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            raise TraceError(
                name, number, f"not a line of a Parcae trace: {line[:60]}", KNOWN
            ) from None
        if nodes and event_kind not in (
            "add",
            "remove",
        ):  # without nodes: notes, such as "migration"
            text = f"a node is added or removed, not {str(event_kind)[:40]!r}"
            hint = 'Known are "add" and "remove"; what has no nodes is passed over.'
            raise TraceError(name, number, text, hint)
        rows.append((float(milliseconds) / 1000, number, event_kind if nodes else "no-op", nodes))
    return _build_event_trace(name, rows, "Parcae", span_s=last_ms / 1000)


def _names(nodes: object) -> list[str]:
    if not isinstance(nodes, list):
        raise TypeError(nodes)
    return [str(node) for node in nodes]


def parse_skypilot(name: str, value: Mapping[str, Any]) -> Trace:
    """Read `{"metadata": {"gap_seconds": N}, "data": [count, ...]}`.

    SkyPilot's folders `availability/` have probes, `preemption/` held nodes; the path
    decides, and with neither name in it they count as probes.
    """
    try:
        gap_s, counts = float(value["metadata"]["gap_seconds"]), list(value["data"])
    except (KeyError, TypeError, ValueError, OverflowError):
        text = "neither metadata.gap_seconds nor data as SkyPilot has"
        raise TraceError(name, 1, text, KNOWN) from None
    if not 0 < gap_s < math.inf or not counts:
        hint = "It is the time between two counts, in seconds."
        raise TraceError(name, 1, "gap_seconds must be above 0 and data not empty", hint)
    rows = [(n * gap_s, _check_count(name, 1, count)) for n, count in enumerate(counts)]
    kind: Kind = "held" if "preemption" in name.lower() else "probes"
    return build_trace(name, rows, format_="SkyPilot", kind=kind, span_s=gap_s * len(rows))


_Event: TypeAlias = tuple[float, int, str, list[str]]  # seconds, line, what, nodes
_Timed = TypeVar("_Timed", tuple[float, int], _Event)


def _build_event_trace(
    name: str, rows: list[_Event], format_: str, *, span_s: float | None = None
) -> Trace:
    rows, repairs = _sort_rows(rows)
    live: set[str] = set()
    counts: dict[float, int] = {}
    for at_s, number, event_kind, nodes in rows:
        if at_s < 0:
            text = f"a time of {at_s:g} s lies before the beginning"
            raise TraceError(name, number, text, "Times count from 0.")
        for node in nodes:
            if event_kind == "remove" and node not in live:
                hint = (
                    "Add it in a row before, at 0 if it was there from the beginning; or say how "
                    "many nodes there were: --trace-held N."
                )
                raise TraceError(name, number, f"{node} is removed and was never added", hint)
            if event_kind == "add" and node in live:
                hint = "Delete the row, or put its removal before it."
                raise TraceError(name, number, f"{node} is added and was there already", hint)
            (live.add if event_kind == "add" else live.discard)(node)
        counts[at_s] = len(live)
    trace = _build_count_trace(name, [*counts.items()], format_, repairs=repairs, span_s=span_s)
    events = [(at_s, event_kind, nodes) for at_s, _, event_kind, nodes in rows]
    return replace(trace, lives=find_lives(events, end_s=rows[0][0] + trace.span_s))


def _build_count_trace(
    name: str,
    counts: list[tuple[float, int]],
    format_: str,
    *,
    repairs: Sequence[str] = (),
    span_s: float | None = None,
) -> Trace:
    rows, sort_notes = _sort_rows(counts)
    repairs = [*repairs, *sort_notes]
    repeated_count = sum(b[0] == a[0] for a, b in pairwise(rows))
    if repeated_count:
        repairs.append(
            f"{plural(repeated_count, 'row')} of the same moment as the one before: the last one "
            "counts"
        )
        rows = list(dict(rows).items())
    if not any(up for _, up in rows):
        raise TraceError(name, 1, "no node is ever up in it", "A trace needs nodes that were held.")
    gaps = _find_gaps(rows) if format_ == "count series" else {}
    if gaps:
        repairs.append(
            f"{plural(len(gaps), 'gap')} of more than {GAP_FACTOR} times the usual distance "
            f"between rows, {sum(gaps.values()) / 3600:.1f} of "
            f"{(rows[-1][0] - rows[0][0]) / 3600:.1f} h: what happened there is not known, and "
            "neither that time nor a change across it counts"
        )
    trace = build_trace(name, rows, format_=format_, kind="held", span_s=span_s, gaps=gaps)
    return replace(trace, repairs=tuple(repairs))


def _sort_rows(rows: list[_Timed]) -> tuple[list[_Timed], list[str]]:
    """Return rows in the order of their times, and a note if they were not."""
    misplaced_count = sum(b[0] < a[0] for a, b in pairwise(rows))
    notes = (
        [f"{plural(misplaced_count, 'row')} out of order, and sorted"] if misplaced_count else []
    )
    return sorted(rows, key=lambda row: row[0]), notes


def _find_gaps(counts: list[tuple[float, int]]) -> dict[int, float]:
    """Return the rows that come much later after the one before than is usual, and how much."""
    distances_s = [b[0] - a[0] for a, b in pairwise(counts)]
    median_s = sorted(distances_s)[len(distances_s) // 2] if distances_s else 0.0
    return {
        n: distance_s
        for n, distance_s in enumerate(distances_s, 1)
        if median_s and distance_s > GAP_FACTOR * median_s
    }


def _check_count(name: str, line: int, count: object) -> int:
    if not isinstance(count, int) or isinstance(count, bool):
        problem = f"a number of nodes must be whole, got {count!r}"
        hint = "Round it, or delete the row."
    elif count < 0:
        problem = f"a number of nodes cannot be negative, got {count}"
        hint = "Mend or delete the row."
    elif count > COUNT_MAX:
        problem, hint = f"{count} nodes at once", "Is that a time in the wrong column?"
    else:
        return count
    raise TraceError(name, line, problem, hint)


TRACE_BYTES = 8 << 20  # a count for every minute of five years, and more events than any market has
TABLE_BYTES = 64 << 20  # the table of all regions and types is smaller
# Five years: the times of a longer trace are in another unit.
SPAN_MAX_S = 5 * 365.25 * 86_400
SPAN_SHORT_S = 300.0
MONTH_H = 730.0
_MONTHLY_MOST = (0.05, 0.10, 0.15, 0.20, 0.50)  # interruptions of a node, by the table's `r`


def load_trace(path: Path, held_nodes: int | None = None, unit: Unit | None = None) -> Trace:
    """Read a trace, or a platform's log of so many nodes.

    `unit` is that of plain times in columns. Raises `UsageError` with what was expected.
    """
    text, name = load_text(path, "trace", max_bytes=TRACE_BYTES, hint=KNOWN), str(path)
    lines = text.splitlines()
    first = next((line for _, line in number_lines(lines)), "")
    if not first:
        raise TraceError(name, 1, "the trace is empty", KNOWN)
    if parse_lives(name, lines, unit) is not None:
        problem = "a list of lives does not say when nodes were lost"
        raise UsageError(problem, "chaos preflight --trace fits a market to it.", location=name)
    log = parse_log(name, text) or parse_losses(name, lines, unit, has_held=held_nodes is not None)
    if log is not None:
        return _check_span(log.convert_to_trace(held_nodes), last_line=len(lines))
    trace = (
        _parse_json(name, text) if first.startswith("{") else _parse_lines(name, lines, first, unit)
    )
    if held_nodes is not None:
        problem = "how many nodes were held stands in a trace of this format"
        raise UsageError(problem, "Leave --trace-held out.", location=name)
    return trace


_EVENTS_TABLE = re.compile(r"(?:NAMESPACE\s+)?LAST SEEN\s+TYPE\s+REASON\b")


def load_lives(path: Path, unit: Unit | None = None) -> tuple[NodeLife, ...] | None:
    """Return the lives in a list of them; None for a file of another kind."""
    text = load_text(path, "trace", max_bytes=TRACE_BYTES, hint=KNOWN)
    return parse_lives(str(path), text.splitlines(), unit)


def _parse_lines(name: str, lines: Sequence[str], first: str, unit: Unit | None) -> Trace:
    if first.startswith("["):
        trace = parse_parcae(name, lines)
    elif is_table(first):
        try:
            trace = parse_table(name, lines, unit)
        except TraceError as error:
            if error.hint:
                raise
            raise UsageError(error.problem, KNOWN, location=error.location) from None
    elif any(re.match(r"\s*JobID\s", line) for line in lines):
        problem = "this is a table of sacct with padded columns"
        hint = "Write it with bars: sacct -D -P -o JobID,State,Start,End,NNodes."
        raise TraceError(name, 1, problem, hint)
    elif _EVENTS_TABLE.match(first):
        problem = "this is a table of kubectl's events, without their times"
        raise TraceError(name, 1, problem, "Write it as JSON: kubectl get events -A -o json.")
    else:
        problem = f"no known format of a trace begins with {first[:40]!r}"
        raise TraceError(name, 1, problem, KNOWN)
    if len(trace.changes) < 2:  # noqa: PLR2004
        problem = "nothing ever changes in it, so no loss can be learnt"
        raise TraceError(name, len(lines), problem, "Give a longer trace, or a --market by name.")
    return _check_span(trace, last_line=len(lines))


def _check_span(trace: Trace, *, last_line: int) -> Trace:
    """Return the trace, with a note if it is very short; refuse an impossible span."""
    if trace.span_s > SPAN_MAX_S:
        years = trace.span_s / (365.25 * 86_400)
        problem = f"the trace spans {years:.3g} years"
        hint = "Are its times in the right unit? Events are in milliseconds, gap_seconds in s."
        raise TraceError(trace.name, last_line, problem, hint)
    if trace.span_s >= SPAN_SHORT_S or trace.format not in ("Bamboo events", "Parcae"):
        return trace
    note = (
        f"the trace spans {trace.span_s:.3g} s only: if its times are seconds, they were read "
        "as milliseconds"
    )
    return replace(trace, repairs=(*trace.repairs, note))


def _parse_json(name: str, text: str) -> Trace:
    try:
        value = json.loads(text)
    except RecursionError:
        raise TraceError(name, 1, "this JSON is nested too deeply", KNOWN) from None
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise TraceError(name, line, f"this is not JSON: {error}", KNOWN) from None
    if "spot_advisor" in value:
        hint = "Give it with --advisor FILE:REGION:TYPE."
        raise TraceError(name, 1, "this is AWS Spot Advisor's table, not a trace", hint)
    if "data" not in value:
        raise TraceError(name, 1, "this JSON is no trace that chaos knows", KNOWN)
    return _check_span(parse_skypilot(name, value), last_line=1)


def load_advisor(path: Path, region: str, type_: str) -> tuple[float, float]:
    """Return hours per interruption of a node, and the saving, by AWS Spot Advisor's JSON.

    The hours are those of a constant hazard, at the worse end of what the table says of a month.
    The user has fetched the file.
    """
    try:
        table = json.loads(load_text(path, "table", max_bytes=TABLE_BYTES))["spot_advisor"]
        row = table[region]["Linux"][type_]
        return MONTH_H / _MONTHLY_MOST[int(row["r"])], float(row["s"]) / 100
    except (ValueError, TypeError, IndexError, RecursionError) as error:
        raise UsageError(f"not a Spot Advisor table: {error}", location=str(path)) from None
    except KeyError as error:
        problem = f"the table has no {error.args[0]}"
        hint = "Give region and type as they stand in it."
        raise UsageError(problem, hint, location=str(path)) from None
