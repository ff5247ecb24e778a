"""The expectations of a scenario, and the differences that it accepts."""

from collections.abc import Iterable
from typing import Literal, Self, TypeAlias

from pydantic import Field, PositiveInt, model_validator

from chaos.model.bounds import Bound, Charges, Tolerance
from chaos.record import Record

Profile: TypeAlias = Literal["strict", "standard", "relaxed"]
VerdictStatus: TypeAlias = Literal["pass", "fail", "inconclusive"]
Acceptable: TypeAlias = Literal["rng", "lost-work", "cosmetic"]
Sampling: TypeAlias = Literal["exactly_once", "at_least_once", "resampled"]


class AcceptedFinding(Record):
    """A kind of finding that may be there, for a reason that reports repeat."""

    finding: str = Field(description="its kind: `chaos list findings`")
    part: str | None = Field(
        default=None,
        description="only where it is about this part of the state, metric or file, or what"
        " is below it",
    )
    reason: str = Field(min_length=1, description="why it is meant to be so; reports repeat it")

    def matches(self, kind: str, parts: Iterable[str]) -> bool:
        """Return whether a finding of this kind about these parts is accepted: each of them is."""
        if kind != self.finding:
            return False
        part = self.part
        return part is None or (
            {*parts} != set() and all(name == part or name.startswith(f"{part}.") for name in parts)
        )


class Expect(Record):
    """The special expectations of this scenario; every check runs anyway."""

    verdict: VerdictStatus = "pass"
    check: str | None = Field(
        default=None,
        description="the check that must name the defect or, with `verdict: inconclusive`, "
        "that cannot tell",
    )
    besides: tuple[str, ...] = Field(
        default=(),
        description="with `check`: the checks that may be broken as well, by other known defects",
    )
    finding: str | None = Field(
        default=None,
        description="with `verdict: fail`: the kind of finding that the first broken check must "
        "have (`chaos list findings`)",
    )
    until: Literal["fixed"] | None = Field(
        default=None,
        description="with `verdict: fail`: a defect of Ray's own; a run that passes is "
        "news, and no failure",
    )
    seen_in: tuple[str, ...] = Field(
        default=(), description="with `until: fixed`: the Ray versions that have the defect"
    )
    outcome: Literal["finished", "error"] = Field(
        default="finished", description="how `trainer.fit()` ends: it returns, or it raises"
    )
    attempts: PositiveInt | None = Field(
        default=None, description="worker groups in all; left out: one more than the faults"
    )
    charges: Charges | None = Field(
        default=None,
        description="left out: one failure per killed worker or node, one preemption per "
        "preempted node",
    )
    lost_steps: Bound | None = Field(
        default=None, description="finished steps that a restart may throw away, the worst rank"
    )
    recovery_s: Bound | None = Field(
        default=None,
        description="from the fault to the next attempt's first step; left out: 120 s, or "
        "twice the job's usual start, if that is more",
    )
    loss_tolerance: Tolerance | None = Field(
        default=None, description="left out: losses equal the baseline's to the last bit"
    )
    band: Profile | None = Field(
        default=None,
        description="for a job that does not repeat itself: losses, metrics and state lie "
        "where five baselines show that they may, and further by the profile's "
        "tolerance",
    )
    accept: tuple[Acceptable, ...] = Field(
        default=(),
        description="what may be broken, with a note: `rng`, only random streams differ "
        "after a resume; `lost-work`, a resume from an older save, with the "
        "baseline's result; `cosmetic`, what is only logged",
    )
    accept_findings: tuple[AcceptedFinding, ...] = Field(
        default=(),
        description="kinds of findings that may be there, with a note that repeats the reason",
    )
    ignore_metrics: tuple[str, ...] = Field(
        default=(),
        description="reported metrics, and counts in saved files, that are not compared. "
        "Nested ones are dotted (`val.seconds`); a name stands for all that is "
        "below it",
    )
    sampling: Sampling = Field(
        default="exactly_once",
        description="what a restart may do to an epoch's samples. `at_least_once`: it may "
        "train as many steps twice as it threw away, and needs `loss_tolerance`"
        " or `band`. `resampled`: it may draw other inputs; every part of the "
        "state and every step is still due",
    )
    align: Literal["reports", "steps"] = Field(
        default="reports",
        description="how a run is laid beside its baseline: report by report; `steps`: by "
        "the number of steps, for a job that reports or saves by the clock. "
        "Reports and saves are then not compared; losses, inputs and state are",
    )
    jit_checkpoint: bool = Field(
        default=False,
        description="the job must save on notice that its node will go, and commit before "
        "the node does",
    )

    @property
    def is_exact(self) -> bool:
        """Whether the job is to repeat itself to the last bit."""
        return self.loss_tolerance is None and self.band is None

    @model_validator(mode="after")
    def _validate_combination(self) -> Self:
        if self.loss_tolerance is not None and self.band is not None:
            raise ValueError("expect has either loss_tolerance or band")
        if self.check is not None and self.verdict == "pass":
            raise ValueError("expect.check goes with `verdict: fail` or `verdict: inconclusive`")
        if self.check is None and self.verdict == "inconclusive":
            raise ValueError(
                "`verdict: inconclusive` needs expect.check, the check that cannot tell; without "
                "it a fault that never happened would be as expected"
            )
        if self.besides and (self.check is None or self.verdict != "fail"):
            raise ValueError("expect.besides goes with `verdict: fail` and expect.check")
        if self.finding is not None and self.verdict != "fail":
            raise ValueError("expect.finding goes with `verdict: fail`")
        if self.until is not None and self.verdict != "fail":
            raise ValueError("expect.until goes with `verdict: fail`")
        if self.seen_in and self.until is None:
            raise ValueError("expect.seen_in goes with `until: fixed`")
        return self
