"""What is printed goes through the one maker of consoles, and documents through one function."""

import ast
from collections.abc import Iterator

from tests.meta.test_shape import MODULES, ROOT

MAKER = "chaos/report/screen.py"
WRITER = "chaos/cli/streams.py"
OTHERS = {"chaos/scenario_file/signatures.py"}  # a tool of ours: it writes our own stub


def calls() -> Iterator[tuple[str, str]]:
    for module in MODULES:
        name = str(module.relative_to(ROOT))
        if name.startswith("chaos/extensions/lab/selftest/planted/"):
            continue
        for node in ast.walk(ast.parse(module.read_bytes())):
            if isinstance(node, ast.Call):
                yield name, ast.unparse(node.func)


def test_consoles_are_made_in_one_place() -> None:
    assert {module for module, call in calls() if call in ("Console", "rich.print")} <= {MAKER}


def test_stdout_is_written_in_one_place() -> None:
    writes = ("sys.stdout.write", "typer.echo", "print")
    assert {module for module, call in calls() if call in writes} - OTHERS == {WRITER}


def test_no_text_is_read_as_markup() -> None:
    markup = ("Text.from_markup", "render_markup", "from_markup")
    assert [found for found in calls() if found[1] in markup] == []


def test_the_functions_for_python_know_no_command_line() -> None:
    tree = ast.parse((ROOT / "chaos/api.py").read_bytes())
    imported = {name for node in ast.walk(tree) for name in imported_names(node)}

    assert not {name for name in imported if name.startswith(("chaos.cli", "typer"))}
    assert len((ROOT / "chaos/api.py").read_text(encoding="utf-8").splitlines()) < 90
    assert len((ROOT / "chaos/cli/audit.py").read_text(encoding="utf-8").splitlines()) < 320


def test_use_cases_know_no_console_no_command_line_and_no_pytest() -> None:
    edges = {"typer", "click", "rich", "pytest", "_pytest"}
    imported = {
        f"{module.name}: {name}"
        for module in MODULES
        if module.is_relative_to(ROOT / "chaos/app")
        for node in ast.walk(ast.parse(module.read_bytes()))
        for name in imported_names(node)
        if name.partition(".")[0] in edges or name.startswith(("chaos.cli", "chaos.api"))
    }

    assert not imported


def imported_names(node: ast.AST) -> list[str]:
    """Return the modules that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []
