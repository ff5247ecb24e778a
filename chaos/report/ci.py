"""Results for machines: JUnit XML, GitHub's annotations, and figures as JSON."""

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Literal, NamedTuple, TypeAlias
from xml.etree import ElementTree as ET

from chaos.check.goodput import get_ledger
from chaos.model.summary import RunSummary
from chaos.model.verdict import JobLine, Standing, Verdict
from chaos.report import page
from chaos.report.outcome import STANDINGS, FinishedRun, SuiteRow, build_suite_row
from chaos.report.screen import escape_controls
from chaos.report.sections import build_replay_command, build_sections, list_next_steps
from chaos.run.display_path import format_portable_path

# The characters of XML 1.0; any other would make the whole file unreadable.
_FOREIGN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(
    rows: Sequence[SuiteRow],
    *,
    name: str = "chaos",
    start_time: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> str:
    """Return one test case per scenario, or one for each repeat of it, numbered.

    A scenario with another verdict than expected is a failure. One that is
    inconclusive, or wrong itself, is an error. One whose job needs a package that
    is not installed is skipped.
    """
    standings = [row.standing for row in rows]
    suite = ET.Element(
        "testsuite",
        name=_clean(name),
        tests=str(len(rows)),
        failures=str(standings.count("unexpected")),
        errors=str(standings.count("undecided") + standings.count("not_run")),
        skipped=str(standings.count("skipped")),
        time=f"{sum(row.duration_s for row in rows):.3f}",
    )
    if start_time is not None:
        suite.set("timestamp", start_time)
    if properties:
        _add_properties(suite, properties)
    for row in rows:
        suite.append(_build_case(row))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _build_case(row: SuiteRow) -> ET.Element:
    file = _clean(format_portable_path(row.file))
    case = ET.Element(
        "testcase",
        classname=file,
        name=_clean(row.scenario if row.repeat is None else f"{row.scenario} [{row.repeat}]"),
        file=file,
        time=f"{row.duration_s:.3f}",
    )
    _add_properties(case, collect_properties(row))
    if (tag := _TAGS[row.standing]) is not None:
        first_line = row.headline.strip().split("\n", maxsplit=1)[0]
        element = ET.SubElement(
            case, tag, type=_clean(find_failure_type(row)), message=_clean(first_line)
        )
        element.text = _clean(_describe_reason(row, row.verdict) if row.verdict else row.headline)
    if row.verdict is not None:
        checks = (
            f"{result.status:8} {result.check}: {result.summary}" for result in row.verdict.results
        )
        ET.SubElement(case, "system-out").text = _clean("\n".join(checks))
    return case


def _add_properties(element: ET.Element, properties: Mapping[str, str]) -> None:
    property_elements = ET.SubElement(element, "properties")
    for key, value in properties.items():
        ET.SubElement(property_elements, "property", name=_clean(key), value=_clean(value))


_TAGS: Mapping[Standing, str | None] = {
    "expected": None,
    "unexpected": "failure",
    "undecided": "error",
    "not_run": "error",
    "skipped": "skipped",
}


def collect_properties(row: SuiteRow) -> dict[str, str]:
    """Return the properties of a test case beside its verdict, as far as they are known."""
    values = {
        "verdict": row.status,
        "expectation": row.verdict.expectation if row.verdict else None,
        "seed": row.seed,
        "attempts": row.attempts,
        "resumes": row.verdict.restarts.resumed if row.verdict else None,
        "restarts_from_scratch": row.verdict.restarts.from_scratch if row.verdict else None,
        "lost_steps": row.lost_steps,
        "recovery_s": None if row.recovery_s is None else f"{row.recovery_s:.3f}",
        "goodput": None if row.goodput is None else f"{row.goodput:.3f}",
        "backend": row.backend,
        "run_directory": row.directory,
        **{f"version.{key}": value for key, value in row.versions.items()},
    }
    return {key: _clean(str(value)) for key, value in values.items() if value is not None}


def find_failure_type(row: SuiteRow) -> str:
    """Return the kind of the first finding of a row that failed; else its status, or what it is.

    What is broken in an inconclusive run is no finding.
    """
    verdict = row.verdict
    broken_results = verdict.broken if verdict is not None and verdict.status == "fail" else ()
    kinds = (anomaly.kind for result in broken_results for anomaly in result.anomalies)
    return next(kinds, "") or row.status or STANDINGS[row.standing].word


def _describe_reason(row: SuiteRow, verdict: Verdict) -> str:
    lines = [verdict.headline, verdict.expectation]
    for section in build_sections(verdict):
        lines += [section.title] if section.title else []
        for line in section.lines:
            events = f" [{line.events}]" if line.events else ""
            lines.append(f"{'  ' if section.title else ''}{line.label}: {line.text}{events}")
    if row.directory:
        lines += [f"{name}: {value}" for name, value in list_next_steps(row.directory, verdict)]
    return "\n".join(lines)


def _clean(text: str) -> str:
    return _FOREIGN.sub("", escape_controls(text))


SHOWN = 10  # GitHub shows no more errors of one step, and no more notices
Level: TypeAlias = Literal["error", "notice"]


class AnnotatedLine(NamedTuple):
    """A place that GitHub shows: a file from the repository's root, and the line."""

    file: str
    line: int


def build_annotations(
    rows: Sequence[SuiteRow], source_locations: Sequence[AnnotatedLine]
) -> Iterator[str]:
    """Yield GitHub's workflow commands: errors, and a notice for each skipped scenario.

    If there are too many of a kind, the last one counts the rest.
    """
    located_rows = list(zip(rows, source_locations, strict=True))
    unexpected_rows = [
        pair for pair in located_rows if pair[0].standing not in ("expected", "skipped")
    ]
    yield from _build_commands("error", unexpected_rows, count_phrase="are not as expected")
    skipped_rows = [pair for pair in located_rows if pair[0].standing == "skipped"]
    yield from _build_commands("notice", skipped_rows, count_phrase="were skipped")


def _build_commands(
    level: Level, located_rows: Sequence[tuple[SuiteRow, AnnotatedLine]], *, count_phrase: str
) -> Iterator[str]:
    shown_rows = located_rows if len(located_rows) <= SHOWN else located_rows[: SHOWN - 1]
    for row, source_location in shown_rows:
        replay_text = f"\n{build_replay_command(row.directory)}" if row.directory else ""
        lines = () if row.verdict is None else row.verdict.lines
        yield format_command(
            level,
            find_code_line(lines) or source_location,
            f"{find_failure_type(row)}: {row.scenario}",
            row.headline + replay_text,
        )
    if len(shown_rows) < len(located_rows):
        _, source_location = located_rows[SHOWN - 1]
        title = f"{len(located_rows) - len(shown_rows)} more scenarios {count_phrase}"
        yield format_command(
            level, source_location, title, "They are in the report and in the step's summary."
        )


def find_code_line(lines: Sequence[JobLine]) -> AnnotatedLine | None:
    """Return the line of the job to show a finding at: what saves, else what reads, or made it."""
    by_role = {line.role: line for line in reversed(lines)}
    line = next((by_role[role] for role in ("saved", "read", "made") if role in by_role), None)
    return None if line is None else AnnotatedLine(format_portable_path(line.file), line.line)


def format_command(level: Level, source_location: AnnotatedLine, title: str, message: str) -> str:
    """Return a workflow command."""
    properties_text = (
        f"file={_escape_property(source_location.file)},line={source_location.line},"
        f"title={_escape_property(title)}"
    )
    return f"::{level} {properties_text}::{_escape_message(message)}"


def _escape_message(text: str) -> str:
    return escape_controls(text.replace("\r", "\n")).replace("%", "%25").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_message(text).replace(":", "%3A").replace(",", "%2C")


def build_summary(row: SuiteRow, *, folder: str | None = None) -> RunSummary:
    """Return a row in figures; its directory is relative to `folder`, if it is below it."""
    summary = RunSummary.model_validate(row, from_attributes=True)
    paths = {"file": format_portable_path(row.file)}
    if row.directory is not None and folder is not None:
        paths["directory"] = posixpath.relpath(row.directory, folder)
    return summary.model_copy(update=paths)


def render_json(run: FinishedRun) -> str:
    """Return one run: its figures, verdict, faults, and its time by attempt and phase."""
    time_ledger = get_ledger(run.analysis)
    row = replace(build_suite_row(run), directory=format_portable_path(run.directory))
    document = {
        "summary": build_summary(row).model_dump(mode="json"),
        "verdict": run.verdict.model_dump(mode="json"),
        "ops": [asdict(op) for op in page.build_op_rows(run)],
        "goodput": {
            "wall_s": time_ledger.wall_ns / 1e9,
            "productive": time_ledger.goodput,
            "phases_s": time_ledger.sum_seconds(),
            "by_attempt": {
                attempt: time_ledger.sum_seconds(attempt=attempt)
                for attempt in time_ledger.attempts
            },
        },
        "replay": build_replay_command(run.directory),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
