"""The launchers that are installed, by name: chaos's own, and registered ones.

A launcher of an extension or of another package is an entry point of the group `chaos.launchers`:
an instance of `LauncherPolicy`. Names are read as this module is imported; a launcher itself is
imported when something is asked of it.
"""

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Literal, TypeAlias

from chaos.errors import UsageError
from chaos.extension_modules import list_own_entry_points
from chaos.installation import LAUNCHERS_GROUP
from chaos.model.launcher_policy import LauncherPolicy
from chaos.registry import Registry, list_launcher_entry_points, load_registry

#: The launcher of a scenario that names none.
DEFAULT_LAUNCHER = "ray"
_OWN_LAUNCHERS = {
    name: f"chaos.launch.{name}.launcher:LAUNCHER" for name in ("ray", "torchrun", "python")
}
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class LauncherTable(Mapping[str, LauncherPolicy]):
    """The installed launchers by name, each imported at its first use."""

    def __init__(self) -> None:
        self._extension_points = {
            point.name: point for point in list_own_entry_points(LAUNCHERS_GROUP)
        }
        own_names = (*_OWN_LAUNCHERS, *self._extension_points)
        self._foreign_points = {
            point.name: point
            for point in list_launcher_entry_points()
            if point.name not in own_names and _NAME.fullmatch(point.name)
        }
        self._names = (*own_names, *self._foreign_points)
        self._loaded: dict[str, LauncherPolicy] = {}

    def __getitem__(self, name: str) -> LauncherPolicy:
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def is_foreign(self, name: str) -> bool:
        """Return whether a launcher is another package's."""
        return name in self._foreign_points

    def _load(self, name: str) -> LauncherPolicy:
        if name in _OWN_LAUNCHERS:
            launcher: LauncherPolicy = resolve_name(_OWN_LAUNCHERS[name])
            return launcher
        if name in self._extension_points:
            return _load_point(self._extension_points[name])
        return self._load_foreign(self._foreign_points[name])

    @staticmethod
    def _load_foreign(point: EntryPoint) -> LauncherPolicy:
        """Return another package's launcher; raises `UsageError` for what cannot be used."""
        try:
            launcher = _load_point(point)
        except (Exception, SystemExit) as error:
            problem = f"it cannot be loaded: {type(error).__name__}: {error}"
            raise UsageError(_describe_problem(point, problem), _HINT) from error
        if (flaw := _find_flaw(point.name, launcher)) is not None:
            raise UsageError(_describe_problem(point, flaw), _HINT)
        return launcher


_HINT = "Mend the package or uninstall it."


def _load_point(point: EntryPoint) -> LauncherPolicy:
    launcher: LauncherPolicy = point.load()
    return launcher


def _describe_problem(point: EntryPoint, problem: str) -> str:
    return f"the launcher {point.name} is registered as {point.value}: {problem}"


def _find_flaw(name: str, launcher: object) -> str | None:
    """Return why an object is no launcher of this name."""
    if not isinstance(launcher, LauncherPolicy):
        return "a launcher is an instance of chaos.model.launcher_policy.LauncherPolicy"
    return None if launcher.name == name else f"its name is {launcher.name!r}"


LAUNCHER_FACTS = LauncherTable()
if TYPE_CHECKING:
    Launcher: TypeAlias = str
else:  # the names are those of the installed launchers
    Launcher = Literal[tuple(LAUNCHER_FACTS)]


def load_registered_launchers() -> Registry:
    """Return the launchers that other packages have registered."""
    own_names = [name for name in LAUNCHER_FACTS if not LAUNCHER_FACTS.is_foreign(name)]
    return load_registry(
        LAUNCHERS_GROUP, name_pattern=_NAME, taken_names=own_names, find_flaw=_find_flaw
    )


def find_launcher(name: object) -> Launcher:
    """Return the launcher of this name; the usual one, where none has it.

    In an event of a call, a launcher that is a command names itself as the trainer.
    """
    return next((launcher for launcher in LAUNCHER_FACTS if launcher == name), DEFAULT_LAUNCHER)


def build_launcher_line(launcher: Launcher) -> str:
    """Return the line of a scenario's `job` that names a launcher; none for the usual one."""
    return "" if launcher == DEFAULT_LAUNCHER else f"  launcher: {launcher}\n"
