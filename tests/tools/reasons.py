"""The words in which each check says that it is inconclusive, read from its code.

A check says so by `inconclusive(NAME, why)`, or by the `doubts` that it gives to `conclude`. The
texts are followed from there: through local names, and through the functions and properties of
`chaos.check` that yield or return them. What a run fills in is an ellipsis.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import ModuleType
from typing import Any, TypeAlias

from chaos.check.analysis import RunAnalysis
from chaos.check.judge import CHECKS

OPEN = "…"
_DEEP = 12  # calls from a check to its words
Function: TypeAlias = ast.FunctionDef


@dataclass(frozen=True)
class Scope:
    """One function that is read."""

    tree: Function
    module: ModuleType
    #: the texts that its parameters are given
    bound: Mapping[str, str] = field(default_factory=dict)
    depth: int = 0
    #: the local names that are being followed: one may be made of itself
    followed: frozenset[str] = frozenset()

    def nodes(self) -> list[Any]:
        """Return all nodes of its tree in the order of the source."""
        return _nodes(self.tree)


@cache
def _nodes(tree: ast.AST) -> list[Any]:
    found = (node for node in ast.walk(tree) if isinstance(node, ast.expr | ast.stmt))
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


@cache
def _calls(module: ModuleType) -> list[tuple[ast.FunctionDef, list[ast.Call]]]:
    """Return the functions of a module, each with the calls in it."""
    tree = ast.parse(inspect.getsource(module))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [(f, [n for n in ast.walk(f) if isinstance(n, ast.Call)]) for f in functions]


def reasons(name: str) -> tuple[str, ...]:
    """Return the words of one of chaos's own checks, in the order of its code, each once."""
    check = {each.NAME: each for each in CHECKS}[name]
    module = sys.modules[check.check.__module__]
    said = dict.fromkeys(_said(Scope(_tree(check.check), module)))
    return tuple(text for text in said if any(letter.isalpha() for letter in text))


def _said(scope: Scope) -> Iterator[str]:
    """Yield what a function says that judges, or that it lets another one say."""
    for node in scope.nodes():
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id == "inconclusive":
            yield from _texts(node.args[1], scope)
        elif node.func.id == "conclude":
            for keyword in node.keywords:
                if keyword.arg == "doubts":
                    yield from _texts(keyword.value, scope)
        elif (inner := _called(node, scope)) is not None and _judges(inner.tree):
            yield from _said(inner)


def _judges(tree: Function) -> bool:
    return tree.returns is not None and "CheckResult" in ast.unparse(tree.returns)


# -- the functions behind names ------------------------------------------------------------------


@cache
def _tree(function: Any) -> Function:
    tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return tree


def _called(node: ast.Call, scope: Scope) -> Scope | None:
    """Return a function of `chaos.check` that is called, with the texts that it is given."""
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    found = inspect.unwrap(vars(scope.module).get(name, None) or len)
    if not inspect.isfunction(found) or not found.__module__.startswith(
        ("chaos.check.", "chaos.resume.")
    ):
        return None
    return _within(found, scope, node) if scope.depth < _DEEP else None


def _within(function: Any, scope: Scope, node: ast.Call | None = None) -> Scope:
    tree = _tree(function)
    bound = {}
    if node is not None:
        names = [argument.arg for argument in tree.args.args]
        given = [*zip(names, node.args, strict=False)]
        given += [(keyword.arg or "", keyword.value) for keyword in node.keywords]
        bound = {n: text for n, v in given if (text := _one(v, scope)) not in (None, OPEN)}
    return Scope(tree, sys.modules[function.__module__], bound, scope.depth + 1)


def _property(name: str, scope: Scope) -> Scope | None:
    """Return the property of an analysis, or of a class of the module, by its name."""
    classes = [RunAnalysis, *(c for c in vars(scope.module).values() if inspect.isclass(c))]
    for cls in classes:
        made = vars(cls).get(name)
        function = getattr(made, "fget", None) or getattr(made, "func", None) or made
        is_ours = cls.__module__.startswith(("chaos.check.", "chaos.resume."))
        if inspect.isfunction(function) and is_ours and scope.depth < _DEEP:
            return _within(function, scope)
    return None


# -- texts ---------------------------------------------------------------------------------------


def _texts(node: ast.expr, scope: Scope) -> Iterator[str]:
    """Yield the texts that an expression may come to."""
    match node:
        case ast.Constant(value=str()) | ast.JoinedStr():
            yield _one(node, scope) or ""
        case ast.Name(id=name):
            yield from _named(name, scope)
        case ast.Call():
            yield from _of_call(node, scope)
        case ast.Attribute(attr=name):
            made = _property(name, scope)
            yield from _of_field(name, scope) if made is None else _returned(made)
        case ast.ListComp() | ast.GeneratorExp():
            yield from _of_comprehension(node, scope)
        case _:
            for part in _parts(node):
                yield from _texts(part, scope)


def _parts(node: ast.expr) -> Sequence[ast.expr]:
    """Return the expressions of which one, or each, is what an expression comes to."""
    match node:
        case ast.NamedExpr(value=value) | ast.Starred(value=value) | ast.Subscript(value=value):
            return [value]
        case ast.IfExp(body=first, orelse=second) | ast.BinOp(left=first, right=second):
            return [first, second]
        case ast.List(elts=values) | ast.Tuple(elts=values) | ast.BoolOp(values=values):
            return values
        case _:
            return []


def _of_comprehension(node: ast.ListComp | ast.GeneratorExp, scope: Scope) -> Iterator[str]:
    if not isinstance(node.elt, ast.Name):
        yield from _texts(node.elt, scope)
        return
    for loop in node.generators:
        for inner in (each for condition in loop.ifs for each in ast.walk(condition)):
            if isinstance(inner, ast.NamedExpr) and inner.target.id == node.elt.id:
                yield from _texts(inner.value, scope)
        if isinstance(loop.target, ast.Name) and loop.target.id == node.elt.id:
            yield from _texts(loop.iter, scope)


def _of_call(node: ast.Call, scope: Scope) -> Iterator[str]:
    """Yield what a function of `chaos.check` returns, or else what any other one is given."""
    inner = _called(node, scope)
    if inner is None and isinstance(node.func, ast.Attribute):
        inner = _property(node.func.attr, scope)
    if inner is not None:
        yield from _returned(inner)
        return
    owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
    if any(isinstance(value, ast.Constant) for value in owner):
        return  # `", ".join(…)`: the run fills it in
    for value in (*owner, *node.args):
        yield from _texts(value, scope)


def _returned(scope: Scope, place: int | None = None) -> Iterator[str]:
    """Yield what a function yields or returns; of tuples, the member at a place."""
    for node in scope.nodes():
        value = node.value if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) else None
        if value is not None:
            yield from _texts(_member(value, place), scope)


def _member(value: ast.expr, place: int | None) -> ast.expr:
    return value.elts[place] if place is not None and isinstance(value, ast.Tuple) else value


def _named(name: str, scope: Scope) -> Iterator[str]:
    """Yield the texts that a name of a function, or of its module, was given."""
    if isinstance(constant := vars(scope.module).get(name), str):
        yield constant
    if name in scope.followed:
        return
    scope = replace(scope, followed=scope.followed | {name})
    for node in scope.nodes():
        for value in _given(name, node):
            yield from _texts(value, scope)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            yield from _unpacked(name, node.targets[0].elts, node.value, scope)


def _given(name: str, node: ast.AST) -> Sequence[ast.expr]:
    """Return what a statement or expression gives to a name, or adds to it."""
    match node:
        case (
            ast.Assign(targets=[ast.Name(id=found)], value=value)
            | ast.Assign(targets=[ast.Subscript(value=ast.Name(id=found))], value=value)
            | ast.AugAssign(target=ast.Name(id=found), value=value)
            | ast.NamedExpr(target=ast.Name(id=found), value=value)
        ) if found == name:
            return [value]
        case ast.Call(func=ast.Attribute(value=ast.Name(id=found)), args=args) if found == name:
            return args
        case _:
            return []


def _unpacked(
    name: str, elements: Sequence[ast.expr], value: ast.expr, scope: Scope
) -> Iterator[str]:
    """Yield what a name is given among others, by a tuple or by a function that returns one."""
    for place, element in enumerate(elements):
        if isinstance(element, ast.Name) and element.id == name:
            inner = _called(value, scope) if isinstance(value, ast.Call) else None
            if inner is not None:
                yield from _returned(inner, place)
            else:
                yield from _texts(_member(value, place), scope)


def _of_field(name: str, scope: Scope) -> Iterator[str]:
    """Yield what the records of a module are made with, by the name of their field."""
    for function, calls in _calls(scope.module) if scope.depth < _DEEP else ():
        inner = Scope(function, scope.module, depth=scope.depth + 1)
        for keyword in (keyword for call in calls for keyword in call.keywords):
            if keyword.arg == name:
                yield from _texts(keyword.value, inner)


def _one(node: ast.expr, scope: Scope) -> str | None:
    """Return an expression as one text, with an ellipsis for what a run fills in."""
    text: str | None = None
    match node:
        case ast.Constant():
            text = str(node.value)
        case ast.JoinedStr(values=values):
            joined = "".join(_one(value, scope) or OPEN for value in values)
            text = re.sub(f"{OPEN}{OPEN}+", OPEN, joined)
        case ast.FormattedValue(value=value):
            text = _one(value, scope)
        case ast.Name(id=name):
            known = {scope.bound[name]} if name in scope.bound else {*_named(name, scope)}
            text = known.pop() if len(known) == 1 else None
        case ast.Attribute(attr=name) if (made := _property(name, scope)) is not None:
            text = next(_returned(made), None)
        case ast.Call(func=ast.Name(id="plural"), args=[_, ast.Constant(value=str(word)), *_]):
            text = f"{OPEN} {word}s"
        case _:
            pass
    return text
