"""Was the same model chosen, and training stopped by the same rule?"""

import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from chaos.check.attempt import Commit
from chaos.check.parting import parting
from chaos.check.result import conclude, nothing_due, plural, unknown
from chaos.check.stored import kept_at_the_end
from chaos.check.trial import Course, Trial
from chaos.check.values import Value, flat, is_below
from chaos.model.verdict import Anomaly, CheckResult

NAME = "selection"

_NAMES = re.compile(
    r"(^|[._/-])(best|patience|stale|stop|stopped|should_stop|early_stop(ping)?|wait|"
    r"(num_)?bad(_epochs)?)([._/-]|$)"
)
_Report: TypeAlias = Mapping[tuple[int, str], Value]


def check(trial: Trial) -> CheckResult:
    """Require the baseline's best value, patience and stop, and its choice of checkpoints.

    The promise of the callbacks' state: patience that is counted anew never
    stops a job that is preempted often (huggingface/transformers#28544), and
    a best value that is forgotten keeps another model
    (Lightning-AI/pytorch-lightning#4911). Judged by what is reported under
    such a name, and by the checkpoints kept at the end. Where losses or other
    metrics had parted before, the choice follows from them.
    """
    if not trial.plan.ops:
        return nothing_due(NAME, "no fault was planned, so there is nothing to compare")
    if trial.reference is None:
        return unknown(NAME, f"{trial.no_reference} to compare with")
    compared = [
        (commit, theirs, name)
        for commit, theirs in _side_by_side(trial, trial.reference)
        for name in _named(theirs, trial.plan.expect.ignore_metrics)
    ]
    kept = _kept_alike(trial, trial.reference)
    if not compared and kept is None:
        return nothing_due(NAME, "the job reports no best value and no patience, and keeps all")
    anomalies = list(_reported(trial, compared))
    if not anomalies and isinstance(kept, Anomaly):
        anomalies = [kept]
    return conclude(
        NAME,
        anomalies=anomalies,
        evidence=len(compared) + (kept is not None),
        summary=f"{plural(len({n for *_, n in compared}), 'value')} that choose or stop, and the "
        "checkpoints that were kept, as in the baseline",
    )


def _side_by_side(trial: Trial, reference: Course) -> Iterator[tuple[Commit, Commit]]:
    due = {commit.epoch: commit for commit in reference.lineage.commits}
    for commit in trial.run.lineage.commits:
        if commit.epoch in due and not commit.of_survivors:
            yield commit, due[commit.epoch]


def _report(commit: Commit) -> _Report:
    return {
        (rank, name): value
        for rank, record in enumerate(commit.metrics)
        for name, value in flat(record)
    }


def _named(commit: Commit, ignore: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    for rank, name in _report(commit):
        if _NAMES.search(name) and not is_below(name, ignore):
            yield rank, name


def _reported(
    trial: Trial, compared: list[tuple[Commit, Commit, tuple[int, str]]]
) -> Iterator[Anomaly]:
    before = [(m, due, name) for m, due, name in compared if m.number < trial.began]
    proven = {name for *_, name in before} - {n for m, due, n in before if _differ(m, due, n)}
    for mine, due, name in compared:
        if name not in proven or mine.number < trial.began or not _differ(mine, due, name):
            continue
        if _numbers_parted_before(trial, mine, due):
            return
        ours, theirs = _report(mine).get(name), _report(due)[name]
        yield Anomaly(
            message=f"`{name[1]}` is {ours} at the report of epoch {mine.epoch}, {theirs} in the "
            "baseline, while what it is chosen by is the same: its state did not come back",
            events=(mine.number,),
        )
        return


def _differ(mine: Commit, due: Commit, name: tuple[int, str]) -> bool:
    return _report(mine).get(name) != _report(due)[name]


def _numbers_parted_before(trial: Trial, mine: Commit, due: Commit) -> bool:
    """Say whether a loss, inputs or another metric explains the difference."""
    where = parting(trial)
    if where is not None and where < (mine.epoch, float("inf")):
        return True
    ours, theirs = _report(mine), _report(due)
    others = {key for key in theirs if not _NAMES.search(key[1])}
    comparison = trial.comparison
    loose = () if comparison is None else (*comparison.not_compared, *comparison.ignored)
    return any(ours.get(key) != theirs[key] for key in others if not is_below(key[1], loose))


def _kept_alike(trial: Trial, reference: Course) -> Anomaly | bool | None:
    """Compare the epochs whose checkpoints are left; None where nothing can be said.

    A job that saves more than its baseline, as at a notice, keeps others than it.
    """
    ours, theirs = kept_at_the_end(trial.run), kept_at_the_end(reference)
    same_epochs = [c.epoch for c in trial.run.lineage.commits] == [
        c.epoch for c in reference.lineage.commits
    ]
    if ours is None or theirs is None or not same_epochs or parting(trial) is not None:
        return None
    if _saved(trial.run) > _saved(reference):
        return None
    mine, due = _of_epochs(trial.run, ours[1]), _of_epochs(reference, theirs[1])
    if mine == due:
        return True
    return Anomaly(
        message=f"the checkpoints of epochs {mine} were kept, in the baseline those of {due}",
        events=(ours[0],),
    )


def _of_epochs(course: Course, kept: Mapping[str, int]) -> list[int]:
    """Give the epochs whose checkpoints were kept; one from before training is of none."""
    early = {commit.checkpoint for attempt in course.attempts for commit in attempt.early}
    return sorted(epoch for name, epoch in kept.items() if name not in early)


def _saved(course: Course) -> set[int]:
    return {commit.epoch for commit in course.lineage.commits if commit.checkpoint is not None}
