"""Recoveries of a job within its own process: it catches an exception and trains on.

An audit ends processes, and so tries none of these. They are read from the job's code: a `try`
around training whose handler may be left other than by an error or an exit, and after which
training goes on. A guess in doubt is left out: what only reads, saves or ends is no recovery.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

# The ways to leave statements: at their end, or by these words. None of them: an error or an exit.
Way: TypeAlias = Literal["next", "continue", "break", "return"]

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_TRIES = (ast.Try, ast.TryStar)
_LEAVING: Mapping[type[ast.stmt], frozenset[Way]] = {
    ast.Raise: frozenset(),
    ast.Return: frozenset({"return"}),
    ast.Break: frozenset({"break"}),
    ast.Continue: frozenset({"continue"}),
}
# Exceptions by which Python, or the job itself, says something else than that training failed.
_NO_FAILURES = re.compile(
    r"Stop|Early|Prune|Done|Finish|Interrupt|Exit|Empty|NotFound|Import|FileExists|AttributeError"
)
_EXITS = frozenset({"exit", "_exit", "quit", "abort", "execv", "execve", "execvp"})
_OPTIMIZER = re.compile(r"opt|solver", re.IGNORECASE)
_READS = re.compile(r"(?:^|_)(?:load|restore|resume|rewind|roll_?back)(?:_|$)", re.IGNORECASE)


def find_recovery_lines(source: str) -> tuple[int, ...]:
    """Return the lines of handlers after which the code of a file trains on."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(sorted(set(_RecoveryFinder(tree).find_recoveries())))


@dataclass(frozen=True)
class _HandlerScope:
    """A statement around a handler: what follows it in its body, and the loop of that body."""

    statement: ast.stmt
    next_statements: Sequence[ast.stmt]
    loop: ast.stmt | None


@dataclass
class _RecoveryFinder:
    """The code of one file; calls are followed by the names of its functions and methods."""

    tree: ast.Module
    _followed_names: set[str] = field(default_factory=set, init=False)

    @cached_property
    def functions(self) -> dict[str, list[_Function]]:
        functions: dict[str, list[_Function]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.setdefault(node.name, []).append(node)
        return functions

    @cached_property
    def names(self) -> set[str]:
        """The names that are used anywhere, as that of a function that is passed on."""
        nodes = (n for n in ast.walk(self.tree) if isinstance(n, ast.Name | ast.Attribute))
        return {_find_name(node) for node in nodes}

    @cached_property
    def methods_by_name(self) -> dict[str, set[str]]:
        """The methods of this file's classes, by the names of the classes and of their objects."""
        classes = {
            node.name: {method.name for method in node.body if isinstance(method, ast.FunctionDef)}
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ClassDef)
        }
        methods_by_name = dict(classes)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                methods = classes.get(_find_name(node.value.func))
                methods_by_name |= {
                    _find_name(target): methods for target in node.targets if methods
                }
        return methods_by_name

    @cached_property
    def looped_functions(self) -> set[str]:
        """The functions that a loop calls, or that call themselves."""
        loops = [node for node in ast.walk(self.tree) if isinstance(node, _LOOPS)]
        bodies = ([loop] if isinstance(loop, ast.While) else loop.body for loop in loops)
        called_names = {name for body in bodies for name in _find_called_names(body)}
        all_functions = (
            (name, function) for name, functions in self.functions.items() for function in functions
        )
        return called_names | {
            name for name, function in all_functions if name in _find_called_names(function.body)
        }

    def find_recoveries(self) -> Iterator[int]:
        """Yield the line of each handler after which training goes on."""
        yield from self._find_body_recoveries(self.tree.body, (), "")
        for name, functions in self.functions.items():
            for function in functions if name in self.names else ():
                yield from self._find_body_recoveries(function.body, (), name)

    def _find_body_recoveries(
        self,
        body: Sequence[ast.stmt],
        outer_levels: tuple[_HandlerScope, ...],
        function: str,
        loop: ast.stmt | None = None,
    ) -> Iterator[int]:
        """Yield the recoveries of statements in a function, each within the levels around it."""
        for number, statement in enumerate(body):
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue  # functions are read by themselves
            levels = (*outer_levels, _HandlerScope(statement, body[number + 1 :], loop))
            if isinstance(statement, _TRIES) and self._trains(statement.body):
                for handler in statement.handlers:
                    if self._continues_training(statement, handler, levels, function):
                        yield handler.lineno
            for inner_body in _find_bodies(statement):
                is_repeated = isinstance(statement, _LOOPS) and inner_body is statement.body
                inner_loop = statement if is_repeated else None
                yield from self._find_body_recoveries(inner_body, levels, function, inner_loop)

    def _continues_training(
        self,
        try_statement: ast.Try | ast.TryStar,
        handler: ast.ExceptHandler,
        levels: tuple[_HandlerScope, ...],
        function: str,
    ) -> bool:
        """Return whether training goes on after a handler, from the innermost level outwards.

        Around a single step a handler may only leave that step out. It recovers where it, or the
        loop that it gets back to, reads something that was saved.
        """
        if _is_no_failure(handler.type):
            return False
        goes_back = self._has_training_loop(try_statement.body) or self._reads(handler.body)
        if goes_back and self._trains(handler.body):
            return True
        ways, has_left_loop = self._find_ways(handler.body), False
        for level in reversed(levels):
            if "next" in ways:
                if goes_back and self._trains(level.next_statements):
                    return True
                ways = ways - {"next"} | self._find_ways(level.next_statements)
            if level.loop is not None:
                reads = has_left_loop and self._reads([level.loop])
                if ways & {"next", "continue"} and (goes_back or reads):
                    return True
                has_left_loop = "break" in ways
                ways = ways & {"return"} | ({"next"} if has_left_loop else set[Way]())
        return goes_back and bool(ways) and function in self.looped_functions

    # -- what statements do --------------------------------------------------------------------

    def _has_training_loop(self, body: Sequence[ast.stmt]) -> bool:
        loops = (node for node in self._walk_reachable(body) if isinstance(node, _LOOPS))
        return any(self._trains(loop.body) for loop in loops)

    def _trains(self, body: Iterable[ast.stmt]) -> bool:
        """Return whether statements make steps: a pass backward alone may be one of a profile."""
        calls = [node for node in self._walk_reachable(body) if isinstance(node, ast.Call)]
        method_names = {
            _find_name(call.func) for call in calls if isinstance(call.func, ast.Attribute)
        }
        return {"backward", "step"} <= method_names or any(map(_is_optimizer_step, calls))

    def _reads(self, body: Iterable[ast.stmt]) -> bool:
        calls = (node for node in self._walk_reachable(body) if isinstance(node, ast.Call))
        return any(_READS.search(_find_name(call.func)) for call in calls)

    def _walk_reachable(self, body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
        """Yield all nodes of statements, and of the functions of this file that they call."""
        waiting, followed_names = list[ast.AST](body), set[str]()
        while waiting:
            for node in ast.walk(waiting.pop()):
                yield node
                name = _find_name(node.func) if isinstance(node, ast.Call) else ""
                if (
                    isinstance(node, ast.Call)
                    and name not in followed_names
                    and self._is_local(node.func)
                ):
                    followed_names.add(name)
                    waiting += self.functions.get(name, [])

    def _is_local(self, function: ast.expr) -> bool:
        """Return whether what is called may be this file's: `model.train()` is torch's."""
        if not isinstance(function, ast.Attribute) or function.attr not in {
            "train",
            "eval",
            "step",
        }:
            return True
        receiver = function.value.func if isinstance(function.value, ast.Call) else function.value
        is_self = isinstance(receiver, ast.Name) and receiver.id == "self"
        return is_self or function.attr in self.methods_by_name.get(_find_name(receiver), set())

    def _find_ways(self, body: Sequence[ast.stmt]) -> set[Way]:
        """Return the ways in which statements may be left."""
        ways: set[Way] = set()
        for statement in body:
            statement_ways = self._find_statement_ways(statement)
            ways |= statement_ways - {"next"}
            if "next" not in statement_ways:
                return ways
        return ways | {"next"}

    def _find_statement_ways(self, statement: ast.stmt) -> set[Way]:
        value = statement.value if isinstance(statement, ast.Return | ast.Expr) else None
        if isinstance(value, ast.Call) and self._ends_process(value):
            return set()
        if isinstance(statement, _TRIES):
            handler_ways = (self._find_ways(handler.body) for handler in statement.handlers)
            ways = self._find_ways([*statement.body, *statement.orelse]).union(*handler_ways)
            return ways if self._find_ways(statement.finalbody) else set()
        if isinstance(statement, _LOOPS):
            return self._find_loop_ways(statement)
        if isinstance(statement, ast.If):
            return self._find_ways(statement.body) | self._find_ways(statement.orelse)
        if isinstance(statement, ast.With | ast.AsyncWith):
            return self._find_ways(statement.body)
        return set(_LEAVING.get(type(statement), {"next"}))

    def _find_loop_ways(self, loop: ast.For | ast.AsyncFor | ast.While) -> set[Way]:
        ways, test = self._find_ways(loop.body), getattr(loop, "test", None)
        is_endless = isinstance(test, ast.Constant) and bool(test.value)
        is_left = "break" in ways or not is_endless
        return ways & {"return"} | ({"next"} if is_left else set[Way]())

    def _ends_process(self, call: ast.Call) -> bool:
        """Return whether a call never returns: an exit, or a function that always ends so."""
        name = _find_name(call.func)
        if name in _EXITS:
            return True
        functions = self.functions.get(name, [])
        if not functions or name in self._followed_names:
            return False
        self._followed_names.add(name)
        try:
            return not any(self._find_ways(function.body) for function in functions)
        finally:
            self._followed_names.discard(name)


def _find_bodies(statement: ast.stmt) -> Iterator[Sequence[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for branch in (*getattr(statement, "handlers", []), *getattr(statement, "cases", [])):
        yield branch.body


def _find_called_names(body: Sequence[ast.stmt]) -> set[str]:
    calls = (n for s in body for n in ast.walk(s) if isinstance(n, ast.Call))
    return {_find_name(call.func) for call in calls}


def _find_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_optimizer_step(call: ast.Call) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr != "step":
        return False
    return bool(_OPTIMIZER.search(_find_name(function.value)))


def _is_no_failure(exception_types: ast.expr | None) -> bool:
    """Return whether all exceptions that are caught say something else than a failed training."""
    if exception_types is None:
        return False
    kinds = exception_types.elts if isinstance(exception_types, ast.Tuple) else [exception_types]
    return all(_NO_FAILURES.search(_find_name(kind)) for kind in kinds)
