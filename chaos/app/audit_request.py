"""The request of an audit, in values; a wrong one is refused as it is made."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, get_args

from chaos.app.audit_options import Args, parse_options, split_arguments
from chaos.app.field_checks import require_choice, require_count, require_number, require_switch
from chaos.app.project_defaults import PathLike
from chaos.audit.plans import NodeRange
from chaos.audit.site_category import Question
from chaos.errors import RequestError
from chaos.model.expect import Acceptable, AcceptedFinding, Sampling
from chaos.model.launcher import LAUNCHER_FACTS, Launcher, LauncherFacts, Restart
from chaos.model.plan import PlanBackend
from chaos.model.scenario import Tier

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "question": get_args(Question),
    "sampling": get_args(Sampling),
    "launcher": get_args(Launcher),
    "restart": get_args(Restart),
    "backend": get_args(PlanBackend),
}
_MINIMA = {
    "max_runs": 1,
    "workers": 1,
    "retries": 1,
    "epoch_steps": 1,
    "fit": 1,
    "seed": 0,
    "jobs": 1,
}
_NUMBERS = ("time_limit", "grace", "tolerance")
_SWITCHES = ("module", "exitfirst", "exhaustive", "one_by_one", "continues", "confirm", "explain")
#: Why a launcher that does not take a field needs none.
_NOT_NEEDED = {
    "nodes": "Ray Train's ranks have a node each, and a script for sbatch says how many it has",
    "grace": "no other launcher's jobs are preempted with it",
    "epoch_steps": "with Ray Train a report ends an epoch",
}


class _Exclusion(NamedTuple):
    """A field does not go with another one that has this value."""

    field: str
    other_field: str
    value: str
    problem: str
    hint: str
    #: The field's own value that asks for nothing.
    unless: object = None


_EXCLUSIONS = (
    _Exclusion(
        "restart_args",
        "restart",
        "launcher",
        "{restart_args} are for {restart:command}",
        "Leave out {restart:launcher}.",
    ),
    _Exclusion(
        "jobs",
        "backend",
        "ray",
        "only forked workers run side by side",
        "Add {backend:fork}.",
        unless=1,
    ),
    _Exclusion(
        "address",
        "backend",
        "ray",
        "an audit injects faults into a Ray cluster of its own, and {address} names another",
        "Leave out {backend:ray}, and runs without a cluster are spread over that one.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class AuditRequest:
    """An audit of one script: a field for each option of `chaos audit`, where each is explained."""

    script: Path
    arguments: tuple[str, ...] = ()
    module: bool = False
    question: Question = "spot"
    time_limit: float | None = None
    max_runs: int | None = None
    exitfirst: bool = False
    exhaustive: bool = False
    one_by_one: bool = False
    places: tuple[str, ...] = ()
    continues: bool = False
    accept: tuple[Acceptable | AcceptedFinding, ...] = ()
    sampling: Sampling = "exactly_once"
    tolerance: float | None = None
    confirm: bool = False
    explain: bool = True
    launcher: Launcher | None = None
    workers: int | None = None
    retries: int | None = None
    restart: Restart | None = None
    restart_args: tuple[str, ...] | None = None
    nodes: NodeRange | None = None
    grace: float | None = None
    epoch_steps: int | None = None
    fit: int = 1
    storage: Literal["own"] | None = None
    tier: Mapping[str, Tier] = field(default_factory=dict)
    allow_writes: tuple[Path, ...] = ()
    seed: int = 0
    jobs: int | None = None
    backend: PlanBackend = "fork"
    address: str | None = None
    reports: Path = Path("reports")

    @classmethod
    def parse(cls, script: PathLike, args: Args, options: Mapping[str, Any]) -> Self:
        """Return the request of options as they are written: see `AuditOptions`."""
        return cls(script=Path(script), arguments=split_arguments(args), **parse_options(options))

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Raise `RequestError` for a value that no audit has, or for two that exclude each other.

        Which launcher starts the script may be known later: see `refuse_foreign_fields`.
        """
        for name, choices in _CHOICES.items():
            require_choice(name, getattr(self, name), choices)
        for name, minimum in _MINIMA.items():
            require_count(name, getattr(self, name), minimum)
        for name in _NUMBERS:
            require_number(name, getattr(self, name))
        for name in _SWITCHES:
            require_switch(name, getattr(self, name))
        if self.storage not in (None, "own"):
            raise RequestError(
                "storage is own or the run's; got '{value}'",
                "Write {storage:own} to keep the script's bucket, or leave it out.",
                field="storage",
                value=self.storage,
            )
        self._refuse_exclusions()
        if self.address is not None:
            refuse_invalid_address(self.address)

    def _refuse_exclusions(self) -> None:
        for exclusion in _EXCLUSIONS:
            is_given = self.is_given(exclusion.field)
            is_asking = getattr(self, exclusion.field) != exclusion.unless
            if is_given and is_asking and getattr(self, exclusion.other_field) == exclusion.value:
                raise RequestError(exclusion.problem, exclusion.hint, field=exclusion.field)

    def is_given(self, name: str) -> bool:
        """Return whether a field asks for something."""
        value = getattr(self, name)
        return value is not None and value != _DEFAULTS[name]

    def refuse_foreign_fields(self, facts: LauncherFacts) -> None:
        """Raise `RequestError` for a field, or a backend, that a launcher does not take."""
        for name in _DEFAULTS:
            takers = [row for row in LAUNCHER_FACTS.values() if name in row.audit_fields]
            if self.is_given(name) and takers and facts not in takers:
                raise _build_foreign_error(name, "", takers[0], facts)
        backend = self.backend
        if backend != "fork" and backend != facts.name:  # noqa: PLR1714 - mypy narrows it
            # It is a launcher's name: that of its real processes, too.
            raise _build_foreign_error("backend", backend, LAUNCHER_FACTS[backend], facts)
        restarts = (name for name in ("retries", "restart", "restart_args") if self.is_given(name))
        restart = next(restarts, None)
        if restart is not None and not facts.lacks_feature("queue"):
            raise RequestError(
                "a script for sbatch is started again by Slurm, if it was requeued",
                "Leave it out: the script's own lines say how it begins again.",
                field=restart,
            )


_DEFAULTS: Mapping[str, object] = {
    item.name: {} if item.name == "tier" else item.default for item in fields(AuditRequest)
}


def refuse_invalid_address(address: str) -> None:
    """Raise `RequestError` for an address that is none."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise RequestError(
            "{address:{value}} is no address",
            "Give host:port, as `ray start --head` prints it; never `auto`.",
            value=address,
        )


def _build_foreign_error(
    name: str, value: str, taker: LauncherFacts, facts: LauncherFacts
) -> RequestError:
    """Return the error of a field, or of its value, that only other launchers take."""
    setting = f"{{{name}:{value}}}" if value else f"{{{name}}}"
    launcher = f"{{launcher:{taker.name}}}"
    reason = f": {_NOT_NEEDED[name]}" if name in _NOT_NEEDED else ""
    problem = f"{setting} is for scripts that {taker.name} starts{reason}"
    condition = f"if {taker.name} starts the script"
    if "call" in taker.features:
        problem = f"{setting} needs Ray Train, and {facts.name} starts this script"
        condition = "if the script does call trainer.fit()"
    return RequestError(
        problem, f"Leave {setting} out; or, {condition}, add {launcher}.", field=name
    )
