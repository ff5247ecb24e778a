"""The question that preflight answers: job, its launcher's settings, costs, market, goals.

The YAML of a `*.preflight.yaml` file is these records, spelled out.
"""

import copy
import json
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)

from chaos.errors import UsageError
from chaos.extensions.preflight.market import FiniteRecord, Market
from chaos.extensions.preflight.settings import RaySettings, Settings, TorchrunSettings
from chaos.scenario_file.messages import find_nearest

PARTS = ("detect_s", "teardown_s", "schedule_s", "start_s", "restore_s")
COSTS_IN_WORDS = {  # the costs that may be given as a range
    "step_s": "a step",
    "save_s": "a save",
    "upload_s": "an upload",
    "restart_s": "a restart",
    "detect_s": "detection",
    "teardown_s": "a teardown",
    "schedule_s": "placement",
    "start_s": "a start",
    "restore_s": "restoring",
}


class Costs(FiniteRecord):
    """Seconds, as measured by a run or given by hand.

    The parts of a restart follow the badput categories of Google's
    ml-goodput-measurement (infrastructure recovery, program start-up, restore);
    replayed work is not among them, because it follows from the interval.
    `restart_s` may replace the five of them. It then counts as `start_s`, which every
    restart pays in full, so that no cost is too low: an announced loss saves no
    detection, and a wait for nodes saves nothing.
    """

    ALSO: ClassVar = ("restart_s",)  # a key that may be given, but is no field

    step_s: float = Field(gt=0, description="one optimizer step with all nodes")
    save_s: NonNegativeFloat = Field(
        description="how long training stands still for one checkpoint"
    )
    upload_s: NonNegativeFloat = Field(
        default=0.0,
        description="one checkpoint's upload, until it is committed: training stands still for "
        "it too, unless settings.checkpoint_upload_mode says otherwise",
    )
    detect_s: NonNegativeFloat = Field(
        default=0.0, description="from a loss without notice to Ray's decision"
    )
    teardown_s: NonNegativeFloat = Field(
        default=0.0, description="until the old worker group is gone"
    )
    schedule_s: NonNegativeFloat = Field(
        default=0.0, description="until the new worker group has its places"
    )
    start_s: NonNegativeFloat = Field(
        default=0.0, description="until every rank runs the train function"
    )
    restore_s: NonNegativeFloat = Field(
        default=0.0, description="until the first new step, loading the checkpoint included"
    )
    price_per_node_hour: PositiveFloat | None = Field(
        default=None,
        description="what a node costs on demand; the market's price_ratio makes the spot price",
    )
    currency: str = Field(default="USD", description="of price_per_node_hour: a label, no more")
    source: str = Field(default="given by hand", description="where these figures are from")

    @model_validator(mode="before")
    @classmethod
    def _merge_restart_cost(cls, value: Any) -> Any:  # noqa: ANN401 (whatever was given)
        if not isinstance(value, dict) or "restart_s" not in value:
            return value
        parts = [name for name in PARTS if name in value]
        if parts:
            text = f"give either costs.restart_s or its parts, not restart_s and {', '.join(parts)}"
            raise ValueError(text)
        restart_s = value["restart_s"]
        if isinstance(restart_s, int | float) and restart_s < 0:
            raise ValueError(f"costs.restart_s must be 0 or more, got {restart_s:g}")
        return {("start_s" if name == "restart_s" else name): v for name, v in value.items()}

    @property
    def begin_s(self) -> float:
        """The seconds from a free cluster to the first step of a fresh start."""
        return self.schedule_s + self.start_s + self.restore_s

    @property
    def restart_s(self) -> float:
        """The seconds from a loss without notice to the first new step, if nodes are there."""
        return self.detect_s + self.teardown_s + self.begin_s


class JobShape(FiniteRecord):
    """The length of the training and its nodes."""

    nodes: PositiveInt
    min_nodes: PositiveInt | None = Field(
        default=None, description="the job is elastic: it goes on with as few nodes as this"
    )
    spare_nodes: NonNegativeInt = Field(default=0, description="held beside the job, idle")
    on_demand_nodes: NonNegativeInt = Field(
        default=0,
        description="of `nodes`, those on demand, which are not lost; with torchrun one of them "
        "hosts the rendezvous",
    )
    steps: PositiveInt = Field(description="optimizer steps of the whole training")
    checkpoint_every_steps: PositiveInt
    saves_on_notice: bool = Field(
        default=False,
        description="the train function asks `ray.train.get_preemption_info()` and saves; with "
        "torchrun, the script saves on the signal of settings.limit_signal_s",
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
    def _check_node_limits(self) -> Self:
        if self.min_nodes is not None and self.min_nodes >= self.nodes:
            raise ValueError("job.min_nodes must be below job.nodes")
        if self.on_demand_nodes >= self.nodes:
            raise ValueError("job.on_demand_nodes must be below job.nodes: none would be lost")
        return self

    @property
    def pool(self) -> int:
        """All nodes that are held: the job's and the spares."""
        return self.nodes + self.spare_nodes

    @property
    def losable_nodes(self) -> int:
        """The nodes in use of which any may be lost."""
        return self.nodes - self.on_demand_nodes

    @property
    def spot_nodes(self) -> int:
        """The nodes that are held on the market."""
        return self.pool - self.on_demand_nodes


class Goal(FiniteRecord):
    """Goals to be met with probability `confidence`; without any, to finish."""

    deadline_h: PositiveFloat | None = None
    budget: PositiveFloat | None = Field(
        default=None, description="cost as a share of the same training on on-demand nodes"
    )
    goodput: float | None = Field(default=None, gt=0, le=1)
    confidence: float = Field(default=0.95, gt=0, lt=1)


class Question(FiniteRecord):
    """One file `*.preflight.yaml`. Without `costs` the answer is `cannot tell`."""

    preflight: str = Field(min_length=1, description="what is asked, in a sentence")
    job: JobShape
    settings: Settings = RaySettings()
    costs: Costs | None = None
    between: dict[str, tuple[NonNegativeFloat, NonNegativeFloat]] = Field(
        default_factory=dict,
        description="costs that are known only to lie between two, as `costs: {save_s: [5, 60]}` "
        "says as well; the answer is asked for at both ends",
    )
    market: Market
    goal: Goal = Goal()

    @model_validator(mode="after")
    def _check_cost_ranges(self) -> Self:
        for name, pair in self.between.items():
            if name not in COSTS_IN_WORDS:
                raise ValueError(f"between.{name}: known are {', '.join(COSTS_IN_WORDS)}")
            if pair[0] >= pair[1]:
                raise ValueError(f"costs.{name} is a range, its lower end first: [60, 900]")
        return self

    @property
    def required_costs(self) -> Costs:
        """The costs of a question that has them."""
        assert self.costs is not None
        return self.costs

    @property
    def ray(self) -> RaySettings:
        """The settings of a job of Ray Train's."""
        assert isinstance(self.settings, RaySettings)
        return self.settings

    @property
    def torchrun(self) -> TorchrunSettings:
        """The settings of a job of torchrun's."""
        assert isinstance(self.settings, TorchrunSettings)
        return self.settings

    @property
    def interval_s(self) -> float:
        """The seconds of training between two checkpoints, without the checkpoint itself."""
        return self.job.checkpoint_every_steps * self.required_costs.step_s

    @property
    def stop_s(self) -> float:
        """The seconds that training stands still for one checkpoint."""
        return self.required_costs.save_s + self.required_costs.upload_s - self.commit_delay_s

    @property
    def commit_delay_s(self) -> float:
        """The seconds from then until it is committed, if no other upload is waiting."""
        is_sync = self.settings.checkpoint_upload_mode == "sync"
        return 0.0 if is_sync else self.required_costs.upload_s

    @property
    def shortest_steps(self) -> int:
        """The shortest interval, in steps, at which Ray's one upload thread keeps up with saves."""
        if self.settings.checkpoint_upload_mode != "async":
            return 1
        min_steps = math.ceil((self.commit_delay_s - self.stop_s) / self.required_costs.step_s)
        return min(self.job.steps, max(1, min_steps))

    @property
    def notice_save_s(self) -> float:
        """The longest time of a save on notice: poll, step, save, upload."""
        costs = self.required_costs
        return self.settings.preemption_poll_s + costs.step_s + costs.save_s + costs.upload_s

    @property
    def work_s(self) -> float:
        """The seconds of the whole training on all nodes, without checkpoints and losses."""
        return self.job.steps * self.required_costs.step_s


def split_ranges(plain: dict[str, Any]) -> dict[str, Any]:
    """Return a question's plain form with each cost that is a list at its last value.

    The lists stand in `between`. Raises `UsageError` for one that is no range.
    """
    costs = plain.get("costs")
    if not isinstance(costs, dict):
        return plain
    pairs = {
        name: pair
        for name, pair in costs.items()
        if name in COSTS_IN_WORDS and isinstance(pair, list)
    }
    for name, pair in pairs.items():
        ends = [end for end in pair if isinstance(end, int | float) and not isinstance(end, bool)]
        if len(pair) != 2 or len(ends) != 2 or not 0 <= ends[0] < ends[1]:  # noqa: PLR2004
            text = f"costs.{name} is one number, or a range with its lower end first: [60, 900]"
            raise UsageError(f"{text}; got {json.dumps(pair)}", location="the question")
    if not pairs:
        return plain
    dearest = {name: pair[-1] for name, pair in pairs.items()}
    return plain | {"costs": costs | dearest, "between": {**plain.get("between", {}), **pairs}}


# -- changed values -----------------------------------------------------------------------------


def change_question(question: Question, values: Mapping[str, Any]) -> Question:
    """Return the question with these values; raises `UsageError` for an impossible one."""
    plain: dict[str, Any] = question.model_dump(mode="json")
    for key, value in values.items():
        _set_value(plain, key, value)
    try:
        return Question.model_validate_json(json.dumps(split_ranges(plain)))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        location = ".".join(str(part) for part in first["loc"])
        text = str(first["msg"]).removeprefix("Value error, ")
        problem = f"{location}: {text}" if location else text
        raise UsageError(problem, location="the question") from None


#: the places of all budgets of retries
BUDGETS = frozenset(
    f"settings.{name}" for of in (RaySettings, TorchrunSettings) for name in of.budgets
)


def remove_limits(question: Question) -> Question:
    """Return the question with unlimited retries.

    How often it is queued again at a time limit is no budget of losses, and stays.
    """
    return change_question(question, {f"settings.{name}": -1 for name in question.settings.budgets})


def find_value(plain: Mapping[str, Any], key: str) -> Any:  # noqa: ANN401 (a plain value)
    """Return the value of a question's plain form at a place (`job.nodes`)."""
    node: Any = plain
    for part in key.split("."):
        node = node[part]
    return node


def _set_value(plain: dict[str, Any], key: str, value: Any) -> None:  # noqa: ANN401
    _forget_ranges(plain["between"], key)
    if key == "costs.restart_s" and isinstance(plain["costs"], dict):
        plain["costs"] = {k: v for k, v in plain["costs"].items() if k not in PARTS}
        plain["costs"]["restart_s"] = value
        return
    *path, final_name = key.split(".")
    node: Any = plain
    for part in path:
        node = node.get(part) if isinstance(node, dict) else None
    if not isinstance(node, dict) or final_name not in node:
        names = [*(node if isinstance(node, dict) else plain)]
        suggestion = find_nearest(final_name, names)
        hint = f"Did you mean {suggestion}?" if suggestion else f"Known there: {', '.join(names)}."
        raise UsageError(f"there is no value {key}", hint)
    node[final_name] = copy.deepcopy(value)  # a later value below it must not change the caller's


def _forget_ranges(between: dict[str, Any], key: str) -> None:
    """Remove the ranges of costs that a value replaces."""
    name = key.removeprefix("costs.")
    replaced = {name}
    if name in PARTS:
        replaced.add("restart_s")
    elif name == "restart_s":
        replaced.update(PARTS)
    for range_name in [*between]:
        if range_name in replaced or key == "costs":
            del between[range_name]
