"""The launchers that are installed, by name: chaos's own, and registered ones.

A launcher of an extension or of another package is an entry point of the group `chaos.launchers`:
an instance of `LauncherPolicy`. Names are read as this module is imported; a launcher itself is
imported when something is asked of it.
"""

import re
from collections.abc import Iterator, Mapping
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from chaos.errors import UsageError
from chaos.extension_modules import list_own_entry_points
from chaos.installation import LAUNCHERS_GROUP
from chaos.model.launcher_policy import LauncherPolicy
from chaos.registry import Registry, list_foreign_entry_points, load_registry

#: The launcher of a scenario that names none.
DEFAULT_LAUNCHER = "ray"
_OWN_LAUNCHERS = {
    name: f"chaos.launch.{name}.launcher:LAUNCHER" for name in ("ray", "torchrun", "python")
}
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class LauncherTable(Mapping[str, LauncherPolicy]):
    """The installed launchers by name, each imported at its first use."""

    def __init__(self) -> None:
        points = list_own_entry_points(LAUNCHERS_GROUP)
        self._places = _OWN_LAUNCHERS | {point.name: point.value for point in points}
        foreign_names = (point.name for point in list_foreign_entry_points(LAUNCHERS_GROUP))
        names = (*self._places, *filter(_NAME.fullmatch, foreign_names))
        self._launchers: dict[str, LauncherPolicy | None] = dict.fromkeys(names)

    def __getitem__(self, name: str) -> LauncherPolicy:
        launcher = self._launchers[name]
        if launcher is None:
            launcher = self._launchers[name] = self._load(name)
        return launcher

    def __iter__(self) -> Iterator[str]:
        return iter(self._launchers)

    def __len__(self) -> int:
        return len(self._launchers)

    def is_foreign(self, name: str) -> bool:
        """Return whether a launcher is another package's."""
        return name not in self._places

    def load_foreign(self) -> Registry:
        """Return the launchers of other packages."""
        return load_registry(
            LAUNCHERS_GROUP, name_pattern=_NAME, taken_names=self._places, find_flaw=_find_flaw
        )

    def _load(self, name: str) -> LauncherPolicy:
        """Return a launcher; raises `UsageError` for one of another package that has a defect."""
        if not self.is_foreign(name):
            return cast("LauncherPolicy", resolve_name(self._places[name]))
        registry = self.load_foreign()
        for entry in registry.unusable:
            if entry.name == name:
                raise UsageError(str(entry), "Mend the package or uninstall it.")
        (launcher,) = (entry.extension for entry in registry.usable if entry.name == name)
        return cast("LauncherPolicy", launcher)


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


def find_launcher(name: object) -> Launcher:
    """Return the launcher of this name; the usual one, where none has it.

    In an event of a call, a launcher that is a command names itself as the trainer.
    """
    return next((launcher for launcher in LAUNCHER_FACTS if launcher == name), DEFAULT_LAUNCHER)


def build_launcher_line(launcher: Launcher) -> str:
    """Return the line of a scenario's `job` that names a launcher; none for the usual one."""
    return "" if launcher == DEFAULT_LAUNCHER else f"  launcher: {launcher}\n"
