"""Restarts by kind: resumed, from scratch, and with nothing left to do."""

from collections.abc import Sequence

from chaos.check.analysis import RunAnalysis
from chaos.check.restarts import Restart
from chaos.model.verdict import RestartCounts


def count_restarts(
    analysis: RunAnalysis, restarts: Sequence[Restart] | None = None
) -> RestartCounts:
    """Count a run's restarts, or some of them, by the place where they continued."""
    selected_restarts = analysis.restarts if restarts is None else restarts
    trained_restarts = [restart for restart in selected_restarts if _has_trained(analysis, restart)]
    resumed_count = sum(is_resumed(analysis, restart) for restart in trained_restarts)
    return RestartCounts(
        resumed=resumed_count,
        from_scratch=len(trained_restarts) - resumed_count,
        idle=len(selected_restarts) - len(trained_restarts),
    )


def is_resumed(analysis: RunAnalysis, restart: Restart) -> bool:
    """Return whether a restart continued from a checkpoint, or from a file of the job's own.

    To be handed a checkpoint is not enough. A rank asked for it, or read a file that an earlier
    attempt had saved, and the attempt did not train from scratch.
    """
    attempt = restart.attempt
    if not _has_trained(analysis, restart) or attempt.index in analysis.scratch_attempts:
        return False
    files = analysis.run.files
    has_loaded_file = any(files.find_newest_load(attempt.index, rank) for rank in attempt.starts)
    has_later_start = any(start.is_mid_training for start in attempt.starts.values())
    has_checkpoint = any(start.checkpoint is not None for start in attempt.starts.values())
    return has_later_start or has_loaded_file or (has_checkpoint and bool(attempt.reading_ranks))


def _has_trained(analysis: RunAnalysis, restart: Restart) -> bool:
    """Return whether it made a step or, where no step can be seen, a report."""
    attempt = restart.attempt
    if analysis.has_visible_steps:
        return bool(attempt.steps)
    return bool(attempt.reported_epochs or attempt.commits)


def find_untested_reason(analysis: RunAnalysis) -> str | None:
    """Return the reason why the faults tested no resume; None where one was tested."""
    if not analysis.plan.ops or count_restarts(analysis).resumed:
        return None
    if not analysis.restarts:
        return "nothing was restarted, so that no resume was tested"
    return "no restart went on from a checkpoint, so that no resume was tested"


# -- nothing left to do ----------------------------------------------------------------------------


def has_no_work_left(analysis: RunAnalysis) -> bool:
    """Return whether the last attempt rightly made no step: all epochs were committed.

    A script that is started again under its run name resumes a finished run, and `fit()` returns at
    once (ray-project/ray#35812). That is right for a driver that was killed, and an outcome of its
    own.
    """
    ending, reference = analysis.run.ending, analysis.reference
    if ending.fit_return is None or reference is None or not analysis.restarts:
        return False
    last_attempt = analysis.restarts[-1].attempt
    run_epochs, baseline_epochs = (
        sorted({epoch for _, epoch in tables.lineage.steps})
        if tables.has_no_reports
        else [commit.epoch for commit in tables.lineage.commits]
        for tables in (analysis.run, reference)
    )
    is_idle = bool(last_attempt.starts) and not last_attempt.steps and not last_attempt.commits
    return is_idle and bool(run_epochs) and run_epochs == baseline_epochs


def describe_no_work(analysis: RunAnalysis) -> str:
    """Return it in words, with its figure where the job makes steps that can be watched."""
    return "nothing was left to do" + (", 0 new steps" if analysis.has_visible_steps else "")
