"""`--help` names every command, and imports nothing that is slow."""

import subprocess
import sys
from pathlib import Path

import pytest

from chaos.cli.command_table import list_commands
from tests.called import chaos
from tests.cli.process import ROOT, environment
from tests.needs import needs_extension

HEAVY = {"altair", "jinja2", "numpy", "psutil", "pydantic", "ray", "ruamel", "scipy", "torch"}
DRAWS = {"altair", "vl_convert", "ray", "torch"}  # charts, and what trains


def list_imported(*words: str) -> set[str]:
    """Return the modules that a command has imported, in a process of its own."""
    code = f"import sys; sys.argv[1:] = {[*words]}\ntry: from chaos.cli import main; main()\n"
    code += "except SystemExit: print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    modules = set(done.stdout.splitlines()[-1].split())
    assert "chaos.cli.commands" in modules
    return modules


@pytest.mark.parametrize(
    ("words", "slow"),
    [
        (["--help"], HEAVY),
        (["audit", "--help"], DRAWS),
        (["run", "--help"], DRAWS),
        pytest.param(["preflight", "--help"], DRAWS, marks=needs_extension("preflight")),
        (["report", "--help"], DRAWS),
    ],
)
def test_help_imports_nothing_that_is_slow(words: list[str], slow: set[str]) -> None:
    assert not {name.partition(".")[0] for name in list_imported(*words)} & slow


def test_help_imports_no_extension() -> None:
    assert not [name for name in list_imported("--help") if name.startswith("chaos.extensions.")]


@needs_extension("doctor")
def test_no_check_is_imported_where_no_other_package_registers_any() -> None:
    """The extensions of chaos register faults, and are no other package."""
    assert "chaos.other_packages" not in list_imported("doctor", "--nope")


def test_help_names_every_command(tmp_path: Path) -> None:
    said = chaos("--help", folder=tmp_path).out

    named = [entry.name for entry in list_commands() if f"\n  {entry.name} " in said]
    assert named == [entry.name for entry in list_commands()]
    assert said.index("\n  audit ") < said.index("\n  run ") < said.index("\n  report ")
