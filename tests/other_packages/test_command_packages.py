"""Commands of other packages: listed with the words of their file, and called as chaos's own."""

from pathlib import Path

import pytest

from tests.other_packages.conftest import Done, install, run

COMMAND = """
import sys
import typer

HELP_PANEL = "Results"
HELP_LINE = "Count the runs of a folder."
print("imported", file=sys.stderr)


def count(folder: str = typer.Argument(...)) -> None:
    typer.echo(f"counted {folder}")
"""


def call(folder: Path, *words: str, name: str = "count", text: str = COMMAND) -> Done:
    """Return what chaos said, with a command of this name in a package."""
    packages = install(
        folder / "site", {"chaos.commands": {name: "chaos_count:count"}}, chaos_count=text
    )
    return run(folder, "chaos", *words, packages=packages)


def test_help_lists_it_by_what_its_file_says_and_imports_nothing(tmp_path: Path) -> None:
    done = call(tmp_path, "--help")

    assert done.code == 0
    assert "count Count the runs of a folder." in done.said
    assert done.said.index("Results:") < done.said.index("count Count")
    assert "imported" not in done.said


def test_it_is_called_as_any_other(tmp_path: Path) -> None:
    done = call(tmp_path, "count", "here")

    assert (done.code, "counted here" in done.said) == (0, True)


@pytest.mark.parametrize("text", ["def count(:\n", "raise RuntimeError('odd')\n", ""])
def test_one_that_cannot_be_loaded_leaves_the_others_alone(tmp_path: Path, text: str) -> None:
    listed = call(tmp_path, "--help", text=text)
    called = run(tmp_path, "chaos", "count", packages=tmp_path / "site")

    assert (listed.code, "audit Inject faults" in listed.said) == (0, True)
    assert called.code == 3
    assert "chaos-example registers the command count as chaos_count:count" in called.said


@pytest.mark.parametrize("name", ["audit", "guard"])
def test_a_name_that_is_taken_is_refused_with_both_functions(tmp_path: Path, name: str) -> None:
    done = call(tmp_path, "--help", name=name)

    assert done.code == 3
    assert f"chaos_count:count is registered as the command {name}, which is chaos." in done.said
