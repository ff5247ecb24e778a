"""By how many steps a resumed attempt's inputs lie before or after those of its place."""

from collections.abc import Mapping

from chaos.check.feeds import Feeds
from chaos.check.restarts import Restart
from chaos.check.trial import Trial


def shifts(trial: Trial) -> Mapping[int, int]:
    """Give the attempts that went on at another place of the inputs, and by how many steps.

    Negative: back. Only where the whole run is as much too long, or too
    short: a job that draws one epoch in another's order is not longer.
    """
    feeds = trial.feeds
    if feeds is None or not feeds.repeat or not trial.run.ending.is_finished:
        return {}
    found = {r.attempt.index: by for r in trial.restarts if (by := _shift(r, feeds))}
    surplus = feeds.ours.steps_done - feeds.theirs.steps_done
    # A job that went back stays back: the last resume shows what all have added up to.
    in_all = {-by for by in (sum(found.values()), *list(found.values())[-1:])}
    return found if surplus and surplus in in_all else {}


def _shift(restart: Restart, feeds: Feeds) -> int | None:
    """Give the shift that all ranks show alike, None where they do not."""
    seen: set[int | None] = set()
    apart = {(a.rank, a.epoch) for a in feeds.apart}
    for rank, start in restart.attempt.starts.items():
        if (rank, start.epoch) not in apart:
            seen.add(0)
            continue
        steps = restart.attempt.by_epoch.get((rank, start.epoch), ())
        at = feeds.found_at(steps)
        seen.add(None if at is None else at - feeds.due_at(steps[0]))
    return seen.pop() if len(seen) == 1 else None
