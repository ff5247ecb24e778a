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
_OTHER_NEWS = re.compile(
    r"Stop|Early|Prune|Done|Finish|Interrupt|Exit|Empty|NotFound|Import|FileExists|AttributeError"
)
_EXITS = frozenset({"exit", "_exit", "quit", "abort", "execv", "execve", "execvp"})
_OPTIMIZER = re.compile(r"opt|solver", re.IGNORECASE)
_READS = re.compile(r"(?:^|_)(?:load|restore|resume|rewind|roll_?back)(?:_|$)", re.IGNORECASE)


def recovery_lines(source: str) -> tuple[int, ...]:
    """Return the lines of handlers after which the code of a file trains on."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(sorted(set(_Code(tree).recoveries())))


@dataclass(frozen=True)
class _Level:
    """A statement around a handler: what follows it in its body, and the loop of that body."""

    statement: ast.stmt
    rest: Sequence[ast.stmt]
    loop: ast.stmt | None


@dataclass
class _Code:
    """The code of one file; calls are followed by the names of its functions and methods."""

    tree: ast.Module
    _following: set[str] = field(default_factory=set, init=False)

    @cached_property
    def functions(self) -> dict[str, list[_Function]]:
        found: dict[str, list[_Function]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.setdefault(node.name, []).append(node)
        return found

    @cached_property
    def names(self) -> set[str]:
        """The names that are used anywhere, as that of a function that is passed on."""
        used = (n for n in ast.walk(self.tree) if isinstance(n, ast.Name | ast.Attribute))
        return {_name_of(node) for node in used}

    @cached_property
    def objects(self) -> dict[str, set[str]]:
        """The methods of this file's classes, by the names of the classes and of their objects."""
        classes = {
            node.name: {method.name for method in node.body if isinstance(method, ast.FunctionDef)}
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ClassDef)
        }
        found = dict(classes)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                methods = classes.get(_name_of(node.value.func))
                found |= {_name_of(target): methods for target in node.targets if methods}
        return found

    @cached_property
    def called_in_loops(self) -> set[str]:
        """The functions that a loop calls, or that call themselves."""
        loops = [node for node in ast.walk(self.tree) if isinstance(node, _LOOPS)]
        bodies = ([loop] if isinstance(loop, ast.While) else loop.body for loop in loops)
        found = {name for body in bodies for name in _called(body)}
        every = ((name, function) for name, of in self.functions.items() for function in of)
        return found | {name for name, function in every if name in _called(function.body)}

    def recoveries(self) -> Iterator[int]:
        """Yield the line of each handler after which training goes on."""
        yield from self._recoveries_of(self.tree.body, (), "")
        for name, functions in self.functions.items():
            for function in functions if name in self.names else ():
                yield from self._recoveries_of(function.body, (), name)

    def _recoveries_of(
        self,
        body: Sequence[ast.stmt],
        around: tuple[_Level, ...],
        function: str,
        loop: ast.stmt | None = None,
    ) -> Iterator[int]:
        """Yield the recoveries of statements in a function, each within the levels around it."""
        for number, statement in enumerate(body):
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue  # functions are read by themselves
            levels = (*around, _Level(statement, body[number + 1 :], loop))
            if isinstance(statement, _TRIES) and self._trains(statement.body):
                for handler in statement.handlers:
                    if self._goes_on(statement, handler, levels, function):
                        yield handler.lineno
            for inner in _bodies(statement):
                is_repeated = isinstance(statement, _LOOPS) and inner is statement.body
                within = statement if is_repeated else None
                yield from self._recoveries_of(inner, levels, function, within)

    def _goes_on(
        self,
        guarded: ast.Try | ast.TryStar,
        handler: ast.ExceptHandler,
        levels: tuple[_Level, ...],
        function: str,
    ) -> bool:
        """Return whether training goes on after a handler, from the innermost level outwards.

        Around a single step a handler may only leave that step out. It recovers where it, or the
        loop that it gets back to, reads something that was saved.
        """
        if _is_other_news(handler.type):
            return False
        goes_back = self._has_training_loop(guarded.body) or self._reads(handler.body)
        if goes_back and self._trains(handler.body):
            return True
        ways, has_left_loop = self._ways(handler.body), False
        for level in reversed(levels):
            if "next" in ways:
                if goes_back and self._trains(level.rest):
                    return True
                ways = ways - {"next"} | self._ways(level.rest)
            if level.loop is not None:
                reads = has_left_loop and self._reads([level.loop])
                if ways & {"next", "continue"} and (goes_back or reads):
                    return True
                has_left_loop = "break" in ways
                ways = ways & {"return"} | ({"next"} if has_left_loop else set[Way]())
        return goes_back and bool(ways) and function in self.called_in_loops

    # -- what statements do --------------------------------------------------------------------

    def _has_training_loop(self, body: Sequence[ast.stmt]) -> bool:
        loops = (node for node in self._reached(body) if isinstance(node, _LOOPS))
        return any(self._trains(loop.body) for loop in loops)

    def _trains(self, body: Iterable[ast.stmt]) -> bool:
        """Return whether statements make steps: a pass backward alone may be one of a profile."""
        calls = [node for node in self._reached(body) if isinstance(node, ast.Call)]
        named = {_name_of(call.func) for call in calls if isinstance(call.func, ast.Attribute)}
        return {"backward", "step"} <= named or any(map(_is_optimizers_step, calls))

    def _reads(self, body: Iterable[ast.stmt]) -> bool:
        calls = (node for node in self._reached(body) if isinstance(node, ast.Call))
        return any(_READS.search(_name_of(call.func)) for call in calls)

    def _reached(self, body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
        """Yield all nodes of statements, and of the functions of this file that they call."""
        waiting, seen = list[ast.AST](body), set[str]()
        while waiting:
            for node in ast.walk(waiting.pop()):
                yield node
                name = _name_of(node.func) if isinstance(node, ast.Call) else ""
                if isinstance(node, ast.Call) and name not in seen and self._is_own(node.func):
                    seen.add(name)
                    waiting += self.functions.get(name, [])

    def _is_own(self, called: ast.expr) -> bool:
        """Return whether what is called may be this file's: `model.train()` is torch's."""
        if not isinstance(called, ast.Attribute) or called.attr not in {"train", "eval", "step"}:
            return True
        of = called.value.func if isinstance(called.value, ast.Call) else called.value
        is_self = isinstance(of, ast.Name) and of.id == "self"
        return is_self or called.attr in self.objects.get(_name_of(of), set())

    def _ways(self, body: Sequence[ast.stmt]) -> set[Way]:
        """Return the ways in which statements may be left."""
        ways: set[Way] = set()
        for statement in body:
            of_it = self._ways_of(statement)
            ways |= of_it - {"next"}
            if "next" not in of_it:
                return ways
        return ways | {"next"}

    def _ways_of(self, statement: ast.stmt) -> set[Way]:
        value = statement.value if isinstance(statement, ast.Return | ast.Expr) else None
        if isinstance(value, ast.Call) and self._ends_process(value):
            return set()
        if isinstance(statement, _TRIES):
            handled = (self._ways(handler.body) for handler in statement.handlers)
            ways = self._ways([*statement.body, *statement.orelse]).union(*handled)
            return ways if self._ways(statement.finalbody) else set()
        if isinstance(statement, _LOOPS):
            return self._ways_of_loop(statement)
        if isinstance(statement, ast.If):
            return self._ways(statement.body) | self._ways(statement.orelse)
        if isinstance(statement, ast.With | ast.AsyncWith):
            return self._ways(statement.body)
        return set(_LEAVING.get(type(statement), {"next"}))

    def _ways_of_loop(self, loop: ast.For | ast.AsyncFor | ast.While) -> set[Way]:
        ways, test = self._ways(loop.body), getattr(loop, "test", None)
        is_endless = isinstance(test, ast.Constant) and bool(test.value)
        is_left = "break" in ways or not is_endless
        return ways & {"return"} | ({"next"} if is_left else set[Way]())

    def _ends_process(self, call: ast.Call) -> bool:
        """Return whether a call never returns: an exit, or a function that always ends so."""
        name = _name_of(call.func)
        if name in _EXITS:
            return True
        functions = self.functions.get(name, [])
        if not functions or name in self._following:
            return False
        self._following.add(name)
        try:
            return not any(self._ways(function.body) for function in functions)
        finally:
            self._following.discard(name)


def _bodies(statement: ast.stmt) -> Iterator[Sequence[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for inner in (*getattr(statement, "handlers", []), *getattr(statement, "cases", [])):
        yield inner.body


def _called(body: Sequence[ast.stmt]) -> set[str]:
    calls = (n for s in body for n in ast.walk(s) if isinstance(n, ast.Call))
    return {_name_of(call.func) for call in calls}


def _name_of(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _is_optimizers_step(call: ast.Call) -> bool:
    called = call.func
    if not isinstance(called, ast.Attribute) or called.attr != "step":
        return False
    return bool(_OPTIMIZER.search(_name_of(called.value)))


def _is_other_news(caught: ast.expr | None) -> bool:
    """Return whether all exceptions that are caught say something else than a failed training."""
    if caught is None:
        return False
    kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return all(_OTHER_NEWS.search(_name_of(kind)) for kind in kinds)
