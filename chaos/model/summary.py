"""A run and a suite in figures: small enough to keep for ever, and to compare with others."""

from pydantic import Field

from chaos.model.scenario import VerdictStatus
from chaos.model.verdict import Standing
from chaos.record import Record

SUMMARY, SUITE = "summary.json", "suite.json"
STALE = "the verdict is not of this history; `chaos rejudge` judges it again"


class RunSummary(Record):
    """One run, or a scenario that could not be run (`status` None, `error` gives the reason).

    One that was skipped has neither; its headline gives the reason.

    `directory` is relative to the folder that the summary lies in. `broken` is the check that named
    the defect. `recovery_s` is the slowest, `lost_steps` those of the rank that lost most;
    `phases_s` are seconds by phase of the goodput ledger, which add up to the wall time. `history`
    is the digest of the history that was judged. `repeat` counts the runs of a scenario that `chaos
    run --repeat` made in one suite, from 1.
    """

    scenario: str
    file: str
    status: VerdictStatus | None
    standing: Standing
    headline: str
    directory: str | None = None
    broken: str | None = None
    error: str | None = None
    seed: int | None = None
    repeat: int | None = None
    backend: str | None = None
    attempts: int | None = None
    lost_steps: int | None = None
    recovery_s: float | None = None
    duration_s: float = 0.0
    phases_s: dict[str, float] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    history: str | None = None

    @property
    def goodput(self) -> float | None:
        """The productive part of the wall time, None where it was not recorded."""
        wall_s = sum(self.phases_s.values())
        return self.phases_s.get("productive", 0.0) / wall_s if wall_s else None


class SuiteSummary(Record):
    """The runs of one call of `chaos run`; `started` as in the folder's name, in UTC."""

    started: str
    runs: tuple[RunSummary, ...]
