"""The files of modules, looked up as Python would for a script; no module is imported."""

import ast
import importlib.util
import os
import sys
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import NamedTuple

_INSTALLED = frozenset({"site-packages", "dist-packages"})
_LIBRARY = Path(sysconfig.get_path("stdlib"))


class ModuleFile(NamedTuple):
    """The file of a module, or of a script, which has no name and is in no package."""

    file: Path
    #: by which `python -m` runs it
    name: str = ""
    #: that its relative imports begin from
    package: str = ""

    @property
    def is_user_code(self) -> bool:
        """Whether it lies where a user keeps code: not Python's, and not the installer's."""
        return is_user_code(self.file)


class Modules:
    """The modules that a script finds: first in `entries`, and then in what is installed here.

    `entries` are the folders that the script has on its path, in their order.
    """

    def __init__(self, entries: Sequence[str | os.PathLike[str]]) -> None:
        self._entries = [os.path.normpath(entry) for entry in entries]
        self._spec = cache(self._find_spec)

    def find(self, name: str) -> ModuleFile | None:
        """Return the Python file of a module; None for one of Python's own, in C, or nowhere."""
        spec = self._spec(name)
        if spec is None or not spec.has_location or not str(spec.origin).endswith(".py"):
            return None
        return ModuleFile(Path(str(spec.origin)), name, spec.parent or "")

    def find_runnable(self, name: str) -> ModuleFile | None:
        """Return the file that `python -m` runs: of a package, its `__main__`."""
        module_file = self.find(f"{name}.__main__") or self.find(name)
        return None if module_file is None else module_file._replace(name=name)

    def find_import_chain(self, name: str) -> dict[str, ModuleFile]:
        """Return the files that an import of a module runs, by name: its packages', its own."""
        parts = name.split(".")
        names = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
        return {
            module_name: module_file
            for module_name in names
            if (module_file := self.find(module_name)) is not None
        }

    def _find_spec(self, name: str) -> ModuleSpec | None:
        parent, _, short_name = name.rpartition(".")
        if not parent:
            return PathFinder.find_spec(name, self._entries) or _installed(name)
        package = self._spec(parent)
        if package is None or package.submodule_search_locations is None:
            return None
        # By its last name alone: of a module in a folder without `__init__.py` the finder would
        # ask the imported package for its path.
        spec = PathFinder.find_spec(short_name, [*package.submodule_search_locations])
        if spec is not None:
            spec.name = name  # by which it knows its package
        return spec


def is_user_code(path: Path) -> bool:
    """Return whether a file or folder is a user's: not Python's, and not the installer's."""
    return not _INSTALLED & set(path.parts) and not path.is_relative_to(_LIBRARY)


def parse_module(source: bytes | str) -> ast.Module:
    """Return the tree of a module; one that is not Python is empty, and fails when it is run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings of odd escapes are of no interest here
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module(body=[], type_ignores=[])


def find_imports(node: ast.stmt, package: str) -> Iterator[str]:
    """Yield the names of all modules that an import may be of; `package` is the importing one's."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = resolve_module("." * node.level + (node.module or ""), package)
        yield from () if base is None else (base, *(f"{base}.{alias.name}" for alias in node.names))


def resolve_module(name: str, package: str) -> str | None:
    """Return the full name of a module, None where a relative one is of no package."""
    try:
        return importlib.util.resolve_name(name, package or None)
    except ImportError:
        return None


def _installed(name: str) -> ModuleSpec | None:
    """Return the spec of a top-level module by the path of this process, which jobs have as well.

    Packages that are installed in place are found by finders of their own.
    """
    if name in sys.stdlib_module_names:
        return None
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
