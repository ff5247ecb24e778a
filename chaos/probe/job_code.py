"""The job's own code: which line of it runs, and which one gives a name its value.

The lines are read from the file of the code, as Python's own tracebacks do.
"""

import ast
import linecache
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, FunctionType, GeneratorType
from typing import Any

from chaos.model.event import CodeLine, LoopBody
from chaos.model.masked import MASK, is_secret, masked_text

_CHAOS = Path(__file__).parents[1]
_AROUND = 2  # lines before it, and as many after it
_LENGTH_MAX = 100
_TEXT = re.compile(r"""(["']).*?\1""")
_NAME = re.compile(r"(\w+)[\"'\]]*\s*[:=]\s*[rbf]*[\"']")


@cache
def is_of_the_job(file: str) -> bool:
    """Return whether a file of code is neither a library's, nor Python's, nor chaos's."""
    if file.startswith("<") or not file:
        return False
    return not any(file.startswith(f"{folder}/") for folder in _libraries())


@cache
def _libraries() -> tuple[str, ...]:
    installed = sysconfig.get_paths()
    return *(installed[name] for name in ("stdlib", "purelib", "platlib")), str(_CHAOS)


def running_line() -> CodeLine | None:
    """Return the innermost line of the job that runs in this thread; None if there is none."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - as `inspect` does
    while frame is not None and not is_of_the_job(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else _line(frame.f_code.co_filename, frame.f_lineno)


def loops_around(frame: FrameType | None) -> tuple[LoopBody, ...]:
    """Return the bodies of the job's loops in which a frame is, the outermost first."""
    found: list[LoopBody] = []
    while frame is not None:
        code, line = frame.f_code, frame.f_lineno
        scope = _scope(code) if is_of_the_job(code.co_filename) else None
        inside = []
        for node in () if scope is None else _own(scope):
            if isinstance(node, ast.For | ast.AsyncFor | ast.While):
                body = node.body[0].lineno, node.body[-1].end_lineno or 0
                if body[0] <= line <= body[1]:
                    first = _first_statement(node.body)
                    inside.append(LoopBody(file=code.co_filename, first=first, last=body[1]))
        found = [*inside, *found]
        frame = frame.f_back
    return tuple(found)


def _first_statement(body: list[ast.stmt]) -> int:
    """Return the first line of a body that is executed: a text alone is not."""
    texts = (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) for one in body)
    lines = (one.lineno for one, is_text in zip(body, texts, strict=True) if not is_text)
    return next(lines, body[0].lineno)


def naming_line(holder: Any, name: Any) -> CodeLine | None:  # as of a census
    """Return the first line of the job that gives a name its value, for what holds it.

    That is a running function, the globals of a file, or an object, by the methods of its class.
    None where there is no such line: a parameter gets its value from the caller.
    """
    if not isinstance(name, str):
        return None
    if type(holder) in (FrameType, GeneratorType):
        code = holder.f_code if type(holder) is FrameType else holder.gi_code
        return _first(code.co_filename, _names_of_function(code), name)
    if type(holder) is dict:
        file = holder.get("__file__")
        return _first(file, _names_of_file(file), name) if isinstance(file, str) else None
    return _names_of_class(holder if isinstance(holder, type) else type(holder)).get(name)


def _first(file: str, lines: Mapping[str, int], name: str) -> CodeLine | None:
    return _line(file, lines[name]) if name in lines else None


@cache
def _line(file: str, line: int) -> CodeLine:
    lines = linecache.getlines(file)
    first = max(1, line - _AROUND)
    around = tuple(map(_shown, lines[first - 1 : line + _AROUND]))
    return CodeLine(file=file, line=line, first=first, around=around)


def _shown(line: str) -> str:
    """Return a line of code for a report, without the texts that its names mark as secrets."""
    if any(is_secret(name) for name in _NAME.findall(line)):
        line = _TEXT.sub(MASK, line)
    return masked_text(line.rstrip())[:_LENGTH_MAX]


# -- what a scope names ------------------------------------------------------------------------


@cache
def _tree(file: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):  # it is not what was imported
        return ast.Module([], [])


@cache
def _names_of_file(file: str) -> Mapping[str, int]:
    return _names(_tree(file)) if is_of_the_job(file) else {}


@cache
def _names_of_function(code: CodeType) -> Mapping[str, int]:
    scope = _scope(code)
    return {} if scope is None else _names(scope)


@cache
def _names_of_class(kind: type) -> Mapping[str, CodeLine]:
    """Return the attributes, and the buffers, that the methods of a class give their object."""
    found: dict[str, CodeLine] = {}
    for cls in type.__dict__["__mro__"].__get__(kind):
        for own in list(type.__dict__["__dict__"].__get__(cls).values()):
            if type(own) is FunctionType and is_of_the_job(own.__code__.co_filename):
                for name, line in _names_of_method(own.__code__).items():
                    found.setdefault(name, _line(own.__code__.co_filename, line))
    return found


def _names_of_method(code: CodeType) -> Mapping[str, int]:
    scope, found = _scope(code), dict[str, int]()
    for node in () if scope is None else ast.walk(scope):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name, ctx=ast.Store()):
                pass
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=owner), attr="register_buffer"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                pass
            case _:
                continue
        if code.co_varnames[:1] == (owner,):
            found[name] = min(node.lineno, found.get(name, node.lineno))
    return found


def _names(scope: ast.AST) -> dict[str, int]:
    found: dict[str, int] = {}
    for node in _own(scope):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = min(node.lineno, found.get(node.id, node.lineno))
    return found


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, without those of the functions and classes in it."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _own(node)


@cache
def _scope(code: CodeType) -> ast.AST | None:
    if code.co_name == "<module>":
        return _tree(code.co_filename)
    for node in ast.walk(_tree(code.co_filename)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name:
            # Of code, the first line is that of the first decorator.
            first = min((node.lineno, *(one.lineno for one in node.decorator_list)))
            if first == code.co_firstlineno:
                return node
    return None
