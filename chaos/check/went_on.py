"""Which restarts went on from what was saved, and which began training anew."""

from chaos.check.restarts import Restart
from chaos.check.trial import Trial
from chaos.model.verdict import Restarts


def counted(trial: Trial) -> Restarts:
    """Count a run's restarts by where they went on."""
    trained = [restart for restart in trial.restarts if _trained(trial, restart)]
    resumed = sum(is_resumed(trial, restart) for restart in trained)
    return Restarts(
        resumed=resumed,
        from_scratch=len(trained) - resumed,
        idle=len(trial.restarts) - len(trained),
    )


def is_resumed(trial: Trial, restart: Restart) -> bool:
    """Say whether a restart trained on from a checkpoint, or from a file of the job's own.

    That it was handed one is not enough: it asked for it, or read a file that
    an earlier attempt had saved, and it did not begin as at the very beginning.
    """
    attempt = restart.attempt
    if not _trained(trial, restart) or attempt.index in trial.began_anew:
        return False
    files = trial.run.files
    read = any(files.newest_loaded(attempt.index, rank) for rank in attempt.starts)
    found = any(start.path is not None for start in attempt.starts.values())
    handed = any(start.checkpoint is not None for start in attempt.starts.values())
    return found or read or (handed and bool(attempt.asked))


def _trained(trial: Trial, restart: Restart) -> bool:
    """Say whether it did anything: a step, or where none can be seen, a report."""
    attempt = restart.attempt
    if trial.sees_steps:
        return bool(attempt.steps)
    return bool(attempt.reported or attempt.commits)


def untested(trial: Trial) -> str | None:
    """Say that no resume was put to the test by what was done, None where one was."""
    if not trial.plan.ops or counted(trial).resumed:
        return None
    if not trial.restarts:
        return "nothing was restarted, so that no resume was tested"
    return "no restart went on from a checkpoint, so that no resume was tested"
