"""The lists of `chaos list`: faults, places, checks and findings, in one line each and in full."""

import inspect
import re
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

from rich.table import Column, Table
from rich.text import Text

from chaos.check.external_checks import ExternalChecks
from chaos.check.judge import CHECKS, NO_OTHERS, Check
from chaos.check.prose.registry import KindEntry, find_entry, list_entries
from chaos.model.fault_entry import FAULTS, REGISTERED
from chaos.model.trigger import MOMENTS, STAGES, AtMoment, AtRecovery, AtStart, AtState, AtTime
from chaos.record import Record
from chaos.report.screen import build_bare_table

Topic: TypeAlias = Literal["faults", "places", "checks", "findings"]
Rows: TypeAlias = list[tuple[str, str]]
NAME_MAX = 30
TOPICS: tuple[Topic, ...] = get_args(Topic)

# "`name`: its text." up to the next name
_NAME_TEXTS = re.compile(r"`(\w+)`: (.*?)(?=`\w+`: |$)")


def build_catalogue(topic: Topic, external_checks: ExternalChecks = NO_OTHERS) -> Table:
    """Return names and descriptions, 80 columns wide.

    `external_checks`: the checks of other packages. An entry of another package is followed by that
    package's name.
    """
    rows = {
        "faults": list_fault_rows(),
        "places": list_place_rows(),
        "checks": list_check_rows(external_checks),
        "findings": list_finding_rows(),
    }
    return build_description_table(topic.removesuffix("s"), rows[topic])


def build_description_table(head: str, rows: Sequence[tuple[str, str]]) -> Table:
    """Return a table of names and descriptions; a long name is folded."""
    is_short = all(len(name) <= NAME_MAX for name, _ in rows)
    name_column = Column(head, no_wrap=is_short, overflow="fold")
    table = build_bare_table(name_column, Column("what it is", overflow="fold", ratio=1))
    for name, description in rows:
        table.add_row(Text(name), Text(description))
    return table


def list_fault_rows() -> Rows:
    """Return every fault with its effect, and its settings with their defaults."""
    packages = REGISTERED.packages
    return [
        (
            fault_name,
            _add_package_name(_describe_fault(FAULTS[fault_name]), packages.get(fault_name)),
        )
        for fault_name in FAULTS
    ]


def list_place_rows() -> Rows:
    """Return every kind of trigger, as it is written in a scenario."""
    steps = "{epoch: 2, step: 5}", "after optimizer step 5 of epoch 2, on a rank"
    moments, stages = _parse_name_texts(AtMoment), _parse_name_texts(AtRecovery)
    return [
        steps,
        *((f"moment: {moment}", moments[moment]) for moment in MOMENTS),
        ("recovering_from: 0", _extract_paragraph(AtRecovery)),
        *((f"… stage: {stage}", stages[stage]) for stage in STAGES),
        ("starting: 1", _extract_paragraph(AtStart)),
        ("state: RUNNING", _extract_paragraph(AtState)),
        ("seconds: 2.5", _extract_paragraph(AtTime)),
    ]


def _parse_name_texts(kind: type[Record]) -> dict[str, str]:
    """Return the text on each name in a record's second paragraph."""
    text = _extract_paragraph(kind, 1)
    return {name: description.strip(" .") for name, description in _NAME_TEXTS.findall(text)}


def list_check_rows(external_checks: ExternalChecks = NO_OTHERS) -> Rows:
    """Return every check with the question that it asks; chaos's own in the order of the report."""
    return [
        (check.NAME, _add_package_name(_extract_paragraph(check), package))
        for check, package in _list_checks(external_checks)
    ]


def list_finding_rows() -> Rows:
    """Return every kind of finding with what it means."""
    return [(entry.kind, entry.meaning) for entry in list_entries()]


def list_names(external_checks: ExternalChecks = NO_OTHERS) -> list[str]:
    """Return every fault, every check and every kind of finding."""
    check_names = [check.NAME for check, _ in _list_checks(external_checks)]
    return [*FAULTS, *check_names, *(entry.kind for entry in list_entries())]


def explain_name(name: str, external_checks: ExternalChecks = NO_OTHERS) -> str | None:
    """Return the long text of a fault, a check or a kind of finding; None if there is none."""
    if name in FAULTS:
        return _explain_fault(name)
    if (entry := find_entry(name)) is not None:
        return _explain_finding(entry)
    check_entry = next(
        (pair for pair in _list_checks(external_checks) if name == pair[0].NAME), None
    )
    if check_entry is None:
        return None
    check, package = check_entry
    question, promise = inspect.getdoc(check), inspect.getdoc(check.check)
    head = _add_package_name(f"check {name}", package)
    return f"{head}\n\n{_unwrap_text(question)}\n\n{_unwrap_text(promise)}\n"


def _explain_finding(entry: KindEntry) -> str:
    return (
        f"finding {entry.kind}\n\n{entry.meaning}\n\n"
        f"found by: {entry.check}\n"
        f"usual cause: {entry.usual_cause}\n"
        f"what to do: {entry.remedy}\n"
    )


def _list_checks(external_checks: ExternalChecks) -> list[tuple[Check, str | None]]:
    external_pairs = [
        (extension.extension, extension.package) for extension in external_checks.installed
    ]
    return [*((check, None) for check in CHECKS), *external_pairs]


def _add_package_name(text: str, package: str | None) -> str:
    """Return a text with the name of its package, if that is not chaos."""
    return text if package is None else f"{text} ({package})"


def _explain_fault(name: str) -> str:
    record = FAULTS[name]
    head = _add_package_name(f"fault {name}", REGISTERED.packages.get(name))
    lines = [head, "", _unwrap_text(inspect.getdoc(record))]
    if record.model_fields:
        lines += ["", "settings:"]
    for setting, field in record.model_fields.items():
        value = (
            "needed" if field.is_required() else f"{_format_default(field.default)} unless given"
        )
        lines.append(f"  {setting}: {value}{f'; {field.description}' if field.description else ''}")
    required_settings = [
        name_of_setting
        for name_of_setting, field in record.model_fields.items()
        if field.is_required()
    ]
    example = ", ".join(f"{setting}: …" for setting in required_settings)
    example_place = "{epoch: 2, step: 5, rank: 1}"
    return "\n".join(
        [*lines, "", "faults:", f"  - at: {example_place}", f"    {name}: {{{example}}}", ""]
    )


def _describe_fault(record: type[Record]) -> str:
    settings = ", ".join(
        f"{name}: {'…' if field.is_required() else _format_default(field.default)}"
        for name, field in record.model_fields.items()
        if field.is_required() or field.default is not None
    )
    description = _extract_paragraph(record)
    return f"{description} {{{settings}}}" if settings else description


def _format_default(value: Any) -> str:  # noqa: ANN401 - any field's default
    if isinstance(value, bool):
        return str(value).lower()
    if value == ():
        return "[]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _unwrap_text(text: str | None) -> str:
    """Return paragraphs without the line breaks of the code."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (text or "").split("\n\n"))


def _extract_paragraph(subject: object, number: int = 0) -> str:
    """Return one paragraph of a docstring."""
    paragraphs = (inspect.getdoc(subject) or "").split("\n\n")
    return " ".join(paragraphs[number].split()) if number < len(paragraphs) else ""
