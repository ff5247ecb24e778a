"""Runs of an audit, and what becomes of them on a card."""

from typing import Any

from chaos.audit.budget import AuditProgress
from chaos.audit.card import Card, GroupCoverage
from chaos.audit.run_row import Defect, RunRow
from chaos.faults.kill_worker import KillWorker
from chaos.model.plan import Op
from chaos.model.trigger import AtStep
from chaos.screens.audit import AuditDisplay

EPOCHS = Defect(check="epochs", kind="surplus-epochs")

PARTED = Defect(check="trajectory", kind="numbers-differ")


def run_of(number: int, *defects: Defect, steps: tuple[int, ...] = (3,), **fault: Any) -> RunRow:
    fault = fault or {"kill_worker": KillWorker()}
    ops = (Op(index=n, at=AtStep(epoch=1, step=s, rank=0), **fault) for n, s in enumerate(steps))
    return RunRow(
        number=number,
        name=f"place {number}",
        group="mid-epoch",
        ops=tuple(ops),
        status="fail" if defects else "pass",
        headline=f"Run {number}.",
        defects=defects,
        evidence=("epochs",),
        undecided=(),
        landed=1,
        attempts=2,
        lost_steps=number,
        seconds=0.1,
        resumed=1,
    )


def told(display: AuditDisplay, progress: AuditProgress) -> str:
    display.show(progress)
    return display.__rich__().plain


# -- the answer ----------------------------------------------------------------------------


def passing(card: Card, *runs: RunRow, **job: Any) -> Card:
    """Return a card of these runs with nothing to object to but what they show."""
    middle = GroupCoverage(
        group="mid-epoch", tried=1, chosen=1, places=9, why_none=None, resumes=True
    )
    update = {
        "runs": runs or (run_of(0),),
        "findings": (),
        "covered": (middle,),
        "job": card.job.model_copy(update=job),
        "ended": "all",
        "missing_parts": (),
    }
    return card.model_copy(update=update)
