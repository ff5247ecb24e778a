"""Which restarts resumed, which began from scratch, and which had nothing left to do."""

from chaos.check.analysis import RunAnalysis
from chaos.check.restarts import Restart
from chaos.model.verdict import Restarts


def count_restarts(analysis: RunAnalysis) -> Restarts:
    """Count a run's restarts by where they went on."""
    trained = [restart for restart in analysis.restarts if _trained(analysis, restart)]
    resumed = sum(is_resumed(analysis, restart) for restart in trained)
    return Restarts(
        resumed=resumed,
        from_scratch=len(trained) - resumed,
        idle=len(analysis.restarts) - len(trained),
    )


def is_resumed(analysis: RunAnalysis, restart: Restart) -> bool:
    """Return whether a restart trained on from a checkpoint, or from a file of the job's own.

    That it was handed one is not enough: it asked for it, or read a file that
    an earlier attempt had saved, and it did not begin as at the very beginning.
    """
    attempt = restart.attempt
    if not _trained(analysis, restart) or attempt.index in analysis.began_anew:
        return False
    files = analysis.run.files
    read = any(files.newest_loaded(attempt.index, rank) for rank in attempt.starts)
    found = any(start.path is not None for start in attempt.starts.values())
    handed = any(start.checkpoint is not None for start in attempt.starts.values())
    return found or read or (handed and bool(attempt.asked))


def _trained(analysis: RunAnalysis, restart: Restart) -> bool:
    """Return whether it did anything: a step, or where none can be seen, a report."""
    attempt = restart.attempt
    if analysis.sees_steps:
        return bool(attempt.steps)
    return bool(attempt.reported or attempt.commits)


def untested(analysis: RunAnalysis) -> str | None:
    """Return why no resume was tested by the faults, None where one was."""
    if not analysis.plan.ops or count_restarts(analysis).resumed:
        return None
    if not analysis.restarts:
        return "nothing was restarted, so that no resume was tested"
    return "no restart went on from a checkpoint, so that no resume was tested"


# -- nothing left to do ----------------------------------------------------------------------------


def nothing_was_left(analysis: RunAnalysis) -> bool:
    """Return whether the last attempt rightly made no step: all epochs were committed.

    What is started again under its run name resumes a finished run, and
    `fit()` returns at once (ray-project/ray#35812): right for a driver that
    was killed, and an outcome of its own.
    """
    ending, reference = analysis.run.ending, analysis.reference
    if ending.returned is None or reference is None or not analysis.restarts:
        return False
    last = analysis.restarts[-1].attempt
    epochs = [commit.epoch for commit in analysis.run.lineage.commits]
    is_idle = bool(last.starts) and not last.steps and not last.commits
    return is_idle and bool(epochs) and epochs == [c.epoch for c in reference.lineage.commits]


def in_words(analysis: RunAnalysis) -> str:
    """Return it in words, with its figure where the job makes steps that can be watched."""
    return "nothing was left to do" + (", 0 new steps" if analysis.sees_steps else "")
