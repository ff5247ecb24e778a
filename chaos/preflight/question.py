"""What a person asks: this job, these settings, these costs, that market, this goal.

The YAML of a `*.preflight.yaml` file is these records, spelled out.
"""

import math
from typing import Literal, Self

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from chaos.preflight.costs import Costs
from chaos.preflight.figure import Figures
from chaos.preflight.market import Market

HOUR_S = 3600.0


class JobShape(Figures):
    """How long the training is, and on how many nodes."""

    nodes: PositiveInt
    min_nodes: PositiveInt | None = Field(
        default=None, description="the job is elastic: it goes on with as few nodes as this"
    )
    spare_nodes: NonNegativeInt = Field(default=0, description="held beside the job, idle")
    steps: PositiveInt = Field(description="optimizer steps of the whole training")
    checkpoint_every_steps: PositiveInt
    saves_on_notice: bool = Field(
        default=False,
        description="the train function asks `ray.train.get_preemption_info()` and saves",
    )
    reports_every_steps: PositiveInt | None = Field(
        default=None, description="left out: it reports with each checkpoint"
    )

    rescales_batch: bool = Field(
        default=False,
        description="with fewer nodes it keeps its global batch, or its learning rate follows",
    )
    nodes_max: PositiveInt | None = Field(
        default=None, description="as many nodes as the autoscaler may start; left out: no limit"
    )

    @model_validator(mode="after")
    def _has_room_below(self) -> Self:
        if self.min_nodes is not None and self.min_nodes >= self.nodes:
            raise ValueError("job.min_nodes must be below job.nodes")
        return self

    @property
    def pool(self) -> int:
        """All nodes that are held: the job's and the spares."""
        return self.nodes + self.spare_nodes


class RaySettings(Figures):
    """What the job sets in Ray Train 2.60; what is left out has Ray's default."""

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
    storage_is_shared: bool | None = Field(
        default=None, description="every node sees it, and it outlives them; left out: by its form"
    )
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


class Goal(Figures):
    """What must hold with probability `confidence`; without any goal it must finish."""

    deadline_h: PositiveFloat | None = None
    budget: PositiveFloat | None = Field(
        default=None, description="cost as a share of the same training on on-demand nodes"
    )
    goodput: float | None = Field(default=None, gt=0, le=1)
    confidence: float = Field(default=0.95, gt=0, lt=1)


class Question(Figures):
    """One file `*.preflight.yaml`. Without `costs` the answer is unknown."""

    preflight: str = Field(min_length=1, description="what is asked, in a sentence")
    job: JobShape
    settings: RaySettings = RaySettings()
    costs: Costs | None = None
    market: Market
    goal: Goal = Goal()

    @property
    def interval_s(self) -> float:
        """Training between two checkpoints, the checkpoint itself not included."""
        assert self.costs is not None
        return self.job.checkpoint_every_steps * self.costs.step_s

    @property
    def stop_s(self) -> float:
        """How long training stands still for one checkpoint."""
        assert self.costs is not None
        return self.costs.save_s + self.costs.upload_s - self.behind_s

    @property
    def behind_s(self) -> float:
        """How long after training went on a checkpoint is committed, where no other is before."""
        assert self.costs is not None
        is_sync = self.settings.checkpoint_upload_mode == "sync"
        return 0.0 if is_sync else self.costs.upload_s

    @property
    def shortest_steps(self) -> int:
        """The shortest interval, in steps, at which Ray's one upload thread keeps up with saves."""
        assert self.costs is not None
        if self.settings.checkpoint_upload_mode != "async":
            return 1
        least = math.ceil((self.behind_s - self.stop_s) / self.costs.step_s)
        return min(self.job.steps, max(1, least))

    @property
    def work_s(self) -> float:
        """Training from beginning to end on all nodes, with no checkpoint and no loss."""
        assert self.costs is not None
        return self.job.steps * self.costs.step_s
