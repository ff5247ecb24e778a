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
from chaos.model.masking import MASK, is_secret, mask_text

_CHAOS = Path(__file__).parents[1]
_Loop = ast.For | ast.AsyncFor | ast.While
_AROUND = 2  # lines before it, and as many after it
_LENGTH_MAX = 100
_TEXT = re.compile(r"""(["']).*?\1""")
_NAME = re.compile(r"(\w+)[\"'\]]*\s*[:=]\s*[rbf]*[\"']")


@cache
def is_job_file(file: str) -> bool:
    """Return whether a file of code is neither a library's, nor Python's, nor chaos's."""
    if file.startswith("<") or not file:
        return False
    return not any(file.startswith(f"{folder}/") for folder in _find_library_folders())


@cache
def _find_library_folders() -> tuple[str, ...]:
    installed = sysconfig.get_paths()
    return *(installed[name] for name in ("stdlib", "purelib", "platlib")), str(_CHAOS)


def find_running_line() -> CodeLine | None:
    """Return the innermost line of the job that runs in this thread; None if there is none."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - as `inspect` does
    while frame is not None and not is_job_file(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else _build_line(frame.f_code.co_filename, frame.f_lineno)


def find_outer_loops(frame: FrameType | None) -> tuple[LoopBody, ...]:
    """Return the bodies of the job's loops in which a frame is, the outermost first.

    Where the loop is a library's, the function of the job that it calls for each step is one.
    """
    loops = [*_find_step_function(frame)]
    while frame is not None:
        code, line = frame.f_code, frame.f_lineno
        scope = _find_scope(code) if is_job_file(code.co_filename) else None
        frame_loops = []
        for node in () if scope is None else _walk_scope(scope):
            if isinstance(node, _Loop):
                body = node.body[0].lineno, node.body[-1].end_lineno or 0
                if body[0] <= line <= body[1]:
                    first_line = _find_body_start(node.body)
                    frame_loops.append(
                        LoopBody(file=code.co_filename, first=first_line, last=body[1])
                    )
        loops = [*frame_loops, *loops]
        frame = frame.f_back
    return tuple(loops)


def _find_step_function(frame: FrameType | None) -> Iterator[LoopBody]:
    """Yield the body of the job's function that calls the model, if a library calls it for a step.

    Such as Lightning's `training_step`: it draws, or masks, what the model is then given.
    """
    while frame is not None and frame.f_code.co_filename.startswith(_find_torch_folders()):
        frame = frame.f_back
    if frame is None or frame.f_back is None:
        return
    file, caller_file = frame.f_code.co_filename, frame.f_back.f_code.co_filename
    # A closure of `optimizer.step`, or a function with a decorator of torch's, is in a loop of the
    # job's own.
    is_step = is_job_file(file) and not (
        is_job_file(caller_file) or caller_file.startswith(_find_torch_folders())
    )
    scope = _find_scope(frame.f_code) if is_step else None
    if not isinstance(scope, ast.FunctionDef):
        return
    if not any(isinstance(node, _Loop) for node in _walk_scope(scope)):
        first_line, last_line = _find_body_start(scope.body), scope.body[-1].end_lineno or 0
        yield LoopBody(file=file, first=first_line, last=last_line)


@cache
def _find_torch_folders() -> tuple[str, ...]:
    """Return the folders of what stands between a model and its caller."""
    installed = sysconfig.get_paths()
    return *(f"{installed[name]}/torch/" for name in ("purelib", "platlib")), f"{_CHAOS}/"


def _find_body_start(body: list[ast.stmt]) -> int:
    """Return the first line of a body that is executed: a text alone is not."""
    text_flags = (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        for statement in body
    )
    lines = (
        statement.lineno for statement, is_text in zip(body, text_flags, strict=True) if not is_text
    )
    return next(lines, body[0].lineno)


def find_naming_line(holder: Any, name: Any) -> CodeLine | None:  # as of a census
    """Return the first line of the job that gives a name its value, for what holds it.

    That is a running function, the globals of a file, or an object, by the methods of its class.
    None where there is no such line: a parameter gets its value from the caller.
    """
    if not isinstance(name, str):
        return None
    if type(holder) in (FrameType, GeneratorType):
        code = holder.f_code if type(holder) is FrameType else holder.gi_code
        return _build_named_line(code.co_filename, _find_function_names(code), name)
    if type(holder) is dict:
        file = holder.get("__file__")
        return (
            _build_named_line(file, _find_file_names(file), name) if isinstance(file, str) else None
        )
    return _find_class_names(holder if isinstance(holder, type) else type(holder)).get(name)


def _build_named_line(file: str, lines: Mapping[str, int], name: str) -> CodeLine | None:
    return _build_line(file, lines[name]) if name in lines else None


@cache
def _build_line(file: str, line: int) -> CodeLine:
    lines = linecache.getlines(file)
    first_line = max(1, line - _AROUND)
    context = tuple(map(_mask_line, lines[first_line - 1 : line + _AROUND]))
    return CodeLine(file=file, line=line, first=first_line, around=context)


def _mask_line(line: str) -> str:
    """Return a line of code for a report, without the texts that its names mark as secrets."""
    if any(is_secret(name) for name in _NAME.findall(line)):
        line = _TEXT.sub(MASK, line)
    return mask_text(line.rstrip())[:_LENGTH_MAX]


# -- what a scope names ------------------------------------------------------------------------


@cache
def _parse_file(file: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):  # it is not what was imported
        return ast.Module([], [])


@cache
def _find_file_names(file: str) -> Mapping[str, int]:
    return _find_names(_parse_file(file)) if is_job_file(file) else {}


@cache
def _find_function_names(code: CodeType) -> Mapping[str, int]:
    scope = _find_scope(code)
    return {} if scope is None else _find_names(scope)


@cache
def _find_class_names(kind: type) -> Mapping[str, CodeLine]:
    """Return the attributes, and the buffers, that the methods of a class give their object."""
    line_by_name: dict[str, CodeLine] = {}
    for cls in type.__dict__["__mro__"].__get__(kind):
        for member in list(type.__dict__["__dict__"].__get__(cls).values()):
            if type(member) is FunctionType and is_job_file(member.__code__.co_filename):
                for name, line in _find_method_names(member.__code__).items():
                    line_by_name.setdefault(name, _build_line(member.__code__.co_filename, line))
    return line_by_name


def _find_method_names(code: CodeType) -> Mapping[str, int]:
    scope, line_by_name = _find_scope(code), dict[str, int]()
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
            line_by_name[name] = min(node.lineno, line_by_name.get(name, node.lineno))
    return line_by_name


def _find_names(scope: ast.AST) -> dict[str, int]:
    line_by_name: dict[str, int] = {}
    for node in _walk_scope(scope):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            line_by_name[node.id] = min(node.lineno, line_by_name.get(node.id, node.lineno))
    return line_by_name


def _walk_scope(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, without those of the functions and classes in it."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _walk_scope(node)


@cache
def _find_scope(code: CodeType) -> ast.AST | None:
    if code.co_name == "<module>":
        return _parse_file(code.co_filename)
    for node in ast.walk(_parse_file(code.co_filename)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name:
            # Of code, the first line is that of the first decorator.
            first_line = min(
                (node.lineno, *(decorator.lineno for decorator in node.decorator_list))
            )
            if first_line == code.co_firstlineno:
                return node
    return None
