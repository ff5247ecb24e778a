"""The workflow in the documents: what it runs exists."""

import shlex
from pathlib import Path
from typing import Any

import typer
from ruamel.yaml import YAML

from chaos.cli.commands import app

FILE = Path(__file__).parents[2] / "docs" / "ci" / "github.yml"


def steps() -> list[dict[str, Any]]:
    (job,) = YAML(typ="safe").load(FILE.read_text(encoding="utf-8"))["jobs"].values()
    found: list[dict[str, Any]] = job["steps"]
    return found


def test_every_command_of_chaos_in_it_is_understood() -> None:
    lines = [line for step in steps() for line in step.get("run", "").splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("chaos ")]
    known: Any = typer.main.get_command(app)

    assert [words[0] for words in commands] == ["run", "report"]
    for name, *words in commands:
        known.commands[name].make_context(name, list(words))


def test_what_was_seen_is_kept_whatever_the_verdict() -> None:
    keeping = next(s for s in steps() if "upload-artifact" in s.get("uses", ""))

    assert keeping["if"] == "always()"
    assert "history.jsonl" in keeping["with"]["path"]
