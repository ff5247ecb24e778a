"""The faults of chaos, and the faults and checks of other packages: entry points, loaded once.

chaos's own faults are the files of `chaos/faults`; other packages register theirs as entry points
of the group `chaos.faults`, and checks of the group `chaos.checks`. A name that cannot be used is
never ignored: it is kept with the reason, and the command line and the pytest plugin refuse to
begin.
"""

import inspect
import json
import os
import pkgutil
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Any

from chaos import faults
from chaos.faults.base import ENDS, FAMILIES, Fault
from chaos.faults.world import Outcome, RefusedError, Release, Target, World
from chaos.installed import CHECKS_GROUP, FAULTS_GROUP

# Set to "off" for the processes of a job: they inject nothing and judge nothing, and a package
# that is loaded beside a training must not change it.
EXTENSIONS_ENV = "CHAOS_EXTENSIONS"
OFF = "off"

_FAULT_NAME, _CHECK_NAME = re.compile(r"[a-z][a-z0-9_]*"), re.compile(r"[a-z][a-z0-9-]*")
_INJECT = ("world", "target", "release")

# The order in which faults are listed and stand in plan.json, kept so that a plan is written as it
# always was. A fault that is not named comes after them: a new one needs no line here.
_FIRST = (
    *("kill_worker", "raise_in_worker", "pause_worker", "slow_worker", "hang_worker"),
    *("poison_step", "exhaust_memory"),
    *("kill_node", "freeze_node", "partition_node", "preempt_node"),
    *("withhold_capacity", "return_capacity"),
    *("kill_driver", "kill_controller", "kill_gcs"),
    *("fail_upload", "slow_upload", "torn_checkpoint", "disk_full", "delayed_visibility"),
)


@dataclass(frozen=True)
class Registered:
    """One entry point."""

    name: str
    #: with its version: `chaos-peers 1.0`
    package: str
    place: str
    what: Any
    group: str = ""
    #: the reason why it cannot be used
    why: str | None = None

    def __str__(self) -> str:
        return f"{self.package} registers `{self.name} = {self.place}` in {self.group}: {self.why}"


@dataclass(frozen=True)
class Registry:
    """A group of entry points, in the order of their names."""

    usable: tuple[Registered, ...] = ()
    unusable: tuple[Registered, ...] = ()

    @property
    def packages(self) -> dict[str, str]:
        return {found.name: found.package for found in self.usable}


def own_faults() -> dict[str, type[Fault]]:
    """Return chaos's own faults by name: the file `kill_node.py` holds the class `KillNode`."""
    names = [module.name for module in pkgutil.iter_modules(faults.__path__)]
    order = {name: number for number, name in enumerate(_FIRST)}
    found: dict[str, type[Fault]] = {}
    for name in sorted(names, key=lambda name: (order.get(name, len(order)), name)):
        module = import_module(f"{faults.__name__}.{name}")
        fault = getattr(module, name.title().replace("_", ""), None)
        if isinstance(fault, type) and issubclass(fault, Fault):
            found[name] = fault
    return found


def registered_faults(*, taken: Collection[str], places: Collection[str]) -> Registry:
    """Return the faults that other packages have registered.

    `taken` are the names of chaos's own, `places` the words in which a place is written.
    """
    return read_registry(
        FAULTS_GROUP,
        shape=_FAULT_NAME,
        taken=taken,
        flaw=lambda _, what: next(fault_flaws(what, places), None),
    )


def registered_checks(*, taken: Collection[str]) -> Registry:
    """Return the checks that other packages have registered; `taken` are chaos's own names."""
    return read_registry(
        CHECKS_GROUP,
        shape=_CHECK_NAME,
        taken=taken,
        flaw=lambda *found: next(_check_flaws(*found), None),
    )


def read_registry(
    group: str,
    *,
    shape: re.Pattern[str],
    taken: Collection[str],
    flaw: Callable[[str, Any], str | None],
) -> Registry:
    """Load the entry points of a group.

    `shape` is the pattern of a name, `taken` are chaos's own names, and `flaw` returns the defect
    of a loaded object, None without one.
    """
    if os.environ.get(EXTENSIONS_ENV) == OFF:
        return Registry()
    points = sorted(metadata.entry_points(group=group), key=lambda p: (p.name, _package(p)))
    times = Counter(point.name for point in points)
    found: list[Registered] = []
    for point in points:
        what, why = None, next(_misnamed(point, shape, taken, times), None)
        if why is None:
            what, why = _loaded(point, flaw)
        found.append(Registered(point.name, _package(point), point.value, what, group, why))
    usable = tuple(each for each in found if each.why is None)
    return Registry(usable, tuple(each for each in found if each.why is not None))


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


def fault_flaws(what: Any, places: Collection[str]) -> Iterator[str]:  # noqa: ANN401 - anything
    """Yield the reasons why an object is no fault, most basic first."""
    if not (isinstance(what, type) and issubclass(what, Fault)):
        yield "a fault is a subclass of chaos.faults.base.Fault"
        return
    if (
        what.inject is Fault.inject
        or tuple(inspect.signature(what.inject).parameters)[1:] != _INJECT
    ):
        yield f"it has no method inject(self, {', '.join(_INJECT)})"
    yield from _facts_missing(what)
    if ambiguous := sorted(set(what.model_fields) & set(places)):
        yield f"its setting {ambiguous[0]} would be taken for a place"
    try:
        what.model_json_schema()
    except Exception as error:  # noqa: BLE001 - pydantic has many ways to say it
        yield f"its settings have no JSON Schema: {type(error).__name__}: {error}"


def _facts_missing(what: type[Fault]) -> Iterator[str]:
    if "rank" not in what.model_fields and getattr(what, "rank", 0) is not None:
        yield "it has no rank: `rank: ClassVar[None] = None` is the rank at its place"
    if getattr(what, "family", None) not in FAMILIES:
        yield f"it does not state its family: `family = …`, one of {', '.join(FAMILIES)}"
    ends = getattr(what, "ends_attempt", None)
    if ends not in ENDS and not isinstance(ends, property):
        one_of = ", ".join(ENDS)
        yield f"it does not state whether it ends the attempt: `ends_attempt = …`, one of {one_of}"
    if not what.__doc__:
        yield "it has no docstring for `chaos list`"


def _check_flaws(name: str, what: Any) -> Iterator[str]:  # noqa: ANN401 - anything
    """Yield the reasons why an object is no check, most basic first."""
    own = getattr(what, "NAME", None)
    if own != name:
        yield f"it is to be a module whose NAME is {name!r}, and NAME is {own!r}"
    check = getattr(what, "check", None)
    if not callable(check) or len(inspect.signature(check).parameters) != 1:
        yield "it has no function check(analysis)"
    if not what.__doc__ or not getattr(check, "__doc__", None):
        yield "it and its check need docstrings for `chaos list`"


class AbsentFault(Fault):
    """A fault of a plan whose package is not installed here: its key, settings and package.

    It keeps the plan readable: the run is shown and judged, as inconclusive, and its other
    processes hold their workers at the place as planned.
    """

    family = "worker"
    ends_attempt = "always"

    kind: str
    settings: dict[str, Any]
    package: str

    @property
    def rank(self) -> int | None:
        rank: int | None = self.settings.get("rank")
        return rank

    def inject(self, world: World, target: Target, release: Release) -> Outcome:
        """Refuse: without its package, the harm is not known."""
        del world, target, release
        raise RefusedError(self.why)

    @property
    def why(self) -> str:
        """The package that is missing, in a sentence."""
        return f"{self.kind} is of the package {self.package}, which is not installed here"

    def __str__(self) -> str:
        return f"{self.kind} (of {self.package}, not installed here)"


def with_absent(plan: bytes, known: Collection[str]) -> bytes:
    """Return a plan's JSON with the faults of packages that are not here marked as absent.

    A fault is marked only if its package was named for it: any other unknown key is a mistake. Left
    out are keys that hold nothing: faults that were installed, and not used.
    """
    value = json.loads(plan)
    ops = value.get("ops") if isinstance(value, dict) else None
    if isinstance(ops, list):
        value["ops"] = [_marked(op, known) if isinstance(op, dict) else op for op in ops]
    return json.dumps(value).encode()


def _marked(op: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    kept = {key: value for key, value in op.items() if key in known or value is not None}
    foreign = next((k for k in kept if k not in known and isinstance(kept[k], dict)), None)
    if foreign is not None and isinstance(op.get("package"), str):
        absent = {"kind": foreign, "settings": kept.pop(foreign), "package": op["package"]}
        kept["absent"] = absent
    return kept
