"""Which notices are long enough: where a save on notice commits, and how many steps it saves."""

from dataclasses import dataclass

import numpy as np

from chaos.preflight.capacity import Floats
from chaos.preflight.question import Question
from chaos.preflight.saving import signal_s

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
    """Return the surface of notice against upload, the moment of the poll averaged over.

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
    with_s = np.maximum(0.0, notice_s - latency_s - costs.save_s)
    each_s = np.where(fits, _mean_saved_s(question.interval_s, upload_s, with_s), 0.0)
    saved_s = float(each_s.mean()) * reliability
    commits = float(fits.mean()) * reliability
    return Cell(notice_s, upload_s, commits, saved_s / costs.step_s)


def _mean_saved_s(interval_s: float, upload_s: float, with_s: Floats) -> Floats:
    """Return what a save on notice spares on average, where `with_s` are lost with it.

    Without it a part of an interval is lost, each with equal chance, and what
    was not yet uploaded; where that is less than `with_s`, nothing is spared.
    """
    least_s = np.clip(with_s - min(upload_s, interval_s), -interval_s, interval_s)
    part_s = (interval_s - np.maximum(least_s, 0.0)) ** 2 / (2 * interval_s)
    spared: Floats = part_s - np.minimum(least_s, 0.0)
    return spared
