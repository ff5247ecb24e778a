"""Small wrongs, done to a module one at a time, by its syntax tree.

Comparisons flipped or moved by one, conditions forced, operands and filters
dropped, constants and returns changed. Left alone is what no judgement hangs
on: docstrings and other texts, annotations, decorators, assertions, patterns.
"""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeAlias

# A node, and what shall stand in its place.
Edit: TypeAlias = tuple[ast.expr | ast.stmt, ast.AST]

_FLIPPED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE,
    ast.LtE: ast.Gt, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_BY_ONE: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip
_OTHER_SIGN: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
}  # fmt: skip
_OTHER_CALL = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LARGE = 1000
# Words for readers; and `strict`, which guards against our own bugs as an assertion does.
_TEXTS = {"message", "summary", "strict"}
_FOR_READERS = {"plural"}


@dataclass(frozen=True)
class Mutant:
    """One change of one file, by the bytes that it replaces."""

    path: str
    line: int
    start: int
    end: int
    was: str
    now: str
    key: str

    def applied(self, source: bytes) -> bytes:
        """Return the file with the change in it."""
        return source[: self.start] + self.now.encode() + source[self.end :]

    def __str__(self) -> str:
        was, now = (" ".join(text.split()) for text in (self.was, self.now))
        return f"{self.path}:{self.line}: {was}  ->  {now}"


def mutants(path: str, source: bytes) -> list[Mutant]:
    """Return every mutant of a file, in the order of its lines."""
    lines = source.splitlines(keepends=True)
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line))
    seen: Counter[str] = Counter()
    found = []
    for node, other in _edits(ast.parse(source)):
        start = begins[node.lineno - 1] + node.col_offset
        end = begins[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        was = source[start:end].decode()
        now = ast.unparse(other) if isinstance(other, ast.stmt) else f"({ast.unparse(other)})"
        # Known by its words: what else changes in the file does not change the draw.
        words = f"{path}|{lines[node.lineno - 1].strip().decode()}|{was}|{now}"
        seen[words] += 1
        found.append(Mutant(path, node.lineno, start, end, was, now, key=f"{words}|{seen[words]}"))
    return sorted(found, key=lambda mutant: mutant.start)


def drawn(found: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """Return a sample: the same for the same seed, whatever was mended elsewhere since."""

    def lot(mutant: Mutant) -> bytes:
        return blake2b(f"{seed}|{mutant.key}".encode(), digest_size=8).digest()

    return sorted(found, key=lot)[:count]


def _edits(node: ast.AST) -> Iterator[Edit]:
    for kind, change in _CHANGES:
        if isinstance(node, kind):
            yield from ((node, other) for other in change(node))
    if isinstance(node, ast.If | ast.IfExp):
        yield from ((node.test, ast.Constant(forced)) for forced in (True, False))
    for child in _children(node):
        yield from _edits(child)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what a judgement may hang on."""
    for name, value in ast.iter_fields(node):
        if name in ("decorator_list", "annotation", "returns", "pattern"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_idle(child):
                yield child


def _is_idle(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr() | ast.Assert():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return True
        case ast.keyword(arg=name):
            return name in _TEXTS
        case ast.Call(func=ast.Name(id=name)):
            return name in _FOR_READERS
        case _:
            return False


def _with(node: Any, **fields: Any) -> Any:
    other = copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def _without(values: Sequence[Any], at: int) -> list[Any]:
    return [*values[:at], *values[at + 1 :]]


def _compare(node: ast.Compare) -> Iterator[ast.AST]:
    for table in (_FLIPPED, _BY_ONE):
        for at, op in enumerate(node.ops):
            if type(op) in table:
                ops = [*node.ops[:at], table[type(op)](), *node.ops[at + 1 :]]
                yield _with(node, ops=ops)


def _bool(node: ast.BoolOp) -> Iterator[ast.AST]:
    yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    for at in range(len(node.values)):
        values = _without(node.values, at)
        yield _with(node, values=values) if len(values) > 1 else values[0]


def _unary(node: ast.UnaryOp) -> Iterator[ast.AST]:
    if isinstance(node.op, ast.Not | ast.USub):
        yield node.operand


def _binary(node: ast.BinOp | ast.AugAssign) -> Iterator[ast.AST]:
    if type(node.op) in _OTHER_SIGN:
        yield _with(node, op=_OTHER_SIGN[type(node.op)]())


def _constant(node: ast.Constant) -> Iterator[ast.AST]:
    match node.value:
        case bool():
            yield ast.Constant(not node.value)
        case int() | float() if abs(node.value) < _LARGE:
            yield ast.Constant(node.value + 1)
            yield ast.Constant(node.value - 1)
        case int() | float():
            yield ast.Constant(node.value * 2)
            yield ast.Constant(0)
        case str() if not re.search(r"\s", node.value):
            yield ast.Constant(f"XX{node.value}")


def _filter(
    node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp,
) -> Iterator[ast.AST]:
    for at, loop in enumerate(node.generators):
        for condition in range(len(loop.ifs)):
            loose = _with(loop, ifs=_without(loop.ifs, condition))
            generators = [*node.generators[:at], loose, *node.generators[at + 1 :]]
            yield _with(node, generators=generators)


def _return(node: ast.Return) -> Iterator[ast.AST]:
    is_nothing = isinstance(node.value, ast.Constant) and node.value.value is None
    if node.value is not None and not is_nothing:
        yield ast.Return(ast.Constant(None))


def _statement(node: ast.Expr) -> Iterator[ast.AST]:
    if isinstance(node.value, ast.Yield | ast.YieldFrom):
        yield ast.parse("yield from ()").body[0]
    elif isinstance(node.value, ast.Call):
        yield ast.Pass()


def _continue(node: ast.Continue) -> Iterator[ast.AST]:
    yield ast.Break()


def _call(node: ast.Call) -> Iterator[ast.AST]:
    if isinstance(node.func, ast.Name) and node.func.id in _OTHER_CALL:
        yield _with(node, func=ast.Name(_OTHER_CALL[node.func.id]))


_CHANGES: Sequence[tuple[Any, Callable[[Any], Iterator[ast.AST]]]] = (
    (ast.Compare, _compare),
    (ast.BoolOp, _bool),
    (ast.UnaryOp, _unary),
    (ast.BinOp | ast.AugAssign, _binary),
    (ast.Constant, _constant),
    (ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, _filter),
    (ast.Return, _return),
    (ast.Expr, _statement),
    (ast.Continue, _continue),
    (ast.Call, _call),
)
