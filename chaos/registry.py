"""Extensions by entry points: what other packages register, loaded and examined.

A name that cannot be used is never ignored: it is kept with the reason, and the command line and
the pytest plugin refuse to begin.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from chaos.extension_modules import is_extension_module
from chaos.installation import CHECKS_GROUP, FAULTS_GROUP, LAUNCHERS_GROUP

# Set to "off" for the processes of a job: they inject nothing and judge nothing, and a package
# that is loaded beside a training must not change it.
EXTENSIONS_ENV = "CHAOS_EXTENSIONS"
EXTENSIONS_OFF = "off"
# Set for the processes of a job whose launcher is another package's: they need its facts alone.
LAUNCHER_ENV = "CHAOS_LAUNCHER"


@dataclass(frozen=True)
class RegisteredExtension:
    """One entry point."""

    name: str
    #: with its version: `chaos-peers 1.0`
    package: str
    object_path: str
    extension: Any
    group: str = ""
    #: the reason why it cannot be used
    problem: str | None = None

    def __str__(self) -> str:
        return (
            f"{self.package} registers `{self.name} = {self.object_path}` in {self.group}: "
            f"{self.problem}"
        )


@dataclass(frozen=True)
class Registry:
    """A group of entry points, in the order of their names."""

    usable: tuple[RegisteredExtension, ...] = ()
    unusable: tuple[RegisteredExtension, ...] = ()

    @property
    def packages(self) -> dict[str, str]:
        return {entry.name: entry.package for entry in self.usable}


def load_registry(
    group: str,
    *,
    name_pattern: re.Pattern[str],
    taken_names: Collection[str],
    find_flaw: Callable[[str, Any], str | None],
) -> Registry:
    """Load the entry points of a group, without those of chaos's own extensions.

    `name_pattern` is the pattern of a name, `taken_names` are chaos's own names, and `find_flaw`
    returns the defect of a loaded object, None without one.
    """
    points = sorted(list_foreign_entry_points(group), key=lambda p: (p.name, _describe_package(p)))
    name_counts = Counter(point.name for point in points)
    entries: list[RegisteredExtension] = []
    for point in points:
        extension, problem = (
            None,
            next(_find_name_flaws(point, name_pattern, taken_names, name_counts), None),
        )
        if problem is None:
            extension, problem = _load_extension(point, find_flaw)
        entries.append(
            RegisteredExtension(
                point.name, _describe_package(point), point.value, extension, group, problem
            )
        )
    usable = tuple(entry for entry in entries if entry.problem is None)
    return Registry(usable, tuple(entry for entry in entries if entry.problem is not None))


def has_foreign_extensions() -> bool:
    """Return whether another package registers a fault, a check or a launcher; none is imported."""
    return any(map(list_foreign_entry_points, (FAULTS_GROUP, CHECKS_GROUP, LAUNCHERS_GROUP)))


def list_foreign_entry_points(group: str) -> list[metadata.EntryPoint]:
    """Return a group's entry points of other packages; in a job's process, its launcher alone."""
    is_off = os.environ.get(EXTENSIONS_ENV) == EXTENSIONS_OFF
    launcher = os.environ.get(LAUNCHER_ENV) if group == LAUNCHERS_GROUP else None
    if is_off and launcher is None:
        return []
    points = metadata.entry_points(group=group)
    foreign_points = (point for point in points if not is_extension_module(point.module))
    return [point for point in foreign_points if not is_off or point.name == launcher]


def _find_name_flaws(
    point: metadata.EntryPoint,
    name_pattern: re.Pattern[str],
    taken_names: Collection[str],
    name_counts: Counter[str],
) -> Iterator[str]:
    if not name_pattern.fullmatch(point.name):
        yield f"a name here looks like {name_pattern.pattern}"
    if point.name in taken_names:
        yield "chaos has that name itself"
    if name_counts[point.name] > 1:
        yield f"{name_counts[point.name]} packages register that name"


def _load_extension(
    point: metadata.EntryPoint, find_flaw: Callable[[str, Any], str | None]
) -> tuple[Any, str | None]:
    try:
        extension = point.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever their module raises
        return None, f"it cannot be loaded: {type(error).__name__}: {error}"
    return extension, find_flaw(point.name, extension)


def _describe_package(point: metadata.EntryPoint) -> str:
    return "an unnamed package" if point.dist is None else f"{point.dist.name} {point.dist.version}"
