"""The reference pages of the site, made from the code: `python -m tests.tools.reference`.

A test fails where a page is stale.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from chaos.check import judge
from chaos.check.judge import CHECKS
from chaos.check.prose.registry import list_entries
from chaos.cli.commands import app
from chaos.extensions.catalogue.tables import explain_name, list_place_rows
from chaos.model.fault_entry import FAULTS
from chaos.scenario_file.messages import build_json_schema
from tests.tools.reads import PLACED, readers
from tests.tools.reasons import reasons

FOLDER = Path(__file__).parents[2] / "docs/reference"
MADE = "<!-- Made by `python -m tests.tools.reference`. -->\n"


def check_names() -> list[str]:
    """Return the names of chaos's own checks, in the order of the report."""
    return [check.NAME for check in CHECKS]


def _texts(title: str, names: list[str]) -> str:
    parts = [f"# {title}\n\n{MADE}\nThe same text as that of `chaos list NAME`.\n"]
    for name in names:
        head, _, text = (explain_name(name) or "").partition("\n")
        assert head.endswith(name), head
        parts.append(f"## {name}\n\n{_fenced(text.strip())}\n")
    return "\n".join(parts)


def _fenced(text: str) -> str:
    """Return a text whose settings are a list and whose example is a block of YAML."""
    prose, _, rest = text.partition("\nsettings:\n")
    if not rest:
        prose, _, example = text.partition("\nfaults:\n")
        settings = ""
    else:
        settings, _, example = rest.partition("\nfaults:\n")
    lines = [prose.strip()]
    if settings:
        rows = (line.strip().partition(": ") for line in settings.strip().splitlines())
        lines += ["", *(f"- `{name}`: {what}" for name, _, what in rows)]
    if example:
        lines += ["", "```text", f"faults:\n{example.rstrip()}", "```"]
    return "\n".join(lines)


def _places() -> str:
    rows = "\n".join(f"| `{_cell(name)}` | {_cell(what)} |" for name, what in list_place_rows())
    return f"# Places\n\n{MADE}\n| place | what it is |\n| --- | --- |\n{rows}\n"


def _commands() -> Iterator[str]:
    yield f"# Commands\n\n{MADE}"
    top: Any = typer.main.get_command(app)
    context = typer.Context(top)
    for name, lazy in top.commands.items():
        command = lazy.loaded
        yield f"## chaos {name}\n"
        yield f"{_prose(command.help)}\n"
        words = " ".join(command.collect_usage_pieces(context))
        yield f"```text\nusage: chaos {name} {words}\n```\n"
        for kind in ("argument", "option"):
            mine = [each for each in command.params if each.param_type_name == kind]
            rows = [row for each in mine if (row := each.get_help_record(context)) is not None]
            if rows:
                yield f"| {kind} | what it is |\n| --- | --- |"
            if kind == "argument":  # as in the help: a type means nothing to a user
                rows = [(name.partition(" <")[0], what) for name, what in rows]
            yield from (f"| `{_cell(name)}` | {_cell(what)} |" for name, what in rows)
            yield ""


def _prose(text: str | None) -> str:
    """Return a command's help as paragraphs, an example as code."""
    lines = (line.strip() for line in (text or "").replace("\b", "").splitlines())
    return "\n".join(
        f"Example: `{line.removeprefix('Example: ')}`" if line.startswith("Example: ") else line
        for line in lines
    ).strip()


def _scenario_file() -> Iterator[str]:
    yield f"# Scenario files\n\n{MADE}"
    yield "`chaos schema` prints the JSON Schema of these keys, for editors.\n"
    schema = build_json_schema()
    yield from _keys("The file", schema)
    for name, part in sorted(schema.get("$defs", {}).items()):
        if part.get("properties") and name not in _fault_records():
            yield from _keys(name, part)


def _fault_records() -> set[str]:
    return {FAULTS[name].__name__ for name in FAULTS}


def _keys(title: str, part: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {title}\n"
    if told := " ".join(str(part.get("description", "")).split("\n\n")[0].split()):
        yield f"{told}\n"
    yield "| key | type | |\n| --- | --- | --- |"
    needed = set(part.get("required", ()))
    for name, field in part.get("properties", {}).items():
        told = _cell(str(field.get("description", "")))
        default = field.get("default")
        if name in needed:
            told = f"Required. {told}"
        elif not isinstance(default, dict | list | bool | None):
            told = f"{told} Default: `{_cell(str(default))}`.".strip()
        yield f"| `{name}` | {_cell(_type(field))} | {told.strip()} |"
    yield ""


def _type(field: Mapping[str, Any]) -> str:
    """Return the type of a field in one word or a few."""
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    for several in ("anyOf", "oneOf"):
        if several in field:
            kinds = [_type(each) for each in field[several] if each.get("type") != "null"]
            return " or ".join(dict.fromkeys(kinds))
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    return str(field.get("type", "any"))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


_FINDINGS = """\
Each finding of chaos has a **kind**: a name that stays the same whatever the sentence about it
says. `verdict.json` and `audit.json` have it, with the facts of each finding and the parts that it
is about; so do JUnit (`type`), GitHub's annotations and `result.anomalies` in Python.
[CI](../ci.md#findings-by-kind) shows how to match and how to accept one.

Two findings are the same defect if their check, kind and parts are the same.

| kind | check | what it means | usual cause | what to do |
| --- | --- | --- | --- | --- |
"""


def _findings() -> str:
    """Return the page on the kinds of findings."""
    rows = "\n".join(
        f"| `{entry.kind}` | `{entry.check}` | {_cell(entry.meaning)} "
        f"| {_cell(entry.usual_cause)} | {_cell(entry.remedy)} |"
        for entry in list_entries()
    )
    return f"# Findings\n\n{MADE}\n{_FINDINGS}{rows}\n"


_READS = """\
What each check reads of a history, and the words in which it says that it is inconclusive; an
ellipsis is what a run fills in. [Verdicts](../verdicts.md) has the promises,
[the life of an event](../life-of-an-event.md) the way from a worker to a check.

A check reads **tables**, which `chaos/check/analysis.py` makes of the history and of its baseline
when they are first asked for, and a few events itself. Tables `run.…` are of one history;
`reference` has the same ones of the baseline. What is listed was read while the recorded runs of
`tests/recorded` and the histories of `tests/check/test_judge_golden.py` were judged; the words are
read from the code.

Any check is inconclusive where it had nothing to judge by, or raised an error. So is what it found,
if a journal was lost with its node, or the package of a fault is not installed
(`chaos/check/judge.py`). So is a finding of these, if it is not known where an attempt before it
resumed: {places}. So is a finding of these, after steps that `expect.sampling: at_least_once`
allows to be trained twice: {steps}.
"""


def _reads() -> str:
    """Return the page on the tables and events that each check reads."""
    order, (found, _) = check_names(), readers()
    groups = {"places": judge._NEED_TRAINING_PLACES, "steps": judge._NEED_EQUAL_STEPS}
    head = _READS.format(
        **{key: _names(sorted(names, key=order.index)) for key, names in groups.items()}
    )
    checks = "\n".join(
        f"| `{name}` | {_names(found[name].tables)} | {_names(found[name].events)} "
        f"| {'<br>'.join(map(_cell, reasons(name)))} |"
        for name in order
    )
    tables = "\n".join(
        f"| `{name}` | {_names(found[name].events)} | {_names(found[name].tables)} |"
        for name in sorted(found.keys() - {*order, PLACED})
    )
    placed = found[PLACED]
    return (
        f"# What each check reads\n\n{MADE}\n{head}\n## Checks\n\n"
        f"| check | tables | events | inconclusive |\n| --- | --- | --- | --- |\n{checks}\n\n"
        f"## Tables\n\nBefore any of them, each attempt is placed where it resumed "
        f"(`chaos/resume/relocation.py`), by {_names(placed.events)}.\n\n"
        f"| table | events | made of |\n| --- | --- | --- |\n{tables}\n"
    )


def _names(names: Iterable[str]) -> str:
    """Return names as code; a set's by the alphabet."""
    ordered = sorted(names) if isinstance(names, set) else names
    return ", ".join(f"`{name}`" for name in ordered)


#: the function that makes the text of each page, by the page's file name
PAGES: dict[str, Callable[[], str]] = {
    "commands.md": lambda: "\n".join(_commands()) + "\n",
    "faults.md": lambda: _texts("Faults", list(FAULTS)),
    "places.md": _places,
    "checks.md": lambda: _texts("Checks", check_names()),
    "findings.md": _findings,
    "reads.md": _reads,
    "scenario-file.md": lambda: "\n".join(_scenario_file()) + "\n",
}


def main() -> int:
    """Write the pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, make in PAGES.items():
        (FOLDER / name).write_text(make(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
