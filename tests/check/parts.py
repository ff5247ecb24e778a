"""Parts of the state that did not come back, in a run that was killed once."""

from typing import Any

from chaos.model import event as ev
from chaos.model.diagnosis import Part
from chaos.model.history import History
from chaos.model.verdict import Verdict
from tests.check.story import Story, Strike
from tests.check.tamper import restored_wrong, shifted
from tests.check.watching import components

KILLED = Story((Strike(2, 3, 1),))
TWICE = Story((Strike(1, 3, 1), Strike(3, 2, 0)))


def fresh(name: str) -> Any:
    def of(seen: ev.StateSeen) -> ev.Component:
        return next(p for p in components(seen.rank, 0, 0, drawn=True) if p.name == name)

    return of


def lost(name: str, ours: Any = None, **where: Any) -> History:
    """Tell of a part that did not come back at epoch 2, and of the losses that follow."""
    return shifted(restored_wrong(KILLED.history(), name, ours, **where), 2)


def part(verdict: Verdict, component: str, rank: int = 0) -> Part:
    (resume,) = verdict.diagnosis
    return next(p for p in resume.parts if (p.component, p.rank) == (component, rank))
