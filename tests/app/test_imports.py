"""The use cases know no command line, no screen and no pytest."""

import ast
from pathlib import Path

import chaos.app

EDGES = {"typer", "click", "rich", "pytest", "_pytest"}


def test_no_use_case_imports_what_only_an_edge_needs() -> None:
    imported = {
        f"{file.name}: {name}"
        for file in Path(chaos.app.__path__[0]).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_bytes()))
        for name in imported_names(node)
        if name.partition(".")[0] in EDGES or name.startswith(("chaos.cli", "chaos.api"))
    }

    assert not imported


def imported_names(node: ast.AST) -> list[str]:
    """Return the modules that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []
