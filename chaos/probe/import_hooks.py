"""Functions that are called with a module once it is imported."""

import functools
import importlib.util
import sys
from collections.abc import Callable, Collection, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TypeAlias

Act: TypeAlias = Callable[[ModuleType], object]


def call_after_import(names: Collection[str], action: Act) -> None:
    """Call a function with each of these modules: now with those that are imported, else later."""
    for name in names:
        if (module := sys.modules.get(name)) is not None:
            action(module)
    sys.meta_path.insert(0, _Finder(frozenset(names), action))


class _Finder(MetaPathFinder):
    """A finder that finds as the others do, and has the loader call a function once it is done."""

    def __init__(self, names: frozenset[str], action: Act) -> None:
        self._names = names
        self._action = action
        self._searching: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if name not in self._names or name in self._searching:
            return None
        self._searching.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._searching.discard(name)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = self._wrap_execute(spec.loader.exec_module)  # type: ignore[method-assign, assignment]
        return spec

    def _wrap_execute(self, execute: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
        @functools.wraps(execute)
        def execute_and_act(module: ModuleType) -> None:
            execute(module)
            self._action(module)

        return execute_and_act
