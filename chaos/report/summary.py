"""A run, or a suite, as figures for machines; nothing is rounded."""

import json
import posixpath
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from chaos.check.goodput import ledger_of
from chaos.model.summary import RunSummary, SuiteSummary
from chaos.report import page
from chaos.report.outcome import FinishedRun, SuiteRow, row_of


def summary_of(row: SuiteRow, *, folder: str | None = None) -> RunSummary:
    """Return a row in figures; its directory is relative to `folder`, if it is below it."""
    verdict = row.verdict
    directory = row.directory
    if directory is not None and folder is not None:
        directory = posixpath.relpath(directory, folder)
    return RunSummary(
        scenario=row.scenario,
        file=row.file,
        status=verdict.status if verdict else None,
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
    """Return a suite in figures; `folder` is that of the summary."""
    return SuiteSummary(started=started, runs=tuple(summary_of(row, folder=folder) for row in rows))


def run_in_json(run: FinishedRun) -> str:
    """Return one run: its figures, verdict, faults, and its time by attempt and phase."""
    spent = ledger_of(run.analysis)
    return _as_json(
        {
            "summary": summary_of(row_of(run)).model_dump(mode="json"),
            "verdict": run.verdict.model_dump(mode="json"),
            "ops": [asdict(op) for op in page.op_rows(run)],
            "goodput": {
                "wall_s": spent.wall_ns / 1e9,
                "productive": spent.goodput,
                "phases_s": spent.seconds(),
                "by_attempt": {a: spent.seconds(attempt=a) for a in spent.attempts},
            },
            "replay": f"chaos replay {run.directory}",
        }
    )


def runs_in_json(runs: Sequence[RunSummary]) -> str:
    """Return several runs in figures."""
    return _as_json([run.model_dump(mode="json") for run in runs])


def _as_json(value: Any) -> str:  # noqa: ANN401 - what JSON can hold
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
