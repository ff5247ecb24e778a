"""Restarts by kind: resumed, from scratch, and with nothing left to do."""

from collections.abc import Sequence

from chaos.check.analysis import RunAnalysis
from chaos.check.restarts import Restart
from chaos.model.verdict import Restarts


def count_restarts(analysis: RunAnalysis, restarts: Sequence[Restart] | None = None) -> Restarts:
    """Count a run's restarts, or some of them, by the place where they continued."""
    among = analysis.restarts if restarts is None else restarts
    trained = [restart for restart in among if _trained(analysis, restart)]
    resumed = sum(is_resumed(analysis, restart) for restart in trained)
    return Restarts(
        resumed=resumed,
        from_scratch=len(trained) - resumed,
        idle=len(among) - len(trained),
    )


def is_resumed(analysis: RunAnalysis, restart: Restart) -> bool:
    """Return whether a restart continued from a checkpoint, or from a file of the job's own.

    To be handed a checkpoint is not enough. A rank asked for it, or read a file that an earlier
    attempt had saved, and the attempt did not train from scratch.
    """
    attempt = restart.attempt
    if not _trained(analysis, restart) or attempt.index in analysis.began_anew:
        return False
    files = analysis.run.files
    read = any(files.newest_loaded(attempt.index, rank) for rank in attempt.starts)
    found = any(start.is_later for start in attempt.starts.values())
    has_checkpoint = any(start.checkpoint is not None for start in attempt.starts.values())
    return found or read or (has_checkpoint and bool(attempt.asked))


def _trained(analysis: RunAnalysis, restart: Restart) -> bool:
    """Return whether it made a step or, where no step can be seen, a report."""
    attempt = restart.attempt
    if analysis.sees_steps:
        return bool(attempt.steps)
    return bool(attempt.reported or attempt.commits)


def untested(analysis: RunAnalysis) -> str | None:
    """Return the reason why the faults tested no resume; None where one was tested."""
    if not analysis.plan.ops or count_restarts(analysis).resumed:
        return None
    if not analysis.restarts:
        return "nothing was restarted, so that no resume was tested"
    return "no restart went on from a checkpoint, so that no resume was tested"


# -- nothing left to do ----------------------------------------------------------------------------


def nothing_was_left(analysis: RunAnalysis) -> bool:
    """Return whether the last attempt rightly made no step: all epochs were committed.

    A script that is started again under its run name resumes a finished run, and `fit()` returns at
    once (ray-project/ray#35812). That is right for a driver that was killed, and an outcome of its
    own.
    """
    ending, reference = analysis.run.ending, analysis.reference
    if ending.returned is None or reference is None or not analysis.restarts:
        return False
    last = analysis.restarts[-1].attempt
    epochs, due = (
        sorted({epoch for _, epoch in tables.lineage.steps})
        if tables.reports_nothing
        else [commit.epoch for commit in tables.lineage.commits]
        for tables in (analysis.run, reference)
    )
    is_idle = bool(last.starts) and not last.steps and not last.commits
    return is_idle and bool(epochs) and epochs == due


def in_words(analysis: RunAnalysis) -> str:
    """Return it in words, with its figure where the job makes steps that can be watched."""
    return "nothing was left to do" + (", 0 new steps" if analysis.sees_steps else "")
