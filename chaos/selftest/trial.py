"""One run of the self-test as a row: what was to be seen, and what chaos said."""

import re

from chaos.model.plan import Op
from chaos.model.scenario import Validity
from chaos.model.verdict import CheckResult
from chaos.record import Record
from chaos.report.outcome import FinishedRun
from chaos.selftest.draw import Case
from chaos.zoo.catalogue import Exhibit


class Judged(Record):
    """What became of one run.

    `landed`: every op of it was seen to strike. `revealing`: one that struck
    can show the bug. `first` is the most specific broken promise, `named`
    whether it is the right one. `folder` is None where nothing was kept.
    """

    number: int
    exhibit: str
    is_control: bool
    ops: tuple[Op, ...]
    landed: bool
    revealing: bool
    validity: Validity
    first: str | None
    named: bool
    headline: str
    seconds: float
    folder: str | None = None

    @property
    def is_miss(self) -> bool:
        """Whether a bug was there to be seen and was not found."""
        return self.revealing and self.validity != "invalid"

    @property
    def is_misnamed(self) -> bool:
        """Whether a bug was found and called something else."""
        return self.revealing and self.validity == "invalid" and not self.named

    @property
    def is_false_alarm(self) -> bool:
        """Whether a right job was called wrong."""
        return self.is_control and self.validity == "invalid"

    @property
    def is_undecided(self) -> bool:
        """Whether nothing follows: a strike that missed, or a right job not shown to be right."""
        return not self.landed or (self.is_control and self.validity == "unknown")

    @property
    def is_worth_a_look(self) -> bool:
        """Whether it is not what it should be."""
        return self.is_miss or self.is_misnamed or self.is_false_alarm or self.is_undecided


def judged(number: int, case: Case, ops: tuple[Op, ...], run: FinishedRun) -> Judged:
    """Give the row of a run that was judged."""
    exhibit, broken = case.exhibit, run.verdict.broken
    struck = [strike.op for strike in run.trial.strikes if strike.landed]
    return Judged(
        number=number,
        exhibit=exhibit.id,
        is_control=exhibit.is_control,
        ops=ops,
        landed=len(struck) == len(ops),
        revealing=exhibit.is_revealed_by(case.variant, struck),
        validity=run.verdict.validity,
        first=broken[0].check if broken else None,
        named=bool(broken) and is_named(exhibit, broken[0]),
        headline=run.verdict.headline,
        seconds=run.duration_s,
    )


def is_named(exhibit: Exhibit, first: CheckResult) -> bool:
    """Say whether a check that came first is the bug's own, and names the part where it must."""
    if first.check not in exhibit.first:
        return False
    told = "\n".join(anomaly.message for anomaly in first.anomalies)
    return not exhibit.parts or any(says(told, part) for part in exhibit.parts)


def says(text: str, part: str) -> bool:
    """Return whether a text names a part, whole or with what is below it (`ema`, `ema.1`)."""
    return re.search(rf"(?<![\w.]){re.escape(part)}(?!\w)", text) is not None
