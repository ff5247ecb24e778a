"""What other packages have registered with chaos: entry points, found and loaded once.

A name that cannot be used is never passed over: it is kept with the reason, and
the command line and the pytest plugin refuse to begin.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any

FAULTS_GROUP, CHECKS_GROUP = "chaos.faults", "chaos.checks"
# Set to "off" for the processes of a job: they strike nobody and judge nothing, and a package
# that is loaded beside a training must not change it.
EXTENSIONS_ENV = "CHAOS_EXTENSIONS"
OFF = "off"


@dataclass(frozen=True)
class Registered:
    """One entry point that can be used; `package` has its version: `chaos-peers 1.0`."""

    name: str
    package: str
    place: str
    what: Any


@dataclass(frozen=True)
class Unusable:
    """One entry point that cannot be used, and why."""

    group: str
    name: str
    package: str
    place: str
    why: str

    def __str__(self) -> str:
        return f"{self.package} registers `{self.name} = {self.place}` in {self.group}: {self.why}"


@dataclass(frozen=True)
class Registry:
    """A group of entry points, in the order of their names."""

    usable: tuple[Registered, ...] = ()
    unusable: tuple[Unusable, ...] = ()

    @property
    def packages(self) -> dict[str, str]:
        """The package of each name."""
        return {found.name: found.package for found in self.usable}


def read_registry(
    group: str,
    *,
    shape: re.Pattern[str],
    taken: Collection[str],
    flaw: Callable[[str, Any], str | None],
) -> Registry:
    """Load what is registered in a group.

    `shape` is what a name looks like, `taken` are chaos's own names, and `flaw`
    says what is wrong with what was loaded, None where nothing is.
    """
    if os.environ.get(EXTENSIONS_ENV) == OFF:
        return Registry()
    points = sorted(metadata.entry_points(group=group), key=lambda p: (p.name, _package(p)))
    times = Counter(point.name for point in points)
    usable: list[Registered] = []
    unusable: list[Unusable] = []
    for point in points:
        what, why = None, next(_misnamed(point, shape, taken, times), None)
        if why is None:
            what, why = _loaded(point, flaw)
        if why is None:
            usable.append(Registered(point.name, _package(point), point.value, what))
        else:
            unusable.append(Unusable(group, point.name, _package(point), point.value, why))
    return Registry(tuple(usable), tuple(unusable))


def _misnamed(
    point: metadata.EntryPoint,
    shape: re.Pattern[str],
    taken: Collection[str],
    times: Counter[str],
) -> Iterator[str]:
    if not shape.fullmatch(point.name):
        yield f"a name here looks like {shape.pattern}"
    if point.name in taken:
        yield "chaos has that name itself"
    if times[point.name] > 1:
        yield f"{times[point.name]} packages register that name"


def _loaded(
    point: metadata.EntryPoint, flaw: Callable[[str, Any], str | None]
) -> tuple[Any, str | None]:
    try:
        what = point.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever their module raises
        return None, f"it cannot be loaded: {type(error).__name__}: {error}"
    return what, flaw(point.name, what)


def _package(point: metadata.EntryPoint) -> str:
    return "an unnamed package" if point.dist is None else f"{point.dist.name} {point.dist.version}"
