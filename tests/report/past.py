"""Runs of the past in one line: what a summary tells of a scenario."""

from typing import Any

from chaos.model.expect import VerdictStatus
from chaos.model.summary import RunSummary, SuiteSummary


def past_run(scenario: str = "killed", standing: Any = "expected", **figures: Any) -> RunSummary:
    judged: dict[str, VerdictStatus] = {
        "expected": "pass",
        "unexpected": "fail",
        "undecided": "inconclusive",
    }
    goodput = figures.pop("goodput", None)
    phases = {} if goodput is None else {"productive": goodput, "other": 1 - goodput}
    return RunSummary(
        scenario=scenario,
        file=f"/jobs/{scenario}.chaos.yaml",
        status=judged.get(standing),
        standing=standing,
        headline=f"about {scenario}",
        phases_s=phases,
        **figures,
    )


def past_suite(*runs: RunSummary, started: str = "2026-11-21T01:45:00Z") -> SuiteSummary:
    return SuiteSummary(started=started, runs=runs)
