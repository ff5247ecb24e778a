"""Traces in columns, which are known by what stands in them: times, and counts or events of nodes.

Bamboo's `milliseconds,add,node` and `date, time, count` are two of them. A row of headings is
passed over, and names the unit of plain times; columns are parted by commas, semicolons, tabs, bars
or blanks.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from chaos.errors import UsageError

Unit: TypeAlias = Literal["ms", "s", "min", "h"]
UNITS: Mapping[Unit, float] = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_EPOCH_S, _EPOCH_MS = 1e9, 1e11  # numbers above them are times since 1970
_LOST = ("remove", "removed", "lost", "loss", "preempt", "preempted", "preemption", "terminated")
_CAME = ("add", "added", "came", "join", "joined", "launch", "launched", "running", "started")
EVENTS: Mapping[str, str] = {**dict.fromkeys(_LOST, "remove"), **dict.fromkeys(_CAME, "add")}
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_CLOCK = re.compile(r"\d\d:\d\d(?::\d\d(?:\.\d+)?)?")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d\S*")
_SIGN = re.compile(r"[,;\t|]")
_NUMBER = re.compile(r"-?\d{1,30}(?:\.\d{1,30})?(?:[eE][-+]?\d{1,3})?")
_HEADS: Mapping[Unit, str] = {
    "ms": r"(?i)\bms\b|_ms|milli",
    "h": r"(?i)\bh\b|_h\b|hours?",
    "min": r"(?i)\bmin|_min",
    "s": r"(?i)\bs\b|_s\b|sec",
}


class TraceError(UsageError):
    """A trace is wrong at a line."""

    def __init__(self, name: str, line: int, problem: str, hint: str = "") -> None:
        super().__init__(problem, hint, location=f"{name}:{line}")


@dataclass(frozen=True)
class TraceRow:
    """A row of a trace: its line, its time, and a count or an event of a node."""

    line: int
    at_s: float
    count: int | None = None
    event: str = ""
    node: str = ""


@dataclass(frozen=True)
class TraceColumns:
    """The places of a table's columns."""

    part: re.Pattern[str]
    width: int
    #: one column, or a date and a clock
    time: tuple[int, ...]
    unit_s: float
    #: of plain times that count from the beginning, and no dates
    is_plain: bool
    count: int | None = None
    event: int | None = None
    node: int | None = None
    #: the unit of plain times is not said, and Bamboo's is taken
    is_assumed: bool = False

    @property
    def form(self) -> str:
        """The form of a row, in words."""
        times = {1: "time", 2: "date, time"}[len(self.time)]
        if self.is_plain and self.unit_s == UNITS["ms"]:
            times = "milliseconds"
        return f"{times}, count" if self.event is None else f"{times},add|remove,node"


@dataclass(frozen=True)
class HeadedTable:
    """The cells of a table below its headings, each row with its line."""

    heads: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]
    #: the columns of times; None if there is none
    time: tuple[int, ...] | None

    @property
    def width(self) -> int:
        return len(self.heads)

    def parse_time_s(self, name: str, row: tuple[int, tuple[str, ...]], unit: Unit | None) -> float:
        """Return the time of a row in seconds; raises `TraceError` if there is no such time."""
        assert self.time is not None
        line, cells = row
        moment = " ".join(cells[column] for column in self.time)
        kind, head = find_cell_kind(cells[self.time[0]]), self.heads[self.time[0]]
        try:
            stated_unit = unit or parse_heading_unit(head)
            unit_s, _ = _find_unit(name, moment, kind, stated_unit, is_event=False)
            return _parse_moment_s(moment, unit_s)
        except ValueError:
            hint = "Mend or delete the row."
            raise TraceError(name, line, f"there is no such moment: {moment}", hint) from None


def parse_headed_table(lines: Sequence[str]) -> HeadedTable | None:
    """Return a table with headings and as many cells in each row; None for any other text."""
    numbered_lines = [*number_lines(lines)]
    if len(numbered_lines) < 2 or re.search(r"[\d{\[]", numbered_lines[0][1]):  # noqa: PLR2004
        return None
    (_, head), *row_lines = numbered_lines
    sign = next((sign for sign in ",;\t|" if sign in head), "")
    part = re.compile(rf"\s*{re.escape(sign)}\s*") if sign else re.compile(r"(?!)")
    heads = tuple(part.split(head))
    rows = tuple((line, tuple(part.split(text))) for line, text in row_lines)
    if any(len(cells) != len(heads) for _, cells in rows):
        return None
    return HeadedTable(heads, rows, _find_time_columns([find_cell_kind(c) for c in rows[0][1]]))


def parse_rows(
    name: str, lines: Sequence[str], unit: Unit | None = None
) -> tuple[TraceColumns, list[TraceRow]]:
    """Return the columns of a trace, and its rows.

    Raises `TraceError` at the first row that does not fit them, and `UsageError` if the unit of its
    times is not known.
    """
    numbered_lines = [*number_lines(lines)]
    head = ""
    if numbered_lines and not re.search(r"\d", _SIGN.split(numbered_lines[0][1])[0]):
        head, numbered_lines = numbered_lines[0][1], numbered_lines[1:]
    if not numbered_lines:
        raise TraceError(name, 1, "there is no row below the headings")
    columns = _find_columns(name, numbered_lines[0], head, unit)
    return columns, [_parse_row(name, columns, *numbered_line) for numbered_line in numbered_lines]


def _find_columns(name: str, first: tuple[int, str], head: str, unit: Unit | None) -> TraceColumns:
    line, text = first
    sign = next((sign for sign in ",;\t|" if sign in text), " ")
    part = re.compile(r"\s+" if sign == " " else rf"\s*{re.escape(sign)}\s*")
    if sign == " " and _MOMENT.match(text):
        part = re.compile(r"(?<!\d{4}-\d\d-\d\d)\s+")
    cells = part.split(text)
    kinds = [find_cell_kind(cell) for cell in cells]
    time = _find_time_columns(kinds)
    if time is None:
        raise TraceError(name, line, f"no column of times is in `{text[:60]}`")
    other_columns = [column for column in range(len(cells)) if column not in time]
    event = next((column for column in other_columns if cells[column].lower() in EVENTS), None)
    count_columns = [
        column
        for column in other_columns
        if kinds[column] == "number" and cells[column].lstrip("-").isdigit()
    ]
    node = next((p for p in other_columns if p != event and kinds[p] == "text"), None)
    if event is not None and node is None:
        node = next((column for column in count_columns if column != event), None)
    heads = part.split(head)
    count_columns = [p for p in count_columns if p >= len(heads) or not _NO_COUNT.search(heads[p])]
    count = (
        count_columns[0]
        if event is None and len(count_columns) == 1
        else _find_count_column(heads, count_columns)
    )
    if (event is None or node is None) and count is None:
        text = f"neither a count of nodes nor add, remove and a node stand in `{text[:60]}`"
        raise TraceError(name, line, text)
    stated_unit, is_event = unit or _parse_unit(head), event is not None
    unit_s, is_plain = _find_unit(
        name, cells[time[0]], kinds[time[0]], stated_unit, is_event=is_event
    )
    return TraceColumns(
        part=part,
        width=len(cells),
        time=time,
        unit_s=unit_s,
        is_plain=is_plain,
        count=None if is_event else count,
        event=event,
        node=node,
        is_assumed=is_plain and stated_unit is None,
    )


def find_cell_kind(cell: str) -> str:
    """Return what stands in a cell: a moment, a date, a clock, a number, or a text."""
    for kind, form in (
        ("moment", _MOMENT),
        ("date", _DATE),
        ("clock", _CLOCK),
        ("number", _NUMBER),
    ):
        if form.fullmatch(cell):
            return kind
    return "text"


def _find_time_columns(kinds: Sequence[str]) -> tuple[int, ...] | None:
    if "moment" in kinds:
        return (kinds.index("moment"),)
    if "date" in kinds and "clock" in kinds:
        return kinds.index("date"), kinds.index("clock")
    return (kinds.index("number"),) if "number" in kinds else None


COUNTED = re.compile(r"(?i)count|nodes|instances|capacity|held|running|alive|\bup\b|\bn\b")
_NO_COUNT = re.compile(
    r"(?i)interrupt(?!ibl)|lost|loss|preempt(?!ibl)|util|price|cost|percent|%|temp|fail"
)


def _find_count_column(heads: Sequence[str], candidates: Sequence[int]) -> int | None:
    """Return the column of counts by its heading."""
    matches = [
        column for column in candidates if column < len(heads) and COUNTED.search(heads[column])
    ]
    return matches[0] if len(matches) == 1 else None


def parse_heading_unit(head: str) -> Unit | None:
    """Return the unit that the heading of a column says."""
    return next((unit for unit, pattern in _HEADS.items() if re.search(pattern, head)), None)


def _parse_unit(head: str) -> Unit | None:
    """Return the unit that a heading says of the first column."""
    return parse_heading_unit(_SIGN.split(head)[0])


def _find_unit(
    name: str, cell: str, kind: str, stated_unit: Unit | None, *, is_event: bool
) -> tuple[float, bool]:
    """Return the seconds of a time's unit, and whether times count from the beginning."""
    if kind != "number":
        return 1.0, False
    if float(cell) > _EPOCH_S:
        return (1e-3 if float(cell) > _EPOCH_MS else 1.0), False
    if stated_unit is None and is_event:
        stated_unit = "ms"  # Bamboo's
    if stated_unit is None:
        raise UsageError(
            f"the unit of its times is not known: {cell} may be of any",
            f"Say it: --trace-unit {', '.join(UNITS)}.",
            location=name,
        )
    return UNITS[stated_unit], True


def _parse_row(name: str, columns: TraceColumns, line: int, text: str) -> TraceRow:
    cells = columns.part.split(text)
    if len(cells) != columns.width:
        raise TraceError(name, line, f"not `{columns.form}`: {text[:60]}")
    moment = " ".join(cells[column] for column in columns.time)
    try:
        at_s = _parse_seconds(moment, columns)
    except ValueError:
        if find_cell_kind(cells[columns.time[0]]) in ("text", "clock"):
            raise TraceError(name, line, f"not `{columns.form}`: {text[:60]}") from None
        hint = "Mend or delete the row."
        raise TraceError(name, line, f"there is no such moment: {moment}", hint) from None
    if columns.count is not None:
        count = cells[columns.count]
        if not re.fullmatch(r"-?\d{1,30}", count):
            raise TraceError(name, line, f"not `{columns.form}`: {text[:60]}")
        return TraceRow(line, at_s, count=int(count))
    assert columns.event is not None
    assert columns.node is not None
    event = EVENTS.get(cells[columns.event].lower())
    if event is None:
        raise TraceError(name, line, f"not `{columns.form}`: {text[:60]}")
    return TraceRow(line, at_s, event=event, node=cells[columns.node])


def _parse_seconds(moment: str, columns: TraceColumns) -> float:
    return _parse_moment_s(moment, columns.unit_s)


def _parse_moment_s(moment: str, unit_s: float) -> float:
    if re.fullmatch(_NUMBER, moment):
        return float(moment) * unit_s
    time = datetime.fromisoformat(moment)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


_HEADINGS = re.compile(r"(?i)[^{\[\d]*(?:time|date|stamp|hour|sec|minute)[^{\[]*[,;\t|]")


def is_table(line: str) -> bool:
    """Return whether a line may be a row of a table, or its headings."""
    return bool(re.match(r"-?\d", line) or _HEADINGS.match(line))


def number_lines(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not empty, with their numbers."""
    return ((n, line.strip()) for n, line in enumerate(lines, 1) if line.strip())
