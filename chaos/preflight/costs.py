"""What saving and restarting cost this job: the ledger that every forecast rests on."""

from typing import Any, ClassVar

from pydantic import Field, NonNegativeFloat, PositiveFloat, model_validator

from chaos.preflight.figure import Figures

PARTS = ("detect_s", "teardown_s", "schedule_s", "start_s", "restore_s")


class Costs(Figures):
    """Seconds, as measured by a run or given by hand.

    The parts of a restart follow the badput categories of Google's
    ml-goodput-measurement (infrastructure recovery, program start-up, restore);
    replayed work is not among them, because it follows from the interval.
    `restart_s` may stand for the five of them. It then counts as `start_s`,
    which every restart pays in full, so that nothing comes out too cheap: an
    announced loss spares no detection, and a wait for nodes spares nothing.
    """

    ALSO: ClassVar = ("restart_s",)  # what may be given, and is no field

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
    def _one_restart_or_its_parts(cls, value: Any) -> Any:  # noqa: ANN401 (whatever was given)
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
        """From a free cluster to the first step of a fresh start."""
        return self.schedule_s + self.start_s + self.restore_s

    @property
    def restart_s(self) -> float:
        """From a loss without notice to the first new step, with nodes at hand."""
        return self.detect_s + self.teardown_s + self.begin_s
