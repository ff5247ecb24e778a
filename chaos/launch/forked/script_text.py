"""The calls of Ray that a script surely makes before its `fit()`, read from its text.

Only statements that no condition decides are followed: those of the module, of
its `if __name__ == "__main__"`, and of the functions of the script that these
call. Any other call is refused when it is made (see `unsupported_calls`).
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from chaos.errors import NeedsClusterError
from chaos.launch.forked.unsupported_calls import READS

_MAIN = ("__name__ == '__main__'", "'__main__' == __name__")
_LEAVING = ("exit", "fit", "main")
_DEEPEST = 5  # calls of the script's own functions, one in the other


def refuse_by_its_text(script: str) -> None:
    """Raise `NeedsClusterError` if a script's text shows that it needs a cluster."""
    try:
        tree = ast.parse(Path(script).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return  # running it raises the same error, with its traceback
    found = asks_for(tree)
    if found is not None:
        raise NeedsClusterError.of(f"{found[0]}, {Path(script).name}:{found[1]})")


def asks_for(tree: ast.Module) -> tuple[str, int] | None:
    """Return the first call before `fit()` that needs a cluster, and its line.

    The bracket of the text is left open, for the caller to add the line.
    """
    script = _Script(tree)
    for call in script.calls(tree.body):
        name = script.name_of(call.func)
        module, _, last = name.rpartition(".")
        if last == "fit":
            return None
        if module == "ray.data" and last.startswith(READS):
            return f"Ray Data (`{name}`", call.lineno
        if last == "remote" and module in script.remotes:
            return f"`ray.remote` (`{name}()`", call.lineno
    return None


class _Script:
    """The names of a script: those that it imports, its functions, its tasks and actors."""

    def __init__(self, tree: ast.Module) -> None:
        self._imported: dict[str, str] = {}
        self._functions: dict[str, ast.FunctionDef] = {}
        self.remotes: set[str] = set()
        for node in tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                self._define(node)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for name in node.names:
            if isinstance(node, ast.ImportFrom):
                self._imported[name.asname or name.name] = f"{node.module}.{name.name}"
            else:
                top = name.name if name.asname else name.name.partition(".")[0]
                self._imported[name.asname or top] = top

    def _define(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        decorators = [self.name_of(at) for at in node.decorator_list]
        if "ray.remote" in decorators:
            self.remotes.add(node.name)
        elif isinstance(node, ast.FunctionDef) and not decorators:
            self._functions[node.name] = node

    def name_of(self, node: ast.expr) -> str:
        """Return a dotted name as it was imported, without the calls in between."""
        match node:
            case ast.Name(id=name):
                return self._imported.get(name, name)
            case ast.Attribute(value=value, attr=attr):
                return f"{self.name_of(value)}.{attr}"
            case ast.Call(func=func):
                return self.name_of(func).removesuffix(".options")
            case _:
                return ""

    def calls(self, body: list[ast.stmt], depth: int = 0) -> Iterator[ast.Call]:
        """Yield the calls that are surely made, in their order."""
        for statement in body:
            for value in _values(statement):
                yield from self._calls_of(value, depth)
            if isinstance(statement, ast.With | ast.If) and _is_entered(statement):
                yield from self.calls(statement.body, depth)
            elif _may_leave(statement):
                return

    def _calls_of(self, value: ast.expr, depth: int) -> Iterator[ast.Call]:
        if isinstance(value, ast.Lambda | ast.IfExp | ast.BoolOp | ast.GeneratorExp):
            return
        for part in ast.iter_child_nodes(value):  # arguments are computed before the call
            if isinstance(part, ast.expr):
                yield from self._calls_of(part, depth)
            elif isinstance(part, ast.keyword):
                yield from self._calls_of(part.value, depth)
        if not isinstance(value, ast.Call):
            return
        function = self._functions.get(self.name_of(value.func))
        if function is not None and depth < _DEEPEST:
            yield from self.calls(function.body, depth + 1)
        yield value


def _may_leave(statement: ast.stmt) -> bool:
    """Return whether a statement may leave the body, or may itself call `fit()`."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    return any(
        isinstance(node, ast.Return | ast.Raise)
        or (isinstance(node, ast.Call) and ast.unparse(node.func).endswith(_LEAVING))
        for node in ast.walk(statement)
    )


def _values(statement: ast.stmt) -> list[ast.expr]:
    """Return the expressions that a statement surely evaluates."""
    match statement:
        case ast.With(items=items):
            return [item.context_expr for item in items]
        case ast.Assign(value=value) | ast.Expr(value=value):
            return [value]
        case ast.AnnAssign(value=ast.expr() as value) | ast.Return(value=ast.expr() as value):
            return [value]
        case _:
            return []


def _is_entered(statement: ast.With | ast.If) -> bool:
    return isinstance(statement, ast.With) or ast.unparse(statement.test) in _MAIN
