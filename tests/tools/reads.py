"""The events and tables that each check reads, recorded while it judges runs with a known answer.

The runs are those of `tests/recorded` and the histories of `tests/check/test_judge_golden.py`. A
table is a cached property of `RunAnalysis` or of `RunTables`: the code that asks for one, and the
code that asks a history for events, is found among the frames that are open then.
"""

import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from types import CodeType, FrameType
from typing import Any

import pytest

from chaos.check.analysis import RunAnalysis, RunTables
from chaos.check.judge import CHECKS, judge
from chaos.model.event import Event
from chaos.model.history import History
from chaos.resume.files import RunFiles
from chaos.resume.state_snapshots import StateSnapshots
from tests.check.shorthand import plan_of, told_in
from tests.check.test_judge_golden import ROWS
from tests.recorded.guard import Answer, answers

PLACED = "placed"  # what is done before any table is made: see `RunAnalysis.__post_init__`
_CONTAINER = "run"  # the tables below it are named one by one


@dataclass
class Reader:
    """One check, or one table, with all that it was seen to read itself."""

    events: set[str] = field(default_factory=set)
    tables: set[str] = field(default_factory=set)


@cache
def readers() -> tuple[Mapping[str, Reader], dict[str, Answer]]:
    """Return what each check and each table reads, by its name, and the answer of each run."""
    found: defaultdict[str, Reader] = defaultdict(Reader)
    with _recording(found):
        for baseline, kept, broken, _, unseen in ROWS.values():
            for line in filter(None, (kept, broken, unseen)):
                judge(plan_of(line), told_in(line), told_in(baseline))
        told = answers()
    found.pop(_CONTAINER, None)
    return found, told


def tables_of(cls: type) -> dict[str, Callable[..., Any]]:
    """Return the functions of a class's tables, by their names."""
    return {
        name: made.func
        for name, made in vars(cls).items()
        if isinstance(made, cached_property) and not name.startswith("_")
    }


@contextmanager
def _recording(found: defaultdict[str, Reader]) -> Iterator[None]:
    """Record, while the context lasts, who asks for which events and tables."""
    names = _names()
    numbers_of: Any = History._find_numbers

    def asked(history: History, kind: type[Event]) -> Any:
        if (reader := _reader(names)) is not None:
            found[reader].events.add(kind.__name__)
        return numbers_of(history, kind)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(History, "_find_numbers", asked)
        for cls, prefix in ((RunAnalysis, ""), (RunTables, "run.")):
            patch.setattr(cls, "__getattribute__", _telling(found, names, cls, prefix))
        yield


def _telling(
    found: defaultdict[str, Reader], names: Mapping[CodeType, str], cls: type, prefix: str
) -> Callable[[Any, str], Any]:
    """Return a `__getattribute__` that records who asks for a table, made or not."""
    tables = tables_of(cls)

    def get(owner: Any, name: str) -> Any:
        if name in tables and name != _CONTAINER:
            reader = _reader(names)
            if reader not in (None, prefix + name):
                found[str(reader)].tables.add(prefix + name)
        return object.__getattribute__(owner, name)

    return get


def _names() -> dict[CodeType, str]:
    """Return the name of the check or table that each piece of code belongs to."""
    functions: list[tuple[str, Any]] = [(check.NAME, check.check) for check in CHECKS]
    functions += [(PLACED, RunAnalysis.__post_init__)]
    functions += tables_of(RunAnalysis).items()
    functions += ((f"run.{name}", made) for name, made in tables_of(RunTables).items())
    for table, cls in (("run.files", RunFiles), ("run.snapshots", StateSnapshots)):
        own = (getattr(made, "func", made) for made in vars(cls).values())
        functions += ((table, made) for made in own if inspect.isfunction(made))
    return {code: name for name, made in functions for code in _codes(made.__code__)}


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _reader(names: Mapping[CodeType, str]) -> str | None:
    """Return the check or table that runs now, the innermost; None outside of all."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code in names:
            return names[frame.f_code]
        frame = frame.f_back
    return None
