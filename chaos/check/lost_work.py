"""Did a restart throw away too much finished work?"""

from collections.abc import Iterator

from chaos.check.restarts import Restart
from chaos.check.result import conclude, nothing_due, plural, unknown, without_restart
from chaos.check.trial import NO_STEPS, Course, Trial
from chaos.model.event import UploadEnded
from chaos.model.verdict import Anomaly, CheckResult

NAME = "lost-work"


def check(trial: Trial) -> CheckResult:
    """Require that no restart throws away more steps than `expect.lost_steps.max`, on any rank.

    The promise of bounded loss. Left out, the bound is the baseline's
    longest way from one checkpoint to the next (or from one save of its
    own, for a job that gives Ray none), and twice that for a preemption,
    which comes by the clock and may find the last report not yet recorded,
    and for a rank that had reported and trained on: in Ray 2.60 a report that
    returned is no commit until all ranks have made it and the controller has
    polled. Ranks that wait for one another at every step cannot come so far.
    A job that saves by the clock makes another number of steps from one save to
    the next in every run, which bounds nothing.
    """
    if not trial.restarts:
        return without_restart(NAME, trial)
    if not trial.sees_steps:
        if trial.plan.expect.lost_steps is not None:
            return unknown(NAME, f"`expect.lost_steps` is given, and {NO_STEPS}")
        return nothing_due(NAME, NO_STEPS)
    if trial.plan.expect.lost_steps is None and trial.is_by_steps:
        return nothing_due(NAME, "the job saves by the clock, which bounds no number of steps")
    if trial.plan.expect.lost_steps is None and trial.reference is None:
        why = f"{trial.no_reference} to say how much is too much, nor does `expect.lost_steps`"
        return unknown(NAME, why)
    started = [restart for restart in trial.restarts if restart.attempt.starts]
    anomalies = [anomaly for restart in started for anomaly in _anomalies(restart, trial)]
    most = max((_lost(restart) for restart in started), default=0)
    return conclude(
        NAME,
        anomalies=anomalies,
        evidence=len(started),
        summary=f"{plural(len(started), 'restart')} threw away at most "
        f"{plural(most, 'finished step')}",
        measures={"lost_steps_max": most, "lost_steps": sum(_lost(r) for r in started)},
    )


def _lost(restart: Restart) -> int:
    return max(restart.lost_steps.values(), default=0)


def _anomalies(restart: Restart, trial: Trial) -> Iterator[Anomaly]:
    for rank, lost in sorted(restart.lost_steps.items()):
        bound = _bound(restart, trial, rank)
        if lost > bound and lost == _lost(restart):
            yield Anomaly(
                message=f"attempt {restart.attempt.index} threw away "
                f"{plural(lost, 'finished step')} of rank {rank}; {bound:g} are allowed",
                events=(restart.attempt.starts[rank].number,)
                if rank in restart.attempt.starts
                else (),
            )
            return


def _way_between_saves(reference: Course) -> int:
    """Give the most steps that any rank makes from one save to the next."""
    if not reference.keeps_own_files:
        return reference.lineage.longest_way_between_commits()
    saved = {save.place for save in reference.files.saves}
    return max(
        (_longest_way(reference, rank, saved) for rank in reference.lineage.ranks), default=0
    )


def _longest_way(reference: Course, rank: int, saved: set[tuple[int, int]]) -> int:
    way = longest = 0
    for epoch in reference.lineage.epochs[rank]:
        # A save at the head of an epoch, before any step of it, ends the way too.
        way = 0 if (epoch, 0) in saved else way
        for step in reference.lineage.steps[rank, epoch]:
            way += 1
            longest = max(longest, way)
            way = 0 if (step.epoch, step.step) in saved else way
    return longest


def _bound(restart: Restart, trial: Trial, rank: int) -> float:
    if trial.plan.expect.lost_steps is not None:
        return trial.plan.expect.lost_steps.max
    assert trial.reference is not None
    way = _way_between_saves(trial.reference)
    ended, due = restart.ended, max((a.size for a in trial.reference.attempts), default=0)
    if ended is not None and 0 < ended.size < due:  # fewer workers make more steps of an epoch
        way = -(-way * due // ended.size)
    # Where no rank was held at its place, the report before may not have been committed yet; nor
    # has one that this rank had made, and trained on, while another rank still uploads its part.
    is_by_the_clock = any(not s.is_exact for s in restart.strikes)
    return way * max(2 if is_by_the_clock else 1, 1 + _reported(restart, trial.run, rank))


def _reported(restart: Restart, run: Course, rank: int) -> int:
    """Return how many checkpoints of what was thrown away a rank had uploaded its part of.

    And trained on: the reports of which they were a part were never committed.
    """
    if restart.ended is None or restart.attempt.place is None:
        return 0
    first, ended = restart.attempt.place[0], restart.ended
    came = max((epoch for of, epoch in ended.by_epoch if of == rank), default=first)
    known = {commit.epoch for commit in ended.commits}
    return len(
        {
            e.epoch
            for _, e in run.history.of(UploadEnded)
            if (e.attempt, e.rank) == (ended.index, rank)
            if first <= e.epoch < came and e.epoch not in known
        }
    )
