"""Was the last restart one after the end, with nothing left to do?"""

from chaos.check.trial import Trial


def nothing_was_left(trial: Trial) -> bool:
    """Say whether the last attempt rightly made no step: all that the baseline has was committed.

    What is started again under its run name resumes a finished run, and
    `fit()` returns at once (ray-project/ray#35812): right for a driver that
    was killed, and an outcome of its own.
    """
    ending, reference = trial.run.ending, trial.reference
    if ending.returned is None or reference is None or not trial.restarts:
        return False
    last = trial.restarts[-1].attempt
    epochs = [commit.epoch for commit in trial.run.lineage.commits]
    is_idle = bool(last.starts) and not last.steps and not last.commits
    return is_idle and bool(epochs) and epochs == [c.epoch for c in reference.lineage.commits]


def in_words(trial: Trial) -> str:
    """Say it, with its figure where the job makes steps that can be watched."""
    return "nothing was left to do" + (", 0 new steps" if trial.sees_steps else "")
