"""A run and a suite in figures: small enough to keep for ever, and to compare with others."""

from collections.abc import Mapping

from pydantic import Field

from chaos.model.scenario import VerdictStatus
from chaos.model.verdict import Standing
from chaos.record import Record

SUMMARY, SUITE = "summary.json", "suite.json"
STALE = "the verdict is not of this history; `chaos rejudge` judges it again"


class RunSummary(Record):
    """One run, or a scenario that could not be run.

    One that was skipped has neither status nor error; its headline gives the reason.
    """

    scenario: str
    file: str
    #: None where it could not be run
    status: VerdictStatus | None
    standing: Standing
    headline: str
    #: relative to the folder that the summary lies in
    directory: str | None = None
    #: the check that named the defect
    broken: str | None = None
    #: the reason why it could not be run
    error: str | None = None
    seed: int | None = None
    #: counts the runs of a scenario that `chaos run --repeat` made in one suite, from 1
    repeat: int | None = None
    backend: str | None = None
    attempts: int | None = None
    #: those of the rank that lost most
    lost_steps: int | None = None
    #: the slowest
    recovery_s: float | None = None
    duration_s: float = 0.0
    #: seconds by phase of the goodput ledger, which add up to the wall time
    phases_s: dict[str, float] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    #: the digest of the history that was judged
    history: str | None = None

    @property
    def goodput(self) -> float | None:
        """The productive part of the wall time, None where it was not recorded."""
        return goodput(self.phases_s)


def goodput(phases_s: Mapping[str, float]) -> float | None:
    """Return the productive part of the seconds of all phases, None if there are none."""
    wall_s = sum(phases_s.values())
    return phases_s.get("productive", 0.0) / wall_s if wall_s else None


class SuiteSummary(Record):
    """The runs of one call of `chaos run`."""

    #: as in the folder's name, in UTC
    started: str
    runs: tuple[RunSummary, ...]
