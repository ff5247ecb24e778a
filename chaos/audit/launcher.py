"""The launcher that a script is written for, as its own text shows it."""

import ast

from chaos.model.scenario import Launcher

_JOINS = frozenset({"init_process_group", "init_device_mesh"})


def launcher_of(source: str) -> Launcher:
    """Return torchrun for a script that sets up `torch.distributed` and knows nothing of Ray.

    Modules that the script imports are not read.
    """
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):
        return "ray"
    if any(_imports_ray(node) for node in nodes):
        return "ray"
    called = {_name(node.func) for node in nodes if isinstance(node, ast.Call)}
    return "torchrun" if called & _JOINS else "ray"


def _imports_ray(node: ast.AST) -> bool:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        names = [node.module or ""]
    return any(name.partition(".")[0] == "ray" for name in names)


def _name(called: ast.expr) -> str | None:
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else None
