"""Results for machines: JUnit XML, GitHub's annotations, and figures as JSON."""

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Literal, NamedTuple, TypeAlias
from xml.etree import ElementTree as ET

from chaos.check.goodput import ledger_of
from chaos.model.summary import RunSummary
from chaos.model.verdict import JobLine, Standing, Verdict
from chaos.report import page
from chaos.report.outcome import STANDINGS, FinishedRun, SuiteRow, row_of
from chaos.report.screen import harmless
from chaos.report.sections import replay, sections, ways
from chaos.run.shown import for_others

# The characters of XML 1.0; any other would make the whole file unreadable.
_FOREIGN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(rows: Sequence[SuiteRow], *, name: str = "chaos", started: str | None = None) -> str:
    """Return one test case per scenario, or one for each repeat of it, numbered.

    A scenario with another verdict than expected is a failure. One that is
    inconclusive, or wrong itself, is an error. One whose job needs a package that
    is not installed is skipped.
    """
    kinds = [row.standing for row in rows]
    suite = ET.Element(
        "testsuite",
        name=_clean(name),
        tests=str(len(rows)),
        failures=str(kinds.count("unexpected")),
        errors=str(kinds.count("undecided") + kinds.count("not_run")),
        skipped=str(kinds.count("skipped")),
        time=f"{sum(row.duration_s for row in rows):.3f}",
    )
    if started is not None:
        suite.set("timestamp", started)
    for row in rows:
        suite.append(_case(row))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(row: SuiteRow) -> ET.Element:
    file = _clean(for_others(row.file))
    case = ET.Element(
        "testcase",
        classname=file,
        name=_clean(row.scenario if row.repeat is None else f"{row.scenario} [{row.repeat}]"),
        file=file,
        time=f"{row.duration_s:.3f}",
    )
    about = ET.SubElement(case, "properties")
    for key, value in properties(row).items():
        ET.SubElement(about, "property", name=_clean(key), value=value)
    if (tag := _TAGS[row.standing]) is not None:
        first_line = row.headline.strip().split("\n", maxsplit=1)[0]
        kind = row.status or STANDINGS[row.standing].word
        element = ET.SubElement(case, tag, type=_clean(kind), message=_clean(first_line))
        element.text = _clean(_why(row, row.verdict) if row.verdict else row.headline)
    if row.verdict is not None:
        checks = (f"{r.status:8} {r.check}: {r.summary}" for r in row.verdict.results)
        ET.SubElement(case, "system-out").text = _clean("\n".join(checks))
    return case


_TAGS: Mapping[Standing, str | None] = {
    "expected": None,
    "unexpected": "failure",
    "undecided": "error",
    "not_run": "error",
    "skipped": "skipped",
}


def properties(row: SuiteRow) -> dict[str, str]:
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


def _why(row: SuiteRow, verdict: Verdict) -> str:
    lines = [verdict.headline, verdict.expectation]
    for section in sections(verdict):
        lines += [section.title] if section.title else []
        for line in section.lines:
            events = f" [{line.events}]" if line.events else ""
            lines.append(f"{'  ' if section.title else ''}{line.label}: {line.text}{events}")
    if row.directory:
        lines += [f"{name}: {value}" for name, value in ways(row.directory, verdict)]
    return "\n".join(lines)


def _clean(text: str) -> str:
    return _FOREIGN.sub("", harmless(text))


SHOWN = 10  # GitHub shows no more errors of one step, and no more notices
Level: TypeAlias = Literal["error", "notice"]


class AnnotatedPlace(NamedTuple):
    """A place that GitHub shows: a file from the repository's root, and the line."""

    file: str
    line: int


def annotations(rows: Sequence[SuiteRow], places: Sequence[AnnotatedPlace]) -> Iterator[str]:
    """Yield GitHub's workflow commands: errors, and a notice for each skipped scenario.

    If there are too many of a kind, the last one counts the rest.
    """
    placed = list(zip(rows, places, strict=True))
    amiss = [each for each in placed if each[0].standing not in ("expected", "skipped")]
    yield from _commands("error", amiss, counted="are not as expected")
    skipped = [each for each in placed if each[0].standing == "skipped"]
    yield from _commands("notice", skipped, counted="were skipped")


def _commands(
    level: Level, placed: Sequence[tuple[SuiteRow, AnnotatedPlace]], *, counted: str
) -> Iterator[str]:
    shown = placed if len(placed) <= SHOWN else placed[: SHOWN - 1]
    for row, place in shown:
        kind = row.status or STANDINGS[row.standing].word
        again = f"\n{replay(row.directory)}" if row.directory else ""
        lines = () if row.verdict is None else row.verdict.lines
        yield command(
            level, place_of(lines) or place, f"{kind}: {row.scenario}", row.headline + again
        )
    if len(shown) < len(placed):
        _, place = placed[SHOWN - 1]
        more = f"{len(placed) - len(shown)} more scenarios {counted}"
        yield command(level, place, more, "They are in the report and in the step's summary.")


def place_of(lines: Sequence[JobLine]) -> AnnotatedPlace | None:
    """Return the line of the job to show a finding at: what saves, else what reads, or made it."""
    by_role = {line.role: line for line in reversed(lines)}
    line = next((by_role[role] for role in ("saved", "read", "made") if role in by_role), None)
    return None if line is None else AnnotatedPlace(for_others(line.file), line.line)


def command(level: Level, place: AnnotatedPlace, title: str, message: str) -> str:
    """Return a workflow command."""
    where = f"file={_property(place.file)},line={place.line},title={_property(title)}"
    return f"::{level} {where}::{_message(message)}"


def _message(text: str) -> str:
    return harmless(text.replace("\r", "\n")).replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def summary_of(row: SuiteRow, *, folder: str | None = None) -> RunSummary:
    """Return a row in figures; its directory is relative to `folder`, if it is below it."""
    found = RunSummary.model_validate(row, from_attributes=True)
    paths = {"file": for_others(row.file)}
    if row.directory is not None and folder is not None:
        paths["directory"] = posixpath.relpath(row.directory, folder)
    return found.model_copy(update=paths)


def run_in_json(run: FinishedRun) -> str:
    """Return one run: its figures, verdict, faults, and its time by attempt and phase."""
    spent = ledger_of(run.analysis)
    row = replace(row_of(run), directory=for_others(run.directory))
    found = {
        "summary": summary_of(row).model_dump(mode="json"),
        "verdict": run.verdict.model_dump(mode="json"),
        "ops": [asdict(op) for op in page.op_rows(run)],
        "goodput": {
            "wall_s": spent.wall_ns / 1e9,
            "productive": spent.goodput,
            "phases_s": spent.seconds(),
            "by_attempt": {a: spent.seconds(attempt=a) for a in spent.attempts},
        },
        "replay": replay(run.directory),
    }
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"
