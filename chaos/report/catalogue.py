"""The lists of faults, places and checks, read from the records and checks themselves."""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, get_args

from rich.table import Table
from rich.text import Text

from chaos.check.judge import CHECKS, NO_OTHERS, Check
from chaos.check.others import Others
from chaos.model.fault_entry import FAULTS, REGISTERED
from chaos.model.trigger import MOMENTS, STAGES, AtMoment, AtRecovery, AtStart, AtState, AtTime
from chaos.record import Record

Topic: TypeAlias = Literal["faults", "places", "checks"]
Rows: TypeAlias = list[tuple[str, str]]
NAME_MAX = 30
TOPICS: tuple[Topic, ...] = get_args(Topic)

# "`name`: its text." up to the next name
_TOLD = re.compile(r"`(\w+)`: (.*?)(?=`\w+`: |$)")


def catalogue(topic: Topic, others: Others = NO_OTHERS) -> Table:
    """Return names and descriptions, 80 columns wide; `others`: checks of other packages.

    An entry of another package is followed by that package's name.
    """
    rows: dict[Topic, Callable[[], Rows]] = {
        "faults": fault_rows,
        "places": place_rows,
        "checks": lambda: check_rows(others),
    }
    return table_of(topic.removesuffix("s"), rows[topic]())


def table_of(head: str, rows: Sequence[tuple[str, str]]) -> Table:
    """Return a table of names and descriptions; a long name is folded."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(head, no_wrap=all(len(name) <= NAME_MAX for name, _ in rows), overflow="fold")
    table.add_column("what it is", overflow="fold", ratio=1)
    for name, what in rows:
        table.add_row(Text(name), Text(what))
    return table


def fault_rows() -> Rows:
    """Return every fault with its effect, and its settings with their defaults."""
    packages = REGISTERED.packages
    return [(f, _of(_with_settings(FAULTS[f]), packages.get(f))) for f in FAULTS]


def place_rows() -> Rows:
    """Return every kind of trigger, as it is written in a scenario."""
    steps = "{epoch: 2, step: 5}", "after optimizer step 5 of epoch 2, on a rank"
    moments, stages = _told(AtMoment), _told(AtRecovery)
    others = (
        ("starting: 1", AtStart),
        ("state: RUNNING", AtState),
        ("seconds: 2.5", AtTime),
    )
    return [
        steps,
        *((f"moment: {moment}", moments[moment]) for moment in MOMENTS),
        ("recovering_from: 0", _paragraph(inspect.getdoc(AtRecovery) or "", 0)),
        *((f"… stage: {stage}", stages[stage]) for stage in STAGES),
        *((written, _paragraph(inspect.getdoc(kind) or "", 0)) for written, kind in others),
    ]


def _told(kind: type[Record]) -> dict[str, str]:
    """Return the text on each name in a record's second paragraph."""
    text = _paragraph(inspect.getdoc(kind) or "", 1)
    return {name: what.strip(" .") for name, what in _TOLD.findall(text)}


def check_rows(others: Others = NO_OTHERS) -> Rows:
    """Return every check with the question that it asks; chaos's own in the order of the report."""
    return [
        (check.NAME, _of(_paragraph(inspect.getdoc(check) or "", 0), package))
        for check, package in _checks(others)
    ]


def names(others: Others = NO_OTHERS) -> list[str]:
    """Return every fault and every check."""
    return [*FAULTS, *(check.NAME for check, _ in _checks(others))]


def explained(name: str, others: Others = NO_OTHERS) -> str | None:
    """Return the long text of a fault or a check, None if there is neither."""
    if name in FAULTS:
        return _fault_explained(name)
    found = next((each for each in _checks(others) if name == each[0].NAME), None)
    if found is None:
        return None
    check, package = found
    asks, promises = inspect.getdoc(check), inspect.getdoc(check.check)
    head = _of(f"check {name}", package)
    return f"{head}\n\n{_unwrapped(asks)}\n\n{_unwrapped(promises)}\n"


def _checks(others: Others) -> list[tuple[Check, str | None]]:
    return [
        *((check, None) for check in CHECKS),
        *((other.what, other.package) for other in others.installed),
    ]


def _of(text: str, package: str | None) -> str:
    """Return a text with the name of its package, if that is not chaos."""
    return text if package is None else f"{text} ({package})"


def _fault_explained(name: str) -> str:
    record = FAULTS[name]
    head = _of(f"fault {name}", REGISTERED.packages.get(name))
    lines = [head, "", _unwrapped(inspect.getdoc(record))]
    if record.model_fields:
        lines += ["", "settings:"]
    for setting, field in record.model_fields.items():
        value = "needed" if field.is_required() else f"{_default(field.default)} unless given"
        lines.append(f"  {setting}: {value}{f'; {field.description}' if field.description else ''}")
    needed = [s for s, field in record.model_fields.items() if field.is_required()]
    example = ", ".join(f"{setting}: …" for setting in needed)
    where = "{epoch: 2, step: 5, rank: 1}"
    return "\n".join([*lines, "", "faults:", f"  - at: {where}", f"    {name}: {{{example}}}", ""])


def _with_settings(record: type[Record]) -> str:
    settings = ", ".join(
        f"{name}: {'…' if field.is_required() else _default(field.default)}"
        for name, field in record.model_fields.items()
        if field.is_required() or field.default is not None
    )
    what = _paragraph(inspect.getdoc(record) or "", 0)
    return f"{what} {{{settings}}}" if settings else what


def _default(value: Any) -> str:  # noqa: ANN401 - any field's default
    if isinstance(value, bool):
        return str(value).lower()
    return "[]" if value == () else f"{value:g}" if isinstance(value, float) else str(value)


def _unwrapped(text: str | None) -> str:
    """Return paragraphs without the line breaks of the code."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (text or "").split("\n\n"))


def _paragraph(text: str, number: int) -> str:
    paragraphs = text.split("\n\n")
    return " ".join(paragraphs[number].split()) if number < len(paragraphs) else ""
