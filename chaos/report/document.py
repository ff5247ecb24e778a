"""A run, a suite or a list of them as JSON, for machines; nothing in it is rounded."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from chaos.check.goodput import ledger_of
from chaos.model.summary import RunSummary
from chaos.report import page
from chaos.report.outcome import FinishedRun, row_of
from chaos.report.summary import summary_of


def run_in_json(run: FinishedRun) -> str:
    """Give one run: its figures, its verdict, what was done, and its time by attempt and phase."""
    spent = ledger_of(run.trial)
    return _text(
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
    """Give several runs in figures."""
    return _text([run.model_dump(mode="json") for run in runs])


def _text(value: Any) -> str:  # noqa: ANN401 - what JSON can hold
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
