"""The scenario, as a person writes it: job, cluster, faults, expectations and limits.

The YAML is these records, spelled out; `chaos schema` prints their JSON Schema.
"""

from difflib import get_close_matches
from keyword import iskeyword
from typing import Literal, Self, TypeAlias, get_args

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from chaos.faults.base import PLATFORMS, Platform
from chaos.model.arguments import Arguments, merge_restart_args
from chaos.model.draws import Lifetimes
from chaos.model.expect import Expect
from chaos.model.fault_entry import FaultEntry
from chaos.model.launcher import DEFAULT_LAUNCHER, LAUNCHER_FACTS, Launcher
from chaos.model.launcher_facts import Restart
from chaos.model.launcher_policy import LauncherPolicy
from chaos.model.watch import Watch
from chaos.record import Record

Dependency: TypeAlias = Literal["afterok", "afterany"]
Cloud: TypeAlias = Literal["aws", "gcp", "azure"]


class FailureBudget(Record):
    """Ray Train's `FailureConfig`; a setting that is left out keeps Ray's default (0 and -1)."""

    max_failures: int = Field(default=0, ge=-1, description="-1: no limit")
    max_preemption_failures: int = Field(default=-1, ge=-1, description="-1: no limit")


class Retention(Record):
    """Ray Train's `CheckpointConfig`."""

    num_to_keep: PositiveInt | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: Literal["max", "min"] = "max"


SOURCES = ("script", "module", "train_loop")  # the fields that name the code, one of which is given


class Job(Record):
    """The training under test.

    A `script`, or a `module` that is run as `python -m` does, which calls `trainer.fit()` itself or
    is started by torchrun; or a `train_loop`, a `module:function` for which chaos builds the
    `TorchTrainer`. `workers`, `failure` and
    `checkpoint`, if given, replace the script's own settings, and the report notes it. Storage path
    and run name are always chaos's own, unique per run.
    """

    launcher: Launcher = Field(
        default=DEFAULT_LAUNCHER,
        description="`torchrun`: with `workers` processes on this machine; "
        "`failure.max_failures` is its `--max-restarts`. `python`: a script "
        "that trains alone, or starts `workers` processes itself; its command "
        "is started again `failure.max_failures` times. `slurm`: a script for "
        "sbatch, submitted to a Slurm of its own on this machine",
    )
    script: str | None = Field(default=None, description="path, relative to the scenario file")
    module: str | None = Field(
        default=None,
        description="package.module, run as `python -m` and `torchrun -m` do from the working "
        "directory",
    )
    train_loop: str | None = Field(default=None, description="module:function")
    args: Arguments = Field(
        default_factory=dict,
        description="the command line: options by name (`epochs: 4` is `--epochs 4`) or a "
        "list, word for word (`[train, -e, 4, lr=0.1]`); of a train loop its "
        "train_loop_config",
    )
    workers: PositiveInt
    min_workers: PositiveInt | None = Field(
        default=None,
        description="the job is elastic, down to so many workers (Ray Train's "
        "`num_workers=(min, max)`; of torchrun's `--nnodes MIN:MAX` the nodes "
        "that hold them)",
    )
    failure: FailureBudget | None = None
    restart: Restart | None = Field(
        default=None,
        description="who begins again after a failure. `launcher`: Ray Train or torchrun, "
        "by its own retries (left out, that is so). `command`: chaos starts the"
        " script's command again, `failure.max_failures` times. Ray Train's "
        "retries are then the script's own, and torchrun has none",
    )
    restart_args: Arguments = Field(
        default_factory=dict,
        description="with `restart: command`: arguments of every start after the first, "
        "once the job's first save is there, such as `{resume: latest}`. One "
        "that `args` names as well replaces it; a list of words follows the "
        "others",
    )
    checkpoint: Retention | None = None
    env: dict[str, str] = Field(default_factory=dict)
    needs_env: tuple[str, ...] = Field(
        default=(),
        description="environment variables that the job needs; where one is unset, it is skipped",
    )
    needs_modules: tuple[str, ...] = Field(
        default=(),
        description="Python modules that the job needs; where one is not installed, it is skipped",
    )
    needs_backend: Literal["ray", "fork"] | None = Field(
        default=None,
        description="the one backend that has what it is about; on the other one it is skipped",
    )
    inputs: tuple[str, ...] = Field(
        default=(),
        description="further files that the job's outcome depends on, and so a cached baseline's",
    )
    trial: NonNegativeInt | None = Field(
        default=None,
        description="of a Ray Tune experiment: the trial that faults are injected into, "
        "counted from 0 in the order in which grid and random search make them;"
        " the others must not notice",
    )
    fit: PositiveInt = Field(
        default=1,
        description="which call of `trainer.fit()` has faults; those before it are left alone",
    )
    epoch_metric: str | None = Field(
        default=None,
        description="a reported metric that carries the epoch; without it a report is an epoch",
    )
    then: dict[Dependency, str] = Field(
        default={},
        description="with `launcher: slurm`: scripts that are submitted with "
        "`--dependency`, by its kind (`{afterok: evaluate.sbatch}`); none may "
        "begin before training is over",
    )
    array_task: NonNegativeInt | None = Field(
        default=None,
        description="with `launcher: slurm`: the one task of the script's `--array` that is run",
    )
    epoch_steps: PositiveInt | None = Field(
        default=None,
        description="of a job without Ray: an epoch is so many optimizer steps of a rank; "
        "left out, the stretch from one save of the job's own to the next",
    )

    @model_validator(mode="after")
    def _validate_source(self) -> Self:
        if [getattr(self, name) is None for name in SOURCES].count(False) != 1:
            raise ValueError(f"job needs one of {', '.join(SOURCES)}")
        if self.train_loop is not None and not isinstance(self.args, dict):
            raise ValueError("job.args of a train_loop are its train_loop_config: `name: value`")
        if self.min_workers is not None and self.min_workers >= self.workers:
            raise ValueError("job.min_workers must be below job.workers")
        return self

    @model_validator(mode="after")
    def _validate_launcher_fields(self) -> Self:
        self.launcher_facts.check_job(self)
        return self

    @model_validator(mode="after")
    def _validate_restart(self) -> Self:
        if self.restart not in (None, *self.launcher_facts.restarts):
            raise ValueError(
                f"job.restart {self.restart}: {self.launcher} has no retries of its own, and "
                "`restart: command` is its only one"
            )
        if self.restart_args and not self.restarts_by_command:
            raise ValueError("job.restart_args goes with `restart: command`")
        if self.restarts_by_command and self.train_loop is not None:
            raise ValueError("job.restart: command starts a script again: write job.script")
        if self.restarts_by_command and self.trial is not None:
            raise ValueError("job.restart: command starts all trials again, not job.trial")
        return self

    @property
    def launcher_facts(self) -> LauncherPolicy:
        return LAUNCHER_FACTS[self.launcher].apply_restart(self.restart)

    @property
    def restarts_by_command(self) -> bool:
        """Whether its command is started once more after a failure, and not by its launcher."""
        return (self.restart or LAUNCHER_FACTS[self.launcher].restarts[0]) == "command"

    def build_start_args(self, start: int) -> Arguments:
        """Return the arguments of a start of the script, counted from 0."""
        return merge_restart_args(self.args, self.restart_args) if start else self.args

    @property
    def num_workers(self) -> int | tuple[int, int]:
        """The workers as Ray Train's `ScalingConfig` has them."""
        return self.workers if self.min_workers is None else (self.min_workers, self.workers)

    @property
    def source(self) -> str:
        """The script, the module or the train loop, whichever the scenario names."""
        return self.script or self.module or self.train_loop or ""


#: The place in which files lie: the node's own disk, which is lost with it, or one that all nodes
#: share, or a bucket, in which a file appears as a whole once it is closed.
Tier: TypeAlias = Literal["node", "shared", "bucket"]
TIERS: tuple[Tier, ...] = get_args(Tier)


class ClusterShape(Record):
    """The nodes that can hold workers; the head, beside them, never does.

    With `address`, a cluster that runs already: chaos starts and ends no node of it.
    """

    nodes: PositiveInt | None = Field(
        default=None,
        description="left out: what the workers need, and a spare for each lost node; with "
        "`launcher: torchrun` the number of its agents (1)",
    )
    cpus_per_node: PositiveInt = 1
    address: str | None = Field(
        default=None,
        pattern=r"^[^\s:/]+:[0-9]+$",
        description="host:port of a Ray cluster, or of a Slurm's controller, that chaos did"
        " not start; `--address` wins over it",
    )
    storage: str | None = Field(
        default=None,
        description="with `address`: a folder or URI for checkpoints that every node reaches",
    )
    reclaim_by: str | None = Field(
        default=None,
        description="with `address`: the platform that takes its nodes: local, "
        "kubernetes:NAMESPACE, aws:TEMPLATE, azure:SUBSCRIPTION/RESOURCE_GROUP "
        "or google:PROJECT/ZONE",
    )
    preempt_mode: Literal["requeue", "cancel"] | None = Field(
        default=None,
        description="with `launcher: slurm`: the PreemptMode of the job's partition (requeue)",
    )
    metadata: Cloud | None = Field(
        default=None,
        description="the cloud whose metadata service is emulated, so that jobs that poll "
        "hear of `preempt_node`",
    )

    @model_validator(mode="after")
    def _validate_cluster_fields(self) -> Self:
        if self.metadata is not None and self.address is not None:
            raise ValueError(
                "cluster.metadata is served on this machine, and cluster.address names others"
            )
        if self.preempt_mode is not None and self.address is not None:
            raise ValueError("cluster.preempt_mode is of a Slurm that chaos starts")
        for name in ("storage", "reclaim_by"):
            if getattr(self, name) is not None and self.address is None:
                raise ValueError(f"cluster.{name} goes with cluster.address")
        return self

    @field_validator("reclaim_by")
    @classmethod
    def _validate_platform(cls, text: str | None) -> str | None:
        if text is not None:
            parse_platform(text)
        return text


_PLATFORM_LOCATIONS: dict[Platform, str] = {
    "local": "",
    "kubernetes": "NAMESPACE",
    "aws": "TEMPLATE",
    "azure": "SUBSCRIPTION/RESOURCE_GROUP",
    "google": "PROJECT/ZONE",
}


def parse_platform(text: str) -> tuple[Platform, str]:
    """Return a platform and the place of its machines, as in `kubernetes:jobs`.

    Raises `ValueError` with the platform that was probably meant, or with the form of its place.
    """
    name, _, account_scope = text.partition(":")
    platform = next((candidate for candidate in PLATFORMS if candidate == name), None)
    if platform is None:
        close_names = get_close_matches(name.lower(), PLATFORMS, n=1)
        hint = (
            f"did you mean {close_names[0]}?" if close_names else f"known: {', '.join(PLATFORMS)}"
        )
        raise ValueError(f"there is no platform {name!r}: {hint}")
    expected_parts = [part for part in _PLATFORM_LOCATIONS[platform].split("/") if part]
    scope_parts = account_scope.split("/") if account_scope else []
    if len(scope_parts) != len(expected_parts) or not all(scope_parts):
        expected_form = f"{platform}:{_PLATFORM_LOCATIONS[platform]}".rstrip(":")
        raise ValueError(f"this platform is written {expected_form}, got {text!r}")
    return platform, account_scope


class Limits(Record):
    """Bounds on the run itself."""

    run_s: float = Field(
        default=240.0,
        gt=0,
        description="after which a run is ended, from the start of its first workers; left "
        "out: this, or three times the run without faults and once more for "
        "each fault, if that is longer",
    )
    gate_s: float = Field(
        default=30.0, gt=0, description="how long a held rank waits for the commit before it"
    )
    idle_s: float | None = Field(
        default=None,
        gt=0,
        description="after which a run with faults is hung if it shows no event, uses no "
        "processor time and keeps the same stacks on all ranks (left out: five "
        "times the longest pause of the run without faults, ten seconds at "
        "least)",
    )


class Scenario(Record):
    """One file `*.chaos.yaml`."""

    scenario: str = Field(min_length=1, description="what it shows, in a sentence")
    marks: tuple[str, ...] = Field(
        default=(), description="marks of pytest's, for `pytest -m` (slow, gpu, skip, xfail, …)"
    )
    job: Job
    cluster: ClusterShape = ClusterShape()
    storage: dict[str, Tier] = Field(
        default_factory=dict,
        description="what survives the loss of a node, by folder: a `node`'s own disk does "
        "not, a `shared` one does. A `bucket` does too, and never has half of a"
        " lost node's file. A relative folder lies where the job runs (left "
        "out: the temporary folders are the node's, all else is shared)",
    )
    faults: tuple[FaultEntry, ...] = ()
    lifetimes: Lifetimes | None = Field(
        default=None,
        description="machines that end after drawn lives, beside faults that end no attempt",
    )
    expect: Expect = Expect()
    watch: Watch = Watch()
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _validate_trial(self) -> Self:
        if self.job.trial is None:
            return self
        if self.cluster.address is not None:
            raise ValueError("job.trial needs a cluster that chaos starts: leave cluster.address")
        driver_fault = next((entry for entry in self.faults if entry.fault.ends_driver), None)
        if driver_fault is not None:
            raise ValueError(
                f"{driver_fault.kind} ends an experiment with all its trials, not job.trial"
            )
        return self

    @model_validator(mode="after")
    def _validate_driver_faults(self) -> Self:
        driver_fault = next((entry for entry in self.faults if entry.fault.starts_driver), None)
        if driver_fault is None:
            return self
        # The effect of another fault on a driver that gives way would be hidden with it.
        conflicts = [entry.kind for entry in self.faults if entry is not driver_fault]
        conflicts += ["lifetimes"] if self.lifetimes is not None else []
        conflicts += ["job.trial"] if self.job.trial is not None else []
        conflicts += ["job.restart: command"] if self.job.restarts_by_command else []
        if conflicts:
            raise ValueError(
                f"{driver_fault.kind} is the one fault of its scenario, without {conflicts[0]}"
            )
        return self

    @model_validator(mode="after")
    def _validate_drain_times(self) -> Self:
        drain_times = {entry.fault.needs_drain_s for entry in self.faults} - {None}
        if len(drain_times) > 1:
            times = " and ".join(
                f"{s:g} s" for s in sorted(s for s in drain_times if s is not None)
            )
            raise ValueError(f"the nodes of one cluster drain for one time, and not for {times}")
        return self

    @model_validator(mode="after")
    def _validate_launcher(self) -> Self:
        self.job.launcher_facts.check_scenario(self)
        return self

    @field_validator("marks")
    @classmethod
    def _validate_marks(cls, marks: tuple[str, ...]) -> tuple[str, ...]:
        for mark in marks:
            if not mark.isidentifier() or mark.startswith("_") or iskeyword(mark):
                raise ValueError(f"a mark must be a name such as slow, got {mark!r}")
        return marks
