"""The settings of a job's launcher that decide what a loss costs, and how many it bears.

The simulation asks both for the same facts; rules and advice are of the settings by their names.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Discriminator, Field, NonNegativeFloat, PositiveFloat, PositiveInt, Tag

from chaos.extensions.preflight.market import FiniteRecord

IsShared: TypeAlias = Annotated[
    bool | None,
    Field(description="every node sees it, and it outlives them; left out: by its form"),
]


class RaySettings(FiniteRecord):
    """Settings of Ray Train 2.60; a setting that is left out has Ray's default."""

    #: what they are called in which the retries of a running group, and of a start, are counted
    budgets: ClassVar = ("max_failures", "max_preemption_failures")
    wait_budget: ClassVar = "controller_failure_limit"
    background_upload_mode: ClassVar = "async"
    has_agents: ClassVar = False
    #: whether starts that were used up, hosts and waits in vain are of one budget
    has_single_budget: ClassVar = False
    #: losses that end a start of the command, of which each has all retries again
    losses_per_start: ClassVar = math.inf
    #: a start of the command has no time limit
    start_limit_s: ClassVar = math.inf
    limit_requeues: ClassVar = 0
    limit_signal_s: ClassVar = None

    launcher: Literal["ray"] = "ray"
    max_failures: int = Field(default=0, ge=-1)
    max_preemption_failures: int = Field(default=-1, ge=-1)
    preemption_watcher: bool = Field(
        default=True, description="RAY_TRAIN_ENABLE_PREEMPTION_WATCHER"
    )
    preemption_poll_s: PositiveFloat = Field(
        default=5.0, description="RAY_TRAIN_PREEMPTION_POLL_INTERVAL_S"
    )
    preemption_grace_s: NonNegativeFloat = 0.0
    relax_collectives_on_preemption: bool = False
    num_to_keep: PositiveInt | None = None
    checkpoint_score_attribute: str | None = None
    storage_path: str | None = None
    storage_is_shared: IsShared = None
    run_name: str | None = Field(
        default=None, description="`{time}` or `{uuid}` in it: it changes at every start"
    )
    health_check_interval_s: PositiveFloat = Field(
        default=2.0, description="RAY_TRAIN_HEALTH_CHECK_INTERVAL_S"
    )
    health_check_timeout_s: PositiveFloat = Field(
        default=600.0, description="RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S"
    )
    collective_timeout_s: PositiveFloat = Field(
        default=1800.0, description="TorchConfig(timeout_s)"
    )
    group_start_timeout_s: PositiveFloat = Field(
        default=60.0, description="RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"
    )
    report_timeout_s: PositiveFloat | None = Field(
        default=None,
        description="RAY_TRAIN_COLLECTIVE_TIMEOUT_S: how long a rank waits for the others in "
        "`report()` and `get_preemption_info()`; left out: for ever",
    )
    node_death_s: PositiveFloat = Field(
        default=63.0,
        description="from a node's silence until Ray declares it dead: RAY_health_check_*",
    )
    nccl_hang_detector: Literal["off", "observe", "fail"] = Field(
        default="off",
        description="RAY_TRAIN_ENABLE_NCCL_HANG_DETECTOR, and RAY_TRAIN_NCCL_RAS_ACTION",
    )
    pod_grace_s: PositiveFloat | None = Field(
        default=None,
        description="the nodes are pods with this terminationGracePeriodSeconds (Kubernetes: 30); "
        "left out: they are none",
    )
    node_drain_s: NonNegativeFloat = Field(
        default=30.0, description="RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S of those pods"
    )
    hook_drain_s: NonNegativeFloat = Field(
        default=0.0,
        description="the deadline that their preStop hook gives `ray drain-node`; it outlives that "
        "by a poll of Ray Train's at least; 0: there is no hook",
    )
    head_on_spot: bool = Field(
        default=False, description="the head node stands on the same market as the workers"
    )
    workers_on_head: bool = False
    controller_failure_limit: int = Field(
        default=-1, ge=-1, description="FailureConfig: tries to place and start a group that fail"
    )
    elastic_resize_monitor_interval_s: NonNegativeFloat = Field(
        default=60.0, description="ScalingConfig: how often a running group may grow"
    )
    checkpoint_upload_mode: Literal["sync", "async", "no_upload"] = Field(
        default="sync",
        description="`ray.train.report(checkpoint_upload_mode)`: whether training stands still "
        "for the upload, goes on beside one upload at a time, or the script uploads by itself",
    )
    torch_backend: Literal["nccl", "gloo"] = Field(
        default="nccl",
        description="TorchConfig(backend), Ray's own choice with GPUs; NCCL's survivors of a "
        "loss hang until Ray ends them, gloo's end at once",
    )

    @property
    def hook_needs_s(self) -> float:
        """The seconds until Ray Train has learnt of a hook's drain, and ruled on it."""
        return max(self.hook_drain_s, self.preemption_poll_s) + self.health_check_interval_s

    @property
    def relaxed_s(self) -> float:
        """The seconds after the deadline in which survivors may still commit."""
        return self.preemption_grace_s if self.relax_collectives_on_preemption else 0.0

    @property
    def limits(self) -> tuple[int, int, int]:
        """The losses that each budget bears, and the starts that fail; -1 has no end."""
        return self.max_failures, self.max_preemption_failures, self.controller_failure_limit

    @property
    def placement_s(self) -> float:
        """The seconds for which a group of all nodes is waited for."""
        return self.group_start_timeout_s

    @property
    def shrinks_after_s(self) -> float:
        """The seconds after which an elastic job goes on with fewer nodes."""
        return self.group_start_timeout_s

    @property
    def grows_every_s(self) -> float:
        """The seconds between two looks of an elastic job for more nodes; 0: at once."""
        return self.elastic_resize_monitor_interval_s

    @property
    def hears_notices(self) -> bool:
        """Whether it learns of a loss that is announced."""
        return self.preemption_watcher

    @property
    def hang_s(self) -> float:
        """The seconds after the deadline for which survivors that hang are waited for."""
        return self.preemption_grace_s if self.torch_backend == "nccl" else 0.0


class TorchrunSettings(FiniteRecord):
    """Settings of torchrun (torch 2.13) and of the platform that starts its command.

    A setting that is left out has torchrun's default. A lost node is charged to the agents that are
    left, and none hears of it before. A node that comes back is taken in at once by a job that is
    elastic, and that costs no restart. Seen in real runs: docs/launcher-reference.md.
    """

    budgets: ClassVar = ("max_restarts", "job_retries")
    wait_budget: ClassVar = "join_timeout_s"
    background_upload_mode: ClassVar = "no_upload"
    has_single_budget: ClassVar = True
    hears_notices: ClassVar = False
    preemption_poll_s: ClassVar = 5.0
    relaxed_s: ClassVar = 0.0
    hang_s: ClassVar = 0.0
    grows_every_s: ClassVar = 0.0

    launcher: Literal["torchrun"] = "torchrun"
    agents: bool = Field(
        default=True,
        description="false: no agent of torchrun's starts the workers, and any loss ends the "
        "command, as with mpirun or a plain script",
    )
    max_restarts: int = Field(
        default=0,
        ge=-1,
        description="torchrun's --max-restarts; -1, no end, is for questions alone",
    )
    job_retries: int = Field(
        default=0,
        ge=-1,
        description="how often the platform starts the command again (`backoffLimit`, --requeue, "
        "job recovery); -1: no end",
    )
    join_timeout_s: PositiveFloat = Field(
        default=600.0, description="--rdzv-conf join_timeout: so long nodes are waited for"
    )
    last_call_s: NonNegativeFloat = Field(
        default=30.0,
        description="--rdzv-conf last_call_timeout: so long an elastic job waits for more nodes",
    )
    keep_alive_s: NonNegativeFloat = Field(
        default=15.0,
        description="--rdzv-conf keep_alive_interval times keep_alive_max_attempt: so long after "
        "its last sign a node counts as gone",
    )
    start_limit_h: PositiveFloat | None = Field(
        default=None,
        description="a start of the command is ended after so long (Slurm's --time), and begun "
        "again for that only as limit_requeues says; left out: it is not",
    )
    limit_requeues: int = Field(
        default=0,
        ge=-1,
        description="how often the job is queued again because a start reached start_limit_h, such "
        "as by its script's `scontrol requeue`; Slurm itself never does; -1: no end",
    )
    limit_signal_s: PositiveFloat | None = Field(
        default=None,
        description="a signal comes so long before start_limit_h is over (Slurm's "
        "--signal=USR1@90), on which a job with job.saves_on_notice saves; left out: none does",
    )
    storage_path: str | None = None
    storage_is_shared: IsShared = None
    checkpoint_upload_mode: Literal["sync", "no_upload"] = Field(
        default="sync",
        description="whether training stands still for costs.upload_s, or the script uploads "
        "beside training",
    )

    @property
    def losses_per_start(self) -> float:
        """The losses that end a start of the command, of which each has all restarts again."""
        if not self.agents:
            return 1.0
        return math.inf if self.max_restarts < 0 else self.max_restarts + 1

    @property
    def start_limit_s(self) -> float:
        """The seconds after which a start of the command is ended; infinite without a limit."""
        return math.inf if self.start_limit_h is None else self.start_limit_h * 3600

    @property
    def has_agents(self) -> bool:
        """Whether one of its nodes takes all others along."""
        return self.agents

    @property
    def limits(self) -> tuple[int, int, int]:
        """The losses that the restarts of all starts bear, the starts, and the waits in vain.

        A start is used up by more losses than it has restarts, and at once by the loss of the node
        that hosts the rendezvous, or a wait that times out. `r` restarts and `j` retries bear
        `(r + 1) (j + 1) - 1` losses if none takes the host.
        """
        is_endless = self.job_retries < 0 or math.isinf(self.losses_per_start)
        restart_limit = (
            -1 if is_endless else int(self.losses_per_start) * (self.job_retries + 1) - 1
        )
        return restart_limit, self.job_retries, self.job_retries

    @property
    def placement_s(self) -> float:
        """The seconds for which nodes are waited for until a start fails."""
        return self.join_timeout_s

    @property
    def shrinks_after_s(self) -> float:
        """The seconds after which an elastic job goes on with fewer nodes."""
        return self.keep_alive_s + self.last_call_s


def _launcher(value: Any) -> str:  # noqa: ANN401 (whatever was given)
    """Return the launcher that settings are of; Ray's need not say it."""
    if isinstance(value, dict):
        return str(value.get("launcher", "ray"))
    return str(getattr(value, "launcher", "ray"))


Settings: TypeAlias = Annotated[
    Annotated[RaySettings, Tag("ray")] | Annotated[TorchrunSettings, Tag("torchrun")],
    Discriminator(_launcher),
]
#: by the launcher that they are of
SETTINGS: Mapping[str, type[RaySettings] | type[TorchrunSettings]] = {
    "ray": RaySettings,
    "torchrun": TorchrunSettings,
}
