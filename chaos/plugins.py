"""The faults of chaos, and the faults and checks of other packages: entry points, loaded once.

chaos's own faults are the files of `chaos/faults`; other packages register theirs as entry points
of the group `chaos.faults`, and checks of the group `chaos.checks`. A name that cannot be used is
never ignored: it is kept with the reason, and the command line and the pytest plugin refuse to
begin.
"""

import inspect
import json
import pkgutil
import re
from collections.abc import Collection, Iterator
from importlib import import_module
from typing import Any

import chaos.faults as faults  # noqa: PLR0402 (`from chaos` would ask for its faults)
from chaos.extension_modules import list_own_entry_points
from chaos.faults.base import ENDS, FAMILIES, Fault
from chaos.faults.world import Outcome, RefusedError, Target, WorkerRelease, World
from chaos.installation import CHECKS_GROUP, FAULTS_GROUP
from chaos.registry import Registry, load_registry

_FAULT_NAME, _CHECK_NAME = re.compile(r"[a-z][a-z0-9_]*"), re.compile(r"[a-z][a-z0-9-]*")
_INJECT_PARAMETERS = ("world", "target", "release")

# The order in which faults are listed and stand in plan.json, kept so that a plan is written as it
# always was. A fault that is not named comes after them: a new one needs no line here.
_FAULT_ORDER = (
    *("kill_worker", "raise_in_worker", "pause_worker", "slow_worker", "hang_worker"),
    *("poison_step", "exhaust_memory"),
    *("kill_node", "freeze_node", "partition_node", "preempt_node"),
    *("withhold_capacity", "return_capacity"),
    *("kill_driver", "kill_controller", "kill_gcs"),
    *("fail_upload", "slow_upload", "torn_checkpoint", "disk_full", "delayed_visibility"),
)


def load_builtin_faults() -> dict[str, type[Fault]]:
    """Return chaos's own faults by name, with those of its extensions.

    The file `kill_node.py` holds the class `KillNode`; an extension has entry points for its own.
    """
    order = {name: number for number, name in enumerate(_FAULT_ORDER)}
    faults_by_name: dict[str, type[Fault]] = {}
    for module in pkgutil.iter_modules(faults.__path__):
        name = module.name
        fault = getattr(
            import_module(f"{faults.__name__}.{name}"), name.title().replace("_", ""), None
        )
        if isinstance(fault, type) and issubclass(fault, Fault):
            faults_by_name[name] = fault
    faults_by_name |= {point.name: point.load() for point in list_own_entry_points(FAULTS_GROUP)}
    names = sorted(faults_by_name, key=lambda name: (order.get(name, len(order)), name))
    return {name: faults_by_name[name] for name in names}


def load_registered_faults(
    *, taken_names: Collection[str], place_words: Collection[str]
) -> Registry:
    """Return the faults that other packages have registered.

    `taken_names` are those of chaos's own, `place_words` the words in which a place is written.
    """
    return load_registry(
        FAULTS_GROUP,
        name_pattern=_FAULT_NAME,
        taken_names=taken_names,
        find_flaw=lambda _, extension: next(find_fault_flaws(extension, place_words), None),
    )


def load_registered_checks(*, taken_names: Collection[str]) -> Registry:
    """Return the checks that other packages have registered; `taken_names` are chaos's own."""
    return load_registry(
        CHECKS_GROUP,
        name_pattern=_CHECK_NAME,
        taken_names=taken_names,
        find_flaw=lambda *arguments: next(_find_check_flaws(*arguments), None),
    )


def find_fault_flaws(fault_type: Any, place_words: Collection[str]) -> Iterator[str]:  # noqa: ANN401 - anything
    """Yield the reasons why an object is no fault, most basic first."""
    if not (isinstance(fault_type, type) and issubclass(fault_type, Fault)):
        yield "a fault is a subclass of chaos.faults.base.Fault"
        return
    if (
        fault_type.inject is Fault.inject
        or tuple(inspect.signature(fault_type.inject).parameters)[1:] != _INJECT_PARAMETERS
    ):
        yield f"it has no method inject(self, {', '.join(_INJECT_PARAMETERS)})"
    yield from _find_missing_facts(fault_type)
    if ambiguous_settings := sorted(set(fault_type.model_fields) & set(place_words)):
        yield f"its setting {ambiguous_settings[0]} would be taken for a place"
    try:
        fault_type.model_json_schema()
    except Exception as error:  # noqa: BLE001 - pydantic has many ways to say it
        yield f"its settings have no JSON Schema: {type(error).__name__}: {error}"


def _find_missing_facts(fault_type: type[Fault]) -> Iterator[str]:
    if "rank" not in fault_type.model_fields and getattr(fault_type, "rank", 0) is not None:
        yield "it has no rank: `rank: ClassVar[None] = None` is the rank at its place"
    if getattr(fault_type, "family", None) not in FAMILIES:
        yield f"it does not state its family: `family = …`, one of {', '.join(FAMILIES)}"
    ends_attempt = getattr(fault_type, "ends_attempt", None)
    if ends_attempt not in ENDS and not isinstance(ends_attempt, property):
        choices = ", ".join(ENDS)
        yield f"it does not state whether it ends the attempt: `ends_attempt = …`, one of {choices}"
    if not fault_type.__doc__:
        yield "it has no docstring for `chaos list`"


def _find_check_flaws(name: str, check_module: Any) -> Iterator[str]:  # noqa: ANN401 - anything
    """Yield the reasons why an object is no check, most basic first."""
    module_name = getattr(check_module, "NAME", None)
    if module_name != name:
        yield f"it is to be a module whose NAME is {name!r}, and NAME is {module_name!r}"
    check = getattr(check_module, "check", None)
    if not callable(check) or len(inspect.signature(check).parameters) != 1:
        yield "it has no function check(analysis)"
    if not check_module.__doc__ or not getattr(check, "__doc__", None):
        yield "it and its check need docstrings for `chaos list`"
    kinds = getattr(check_module, "KINDS", {})
    if not isinstance(kinds, dict) or not all(map(_CHECK_NAME.fullmatch, kinds)):
        yield "KINDS is to have each kind of its findings by name, with what it means"


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

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        """Refuse: without its package, the harm is not known."""
        del world, target, release
        raise RefusedError(self.absence_reason)

    @property
    def absence_reason(self) -> str:
        """The package that is missing, in a sentence."""
        return f"{self.kind} is of the package {self.package}, which is not installed here"

    def __str__(self) -> str:
        return f"{self.kind} (of {self.package}, not installed here)"


def mark_absent_faults(plan: bytes, known_keys: Collection[str]) -> bytes:
    """Return a plan's JSON with the faults of packages that are not here marked as absent.

    A fault is marked only if its package was named for it: any other unknown key is a mistake. Left
    out are keys that hold nothing: faults that were installed, and not used.
    """
    value = json.loads(plan)
    ops = value.get("ops") if isinstance(value, dict) else None
    if isinstance(ops, list):
        value["ops"] = [
            _mark_absent_fault(op, known_keys) if isinstance(op, dict) else op for op in ops
        ]
    return json.dumps(value).encode()


def _mark_absent_fault(op: dict[str, Any], known_keys: Collection[str]) -> dict[str, Any]:
    settings = {key: value for key, value in op.items() if key in known_keys or value is not None}
    foreign_key = next(
        (name for name in settings if name not in known_keys and isinstance(settings[name], dict)),
        None,
    )
    if foreign_key is not None and isinstance(op.get("package"), str):
        absent_fault = {
            "kind": foreign_key,
            "settings": settings.pop(foreign_key),
            "package": op["package"],
        }
        settings["absent"] = absent_fault
    return settings
