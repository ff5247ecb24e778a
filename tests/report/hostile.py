"""A name as a stranger's record may have it, and what no output may have of it."""

import re

from chaos.report.outcome import FinishedRun

HOSTILE = "a\x1b]0;x\x07\x1b[2J\x9b\u202e[/b] :bug:\n::error::boom"
OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def named(run: FinishedRun, name: str = HOSTILE) -> FinishedRun:
    plan = run.plan.model_copy(update={"scenario": name})
    verdict = run.verdict.model_copy(update={"headline": name, "expectation": name})
    return FinishedRun(
        plan, run.env, run.history, run.baseline, verdict, f"runs/{name}", run.duration_s
    )
