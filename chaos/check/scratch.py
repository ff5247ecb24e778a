"""Did an attempt that should have resumed begin training anew?"""

from collections.abc import Sequence

from chaos.check.attempt import Losses
from chaos.check.components import Row
from chaos.check.leeway import EXACT
from chaos.check.lineage import Lineage
from chaos.check.restarts import Restart
from chaos.check.sightings import Sightings, agree, holds_nothing, is_rng


def began_anew(
    restart: Restart, rows: Sequence[Row], run: Sightings, reference: Lineage | None
) -> bool:
    """Say whether it did, by its state where that was seen, else by its losses.

    By state: the model is as it was at the very beginning, and nothing else
    is as it should be but what never changed. By losses: those of its first
    epoch are the baseline's of epoch 0, and not those of its own place.
    """
    mine = [
        row for row in rows if row.attempt == restart.attempt.index and not is_rng(row.component)
    ]
    models = [row for row in mine if row.group == "model"]
    if models:
        return all(row.standing == "reset" for row in models) and all(
            _is_fresh(r, run) for r in mine
        )
    if reference is None or restart.attempt.place in (None, (0, 0)):
        return False
    firsts = restart.attempt.first_steps
    return bool(firsts) and all(_repeats_epoch_0(restart, rank, reference) for rank in firsts)


def _is_fresh(row: Row, run: Sightings) -> bool:
    if row.group in ("optimizer settings", "gradients") or row.standing == "not compared":
        return True
    if row.standing == "restored":
        return holds_nothing(row.due) or agree(
            run.fresh(row.rank).get(row.component), row.due, EXACT
        )
    return row.standing != "different"


def _repeats_epoch_0(restart: Restart, rank: int, reference: Lineage) -> bool:
    start = restart.attempt.starts.get(rank)
    if start is None:
        return False
    steps = restart.attempt.by_epoch.get((rank, start.epoch), ())
    ours = [step.losses for step in steps]
    first = _losses(reference, rank, 0, len(ours))
    due = _losses(reference, rank, start.epoch, len(ours))
    return bool(ours) and all(ours) and ours == first and ours != due


def _losses(course: Lineage, rank: int, epoch: int, count: int) -> list[Losses | None]:
    return [step.losses for step in course.steps.get((rank, epoch), ())[:count]]
