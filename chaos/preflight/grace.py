"""Which notices are long enough: where a save on notice commits, and how many steps it saves."""

from dataclasses import dataclass

import numpy as np

from chaos.preflight.question import Question
from chaos.preflight.runs import signal_s

NOTICES_S = (0, 5, 10, 15, 20, 30, 45, 60, 90, 120)
UPLOADS = (0.25, 0.5, 1.0, 2.0, 4.0)  # times what was measured: a checkpoint's size over the speed
_DRAWS = 2_001


@dataclass(frozen=True)
class Cell:
    """One notice and one upload. `commits`: the probability, the notice's reliability included.

    `steps_saved`: per loss, against going back to the last periodic checkpoint.
    """

    notice_s: float
    upload_s: float
    commits: float
    steps_saved: float


def grace_sweep(question: Question) -> tuple[Cell, ...]:
    """Give the surface of notice against upload, the moment of the poll averaged over.

    Closed form but for the poll: a loss falls anywhere between two periodic
    checkpoints with equal chance.
    """
    costs = question.costs
    assert costs is not None
    base_s = costs.upload_s or 1.0
    return tuple(
        _cell(question, float(notice_s), base_s * factor)
        for factor in UPLOADS
        for notice_s in NOTICES_S
    )


def _cell(question: Question, notice_s: float, upload_s: float) -> Cell:
    costs, settings = question.costs, question.settings
    assert costs is not None
    luck = (np.arange(_DRAWS) + 0.5) / _DRAWS
    latency_s = signal_s(luck, settings.preemption_poll_s, costs.step_s)
    grace_s = settings.preemption_grace_s if settings.relax_collectives_on_preemption else 0.0
    fits = (latency_s < notice_s) & (
        latency_s + costs.save_s + upload_s <= notice_s + grace_s * (notice_s > 0)
    )
    reliability = question.market.notice.reliability if question.market.notice.seconds else 1.0
    # Without a save what is lost is half an interval on average, and what was not yet uploaded.
    without_s = question.interval_s / 2 + min(upload_s, question.interval_s)
    with_s = np.minimum(without_s, np.maximum(0.0, notice_s - latency_s - costs.save_s))
    saved_s = float(np.where(fits, without_s - with_s, 0.0).mean()) * reliability
    commits = float(fits.mean()) * reliability
    return Cell(notice_s, upload_s, commits, saved_s / costs.step_s)
