"""What saving and restarting cost this job: the ledger that every forecast rests on."""

from pydantic import Field, NonNegativeFloat

from chaos.preflight.figure import Figures


class Costs(Figures):
    """Seconds, as measured by a run or given by hand.

    The parts of a restart follow the badput categories of Google's
    ml-goodput-measurement (infrastructure recovery, program start-up, restore);
    replayed work is not among them, because it follows from the interval.
    """

    step_s: float = Field(gt=0, description="one optimizer step with all nodes")
    save_s: NonNegativeFloat = Field(
        description="how long training stands still for one checkpoint"
    )
    upload_s: NonNegativeFloat = Field(
        default=0.0,
        description="after training went on, how long until the checkpoint is committed",
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
    source: str = Field(default="given by hand", description="where these figures are from")

    @property
    def begin_s(self) -> float:
        """From a free cluster to the first step of a fresh start."""
        return self.schedule_s + self.start_s + self.restore_s

    @property
    def restart_s(self) -> float:
        """From a loss without notice to the first new step, with nodes at hand."""
        return self.detect_s + self.teardown_s + self.begin_s
