"""Tables of losses: a row for each lost node, or for each time at which some were lost.

They do not say how many nodes there were, so each is read as a platform's log is: `--trace-held`.
What a column has is known by its heading, such as `preemption_time`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from chaos.extensions.preflight.event_logs import EventLog, NodeEvent, build_event_log
from chaos.extensions.preflight.trace_columns import (
    EVENTS,
    HeadedTable,
    TraceError,
    TraceRow,
    Unit,
    find_cell_kind,
    is_table,
    number_lines,
    parse_headed_table,
    parse_rows,
)

_LOSS_HEAD = re.compile(
    r"(?i)preempt(?!ibl)|interrupt(?!ibl)|evict|reclaim(?!abl)|terminat"
    r"|(?<![a-z])(?:lost|loss(?:es)?)(?![a-z])"
)
_TIME_HEAD = re.compile(r"(?i)time|date|stamp|(?<![a-z])at(?![a-z])")
_NODE_HEAD = re.compile(r"(?i)node|instance|host|machine|\bvm|\bid\b|_id\b")
TABLE = "a table of losses"


def parse_losses(
    name: str, lines: Sequence[str], unit: Unit | None, *, has_held: bool
) -> EventLog | None:
    """Return the losses of a table; None for a table of another kind.

    `has_held` says that the number of nodes is known, so that nodes may be lost that never came.
    """
    table = parse_headed_table(lines)
    if table is not None and table.time is not None:
        table = replace(table, time=_find_loss_times(table))
    if table is not None and table.time is not None:
        log = _parse_loss_columns(name, table, unit)
        if log is not None:
            return log
    return _parse_removals(name, lines, unit, has_held=has_held)


def _find_loss_times(table: HeadedTable) -> tuple[int, ...] | None:
    """Return the columns of a table's times: of several, those of losses, and none of nodes."""
    assert table.time is not None
    first, kind = table.rows[0][1], find_cell_kind(table.rows[0][1][table.time[0]])
    if kind == "date":
        return table.time
    candidates = [n for n in range(table.width) if find_cell_kind(first[n]) == kind]
    losses = [
        n
        for n in candidates
        if _LOSS_HEAD.search(table.heads[n])
        and (kind == "moment" or _TIME_HEAD.search(table.heads[n]))
    ]
    other_columns = [
        n for n in candidates if kind == "moment" or not _NODE_HEAD.search(table.heads[n])
    ]
    column = next(iter([*losses, *other_columns]), None)
    return None if column is None else (column,)


def _parse_loss_columns(name: str, table: HeadedTable, unit: Unit | None) -> EventLog | None:
    assert table.time is not None
    other_columns = [column for column in range(table.width) if column not in table.time]
    first = table.rows[0][1]
    if any(first[column].lower() in EVENTS for column in other_columns):
        return None
    numbers = [column for column in other_columns if find_cell_kind(first[column]) == "number"]
    counted = [column for column in numbers if _LOSS_HEAD.search(table.heads[column])]
    if any(_LOSS_HEAD.search(table.heads[column]) for column in table.time):
        nodes = [column for column in other_columns if _NODE_HEAD.search(table.heads[column])]
        events = _list_rows(name, table, unit, nodes[0] if nodes else None)
        return build_event_log(name, TABLE, [*events])
    if len(numbers) == 1 and counted:
        return _parse_counted_losses(name, table, unit, counted[0])
    if table.width == len(table.time) and find_cell_kind(first[table.time[0]]) == "moment":
        problem = f"a column of dates, named `{table.heads[0]}`, which does not say of what"
        hint = "Name it for what happened then, such as preemption_time."
        raise TraceError(name, table.rows[0][0], problem, hint)
    return None


def _list_rows(
    name: str, table: HeadedTable, unit: Unit | None, node_column: int | None
) -> Iterator[NodeEvent]:
    for line, cells in table.rows:
        node = f"row {line}" if node_column is None else cells[node_column]
        yield NodeEvent(table.parse_time_s(name, (line, cells), unit), "lost", node)


def _parse_counted_losses(
    name: str, table: HeadedTable, unit: Unit | None, column: int
) -> EventLog:
    events, times_s = list[NodeEvent](), list[float]()
    for line, cells in table.rows:
        at_s, text = table.parse_time_s(name, (line, cells), unit), cells[column]
        if not re.fullmatch(r"\d{1,6}", text):
            problem = f"a number of lost nodes must be whole, got {text}"
            raise TraceError(name, line, problem, "Mend or delete the row.")
        times_s.append(at_s)
        events += [NodeEvent(at_s, "lost", f"row {line}, {node}") for node in range(int(text))]
    if not events:
        problem = "no node is lost in it, so no loss can be learnt"
        raise TraceError(name, table.rows[-1][0], problem, "Give a longer table.")
    return build_event_log(name, TABLE, events, watched_s=(min(times_s), max(times_s)))


def _parse_removals(
    name: str, lines: Sequence[str], unit: Unit | None, *, has_held: bool
) -> EventLog | None:
    """Return the events of a table that loses nodes which never came in it."""
    if not is_table(next((line for _, line in number_lines(lines)), "")):
        return None
    try:
        columns, rows = parse_rows(name, lines, unit)
    except TraceError:
        return None  # the reader of all tables says what is wrong
    if columns.count is not None or not _has_unknown_nodes(rows):
        return None
    if not has_held and any(row.event == "add" for row in rows):
        return None
    events = [
        NodeEvent(row.at_s, "lost" if row.event == "remove" else "came", row.node) for row in rows
    ]
    return build_event_log(name, TABLE, events)


def _has_unknown_nodes(rows: Sequence[TraceRow]) -> bool:
    """Return whether a node is lost before it came."""
    present: set[str] = set()
    for row in sorted(rows, key=lambda row: row.at_s):
        if row.event == "add":
            present.add(row.node)
        elif row.node not in present:
            return True
        else:
            present.discard(row.node)
    return False
