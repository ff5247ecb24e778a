"""The reference pages of the site, made from the code: `python -m tests.tools.reference`.

A test fails where a page is stale.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import typer

from chaos.check import judge
from chaos.check.judge import CHECKS
from chaos.check.prose.registry import KindEntry, list_entries
from chaos.cli.commands import app
from chaos.extensions.catalogue.tables import explain_name, list_place_rows
from chaos.model.fault_entry import FAULTS
from chaos.scenario_file.messages import build_json_schema
from tests.tools.reads import PLACED, readers

FOLDER = Path(__file__).parents[2] / "docs/reference"
#: an option is described once if so many commands have it
SHARED = 3
MADE = "<!-- Made by `python -m tests.tools.reference`. -->\n"


def check_names() -> list[str]:
    """Return the names of chaos's own checks, in the order of the report."""
    return [check.NAME for check in CHECKS]


def _faults() -> str:
    return _texts("Faults", list(FAULTS), _FAULTS, _without_example)


def _checks() -> str:
    """Return the page on the checks: the promise of each, which is the answer to its question."""
    return _texts("Checks", check_names(), "", lambda text: text.partition("\n\n")[2])


def _texts(title: str, names: list[str], head: str, shorten: Callable[[str], str]) -> str:
    parts = [f"# {title}\n\n{MADE}\n`chaos list NAME` prints the text of each.\n{head}"]
    for name in names:
        first, _, text = (explain_name(name) or "").partition("\n")
        assert first.endswith(name), first
        parts.append(f"## {name}\n\n{shorten(text.strip())}\n")
    return "\n".join(parts)


_FAULTS = """
Each is written in the same way. A setting has its default in brackets, if it has one.

```yaml
faults:
  - at: {epoch: 2, step: 5, rank: 1}
    kill_worker: {signal: TERM}
```
"""


def _without_example(text: str) -> str:
    """Return a text whose settings are a list, without its example."""
    text, _, _ = text.partition("\nfaults:\n")
    prose, _, settings = text.partition("\nsettings:\n")
    rows = (line.strip().partition(": ") for line in settings.strip().splitlines())
    lines = [_setting(name, what) for name, _, what in rows]
    return "\n".join([prose.strip(), *(["", *lines] if lines else [])])


def _setting(name: str, what: str) -> str:
    """Return a setting as an item of a list, with its default in brackets if it has one."""
    default, _, rest = what.partition("; ")
    default = default.removesuffix(" unless given")
    shown = "" if default == "None" else f" ({default})"
    return f"- `{name}`{shown}{f': {rest}' if rest else ''}"


def _places() -> str:
    return f"# Places\n\n{MADE}\n" + "\n".join(map(_item, list_place_rows())) + "\n"


def _commands() -> Iterator[str]:
    top: Any = typer.main.get_command(app)
    context = typer.Context(top)
    commands = {name: lazy.loaded for name, lazy in top.commands.items()}
    options = {name: _parameters(each, "option", context) for name, each in commands.items()}
    counts = Counter(chain.from_iterable(options.values()))
    shared = [row for row, count in counts.items() if count >= SHARED]
    yield f"# Commands\n\n{MADE}\n## Shared options\n"
    yield f"Options that {SHARED} commands or more have, with the same meaning in each.\n"
    yield from map(_item, shared)
    yield ""
    for name, command in commands.items():
        yield f"## chaos {name}\n"
        yield f"{_prose(command.help)}\n"
        own = [row for row in options[name] if row not in shared]
        yield from map(_item, [*_parameters(command, "argument", context), *own])
        if names := [row[0].partition(" <")[0] for row in options[name] if row in shared]:
            yield f"- shared: {_names(names)}"
        yield ""


def _parameters(command: Any, kind: str, context: typer.Context) -> list[tuple[str, str]]:
    """Return the arguments or the options of a command, each with what it is."""
    mine = [each for each in command.params if each.param_type_name == kind]
    rows = [row for each in mine if (row := each.get_help_record(context)) is not None]
    if kind == "argument":  # as in the help: a type means nothing to a user
        rows = [(name.partition(" <")[0], what) for name, what in rows]
    return rows


def _item(row: tuple[str, str]) -> str:
    """Return a name and what it is, as an item of a list."""
    name, what = row
    return f"- `{name}`: {' '.join(what.split())}"


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
    needed = set(part.get("required", ()))
    fields = part.get("properties", {})
    if faults := [name for name in fields if name in FAULTS]:
        yield f"- a [fault](faults.md) with its settings: {_names(faults)}"
    for name, field in fields.items():
        if name in faults:
            continue
        told = " ".join(str(field.get("description", "")).split())
        default = field.get("default")
        kind = f"{_type(field)}, required" if name in needed else _type(field)
        if name not in needed and not isinstance(default, dict | list | bool | None):
            kind = f"{kind}; default `{default}`"
        yield f"- `{name}` ({kind}){f': {told}' if told else ''}"
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

Two findings are the same defect if their check, kind and parts are the same. Below, each kind has
its meaning, *its usual cause*, and what to do about it.
"""


def _findings() -> str:
    """Return the page on the kinds of findings, by check."""
    entries = sorted(list_entries(), key=lambda entry: (entry.check, entry.kind))
    sections = [
        f"## {check}\n\n" + "\n".join(map(_finding, group))
        for check, group in groupby(entries, key=lambda entry: entry.check)
    ]
    return f"# Findings\n\n{MADE}\n{_FINDINGS}\n" + "\n\n".join(sections) + "\n"


def _finding(entry: KindEntry) -> str:
    return (
        f"- `{entry.kind}`: {entry.meaning} *{entry.usual_cause.removesuffix('.')}*. {entry.remedy}"
    )


_READS = """\
A check reads **tables**, which `chaos/check/analysis.py` makes when they are first asked for, and
a few events itself. Tables `run.…` are of one history; `reference` has those of the baseline. The
lists come from judging the runs of `tests/recorded` and the histories of
`tests/check/test_judge_golden.py`. [Verdicts](../verdicts.md) has the promises, [the life of an
event](../life-of-an-event.md) the way from a worker to a check.

A check says in the verdict why it is inconclusive. Any check is where it had nothing to judge by,
or raised an error. So is what it found, if a journal was lost with its node, or the package of a
fault is not installed (`chaos/check/judge.py`). So is a finding of these, if it is not known where
an attempt before it resumed: {places}. So is a finding of these, after steps that
`expect.sampling: at_least_once` allows to be trained twice: {steps}.
"""


def _reads() -> str:
    """Return the page on the tables and events that each check reads."""
    order, (found, _) = check_names(), readers()
    groups = {"places": judge._NEED_TRAINING_PLACES, "steps": judge._NEED_EQUAL_STEPS}
    head = _READS.format(
        **{key: _names(sorted(names, key=order.index)) for key, names in groups.items()}
    )
    checks = "\n".join(
        f"| `{name}` | {_names(found[name].tables)} | {_names(found[name].events)} |"
        for name in order
    )
    tables = "\n".join(
        f"| `{name}` | {_names(found[name].tables)} | {_names(found[name].events)} |"
        for name in sorted(found.keys() - {*order, PLACED})
    )
    return (
        f"# What each check reads\n\n{MADE}\n{head}\n"
        f"## Checks\n\n| check | tables | events |\n| --- | --- | --- |\n"
        f"{checks}\n\n## Tables\n\nBefore any of them, each attempt is placed where it resumed "
        f"(`chaos/resume/relocation.py`), by {_names(found[PLACED].events)}.\n\n"
        f"| table | made of | events |\n| --- | --- | --- |\n{tables}\n"
    )


def _names(names: Iterable[str]) -> str:
    """Return names as code; a set's by the alphabet."""
    ordered = sorted(names) if isinstance(names, set) else names
    return ", ".join(f"`{name}`" for name in ordered)


#: the function that makes the text of each page, by the page's file name
PAGES: dict[str, Callable[[], str]] = {
    "commands.md": lambda: "\n".join(_commands()) + "\n",
    "faults.md": _faults,
    "places.md": _places,
    "checks.md": _checks,
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
