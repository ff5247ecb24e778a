"""Rows of a suite as summaries, for machines and for later."""

import posixpath
from collections.abc import Sequence

from chaos.model.summary import RunSummary, SuiteSummary
from chaos.report.outcome import SuiteRow


def summary_of(row: SuiteRow, *, folder: str | None = None) -> RunSummary:
    """Give a row in figures; its directory relative to `folder`, else as it is."""
    verdict = row.verdict
    directory = row.directory
    if directory is not None and folder is not None:
        directory = posixpath.relpath(directory, folder)
    return RunSummary(
        scenario=row.scenario,
        file=row.file,
        validity=verdict.validity if verdict else None,
        standing=row.standing,
        headline=row.why,
        directory=directory,
        broken=verdict.broken[0].check if verdict and verdict.broken else None,
        error=row.error,
        seed=row.seed,
        repeat=row.repeat,
        backend=row.backend,
        attempts=row.attempts,
        lost_steps=row.lost_steps,
        recovery_s=row.recovery_s,
        duration_s=row.duration_s,
        phases_s=dict(row.phases_s),
        versions=dict(row.versions),
        history=verdict.history if verdict else None,
    )


def suite_of(rows: Sequence[SuiteRow], *, started: str, folder: str) -> SuiteSummary:
    """Give a suite in figures; `folder` is where the summary will lie."""
    return SuiteSummary(started=started, runs=tuple(summary_of(row, folder=folder) for row in rows))
