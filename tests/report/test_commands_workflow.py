"""The workflow that `chaos init` writes, and the composite action: what they run exists."""

import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from ruamel.yaml import YAML

from chaos.cli.commands import app

FILE = Path(__file__).parents[2] / "docs" / "ci" / "github.yml"


ACTION = FILE.parents[2] / "action.yml"


def steps(file: Path = FILE) -> list[dict[str, Any]]:
    read = YAML(typ="safe").load(file.read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = (read["runs"] if file == ACTION else read["jobs"]["chaos"])[
        "steps"
    ]
    return found


@pytest.mark.parametrize("file", [FILE, ACTION], ids=["workflow", "action"])
def test_every_command_of_chaos_in_it_is_understood(file: Path) -> None:
    lines = [line for step in steps(file) for line in step.get("run", "").splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("chaos ")]
    known: Any = typer.main.get_command(app)

    assert [words[0] for words in commands] == ["audit", "run", "report"]
    for name, *words in commands:
        known.commands[name].make_context(
            name, [word.replace("$TIME_LIMIT", "5m") for word in words]
        )


@pytest.mark.parametrize("file", [FILE, ACTION], ids=["workflow", "action"])
def test_what_was_seen_is_kept_whatever_the_verdict(file: Path) -> None:
    keeping = next(s for s in steps(file) if "upload-artifact" in s.get("uses", ""))

    assert keeping["if"] == "always()"
    assert "history.jsonl" in keeping["with"]["path"]


def test_an_empty_repository_is_installed_and_the_cpu_s_torch_comes_first() -> None:
    workflow, action = (
        next(s["run"] for s in steps(file) if s.get("name") == "Install").splitlines()
        for file in (FILE, ACTION)
    )

    assert workflow[:2] == ["pip install uv", "uv pip install --system --torch-backend cpu torch"]
    assert not [s for s in steps() if "cache" in s.get("with", {})]  # it wants a requirements file
    assert workflow[1:-1] == action[1:-1]  # each only where its file is there


def test_no_input_of_the_action_stands_in_the_text_of_a_step() -> None:
    assert not [step for step in steps(ACTION) if "inputs." in step.get("run", "")]
