"""The reference pages of the site, made from the code: `python -m tests.tools.reference`.

A test fails where a page is stale.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from chaos.check.judge import CHECKS
from chaos.cli.commands import app
from chaos.model.fault_entry import FAULTS
from chaos.report.tables import explained, place_rows
from chaos.scenario_file.messages import json_schema

FOLDER = Path(__file__).parents[2] / "docs/reference"
MADE = "<!-- Made by `python -m tests.tools.reference`. -->\n"


def pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    return {
        "commands.md": "\n".join(_commands()) + "\n",
        "faults.md": _texts("Faults", list(FAULTS)),
        "places.md": _places(),
        "checks.md": _texts("Checks", check_names()),
        "scenario-file.md": "\n".join(_scenario_file()) + "\n",
    }


def check_names() -> list[str]:
    """Return the names of chaos's own checks, in the order of the report."""
    return [check.NAME for check in CHECKS]


def _texts(title: str, names: list[str]) -> str:
    parts = [f"# {title}\n\n{MADE}\nThe same text as that of `chaos list NAME`.\n"]
    for name in names:
        head, _, text = (explained(name) or "").partition("\n")
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
    rows = "\n".join(f"| `{_cell(name)}` | {_cell(what)} |" for name, what in place_rows())
    return f"# Places\n\n{MADE}\n| place | what it is |\n| --- | --- |\n{rows}\n"


def _commands() -> Iterator[str]:
    yield f"# Commands\n\n{MADE}"
    top: Any = typer.main.get_command(app)
    context = typer.Context(top)
    for name, lazy in top.commands.items():
        if lazy.hidden:
            continue
        command = lazy.loaded
        yield f"## chaos {name}\n"
        yield f"{_prose(command.help)}\n"
        words = " ".join(command.collect_usage_pieces(context))
        yield f"```text\nusage: chaos {name} {words}\n```\n"
        options = [each for each in command.params if each.param_type_name == "option"]
        if options:
            yield "| option | |\n| --- | --- |"
        for each in options:
            spelled = ", ".join(f"`{word}`" for word in [*each.opts, *each.secondary_opts])
            yield f"| {spelled} | {_cell(each.help or '')}{_default(each)} |"
        yield ""


def _prose(text: str | None) -> str:
    """Return a command's help as paragraphs, an example as code."""
    lines = (line.strip() for line in (text or "").replace("\b", "").splitlines())
    return "\n".join(
        f"Example: `{line.removeprefix('Example: ')}`" if line.startswith("Example: ") else line
        for line in lines
    ).strip()


def _default(option: Any) -> str:
    value = option.default
    if callable(value) or isinstance(value, bool) or value in (None, "", (), []):
        return ""
    return f" Default: `{value}`."


def _scenario_file() -> Iterator[str]:
    yield f"# Scenario files\n\n{MADE}"
    yield "`chaos schema` prints the JSON Schema of these keys, for editors.\n"
    schema = json_schema()
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


def main() -> int:
    """Write the pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
