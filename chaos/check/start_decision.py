"""Did every attempt that began anew have a reason that somebody was told?"""

from collections.abc import Iterator

from chaos.check.attempt import Start
from chaos.check.files import is_own
from chaos.check.restarts import Restart
from chaos.check.result import conclude, plural, without_restart
from chaos.check.trial import Trial
from chaos.model.event import FileLoaded
from chaos.model.verdict import Anomaly, CheckResult

NAME = "start-decision"


def check(trial: Trial) -> CheckResult:
    """Require that no rank trains from scratch because reading its checkpoint failed.

    The promise of an explicit start: a load that fails ends the attempt, or
    falls back to an older save; it is never taken for a first run
    (facebookresearch/metaseq#602). It is broken where a rank's load raised,
    nothing of this run was read after it, the rank trained all the same, and
    did so from the very beginning, as its state shows. Where that was not
    seen, nothing of this run may have been read before it either: a file that
    is read besides the checkpoint may be missing. Where nothing was saved yet
    there is nothing to fall back to.
    """
    if not trial.restarts:
        return without_restart(NAME, trial)
    anomalies = [a for restart in trial.restarts for a in _anomalies(trial, restart)]
    started = sum(len(restart.attempt.starts) for restart in trial.restarts)
    silent = [r.attempt.index for r in trial.restarts if not r.attempt.starts]
    return conclude(
        NAME,
        anomalies=anomalies,
        doubts=[f"how attempt {index} started was not seen" for index in silent],
        evidence=started,
        summary=f"{plural(len(trial.restarts), 'restart')}; no failed load was taken for a "
        "first run",
    )


def _anomalies(trial: Trial, restart: Restart) -> Iterator[Anomaly]:
    attempt = restart.attempt
    for rank, start in sorted(attempt.starts.items()):
        failed = _last_failure(trial, attempt.index, rank)
        if failed is None or rank not in attempt.first_steps:
            continue
        if not _was_saved(trial, restart, before=start.number):
            continue
        if not _is_from_scratch(trial, attempt.index, start):
            continue
        number, load = failed
        yield Anomaly(
            message=f"rank {rank} of attempt {attempt.index} could not read {load.path} "
            f"({load.error}), and trained from scratch without a word",
            events=(number, attempt.first_steps[rank]),
        )


def _was_saved(trial: Trial, restart: Restart, *, before: int) -> bool:
    """Say whether there was something to go on from: a commit, or training in files of its own.

    Whatever else a job writes down that gives Ray its checkpoints is no training.
    """
    if restart.newest is not None:
        return True
    reference = trial.reference
    ray_keeps = reference is not None and any(c.checkpoint for c in reference.lineage.commits)
    if ray_keeps or not trial.run.keeps_own_files:
        return False
    return any(save.place > (0, 0) for save in trial.run.files.published(before=before))


def _is_from_scratch(trial: Trial, attempt: int, start: Start) -> bool:
    """Say whether a rank went on from nothing, for all that is known of it.

    A job that keeps files of its own and found no place in them begins where
    a first run does: its state is right there, and does not tell it.
    """
    if attempt in trial.began_anew or (start.checkpoint is None and start.place == (0, 0)):
        return True
    if any(index == attempt for index, _ in trial.run.sightings.entries):
        return start.checkpoint is None and _is_reset(trial, attempt, start.rank)
    return trial.run.files.newest_loaded(attempt, start.rank) is None


def _is_reset(trial: Trial, attempt: int, rank: int) -> bool:
    models = [
        row
        for row in trial.components
        if (row.attempt, row.rank, row.group) == (attempt, rank, "model")
    ]
    return bool(models) and all(row.standing == "reset" for row in models)


def _last_failure(trial: Trial, attempt: int, rank: int) -> tuple[int, FileLoaded] | None:
    """Give the load that raised and that no later one made good."""
    failed = None
    for number, load in trial.run.files.loads.get((attempt, rank), ()):
        if load.error is not None:
            failed = number, load
        elif is_own(load):
            failed = None
    return failed
