"""The words of a verdict on a job that torchrun starts: the checks speak of Ray Train.

They judge the same promises for either launcher; only what keeps them has another name.
"""

import re
from collections.abc import Sequence

from chaos.model.diagnosis import Resume
from chaos.model.verdict import CheckResult, Verdict

_SPOKEN: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"(?:trainer\.)?fit\(\)", "torchrun"),
        (r"\bmax_failures\b", "--max-restarts"),
        (r"\bRay's controller\b", "torchrun's agent"),
        (r"(?<!needs )\bRay(?: Train)?\b", "torchrun"),
        (r"\bnever committed\b", "never ended by a save"),
        (r"\bnewest commit\b", "newest save"),
        (r"\bwas committed twice\b", "was trained twice"),
        (r"\bnewest (committed )?checkpoint\b", "newest save"),
        (r"\bfrom what was committed, or anew\b", "from whole files, or anew"),
    )
)


def for_torchrun(verdict: Verdict) -> Verdict:
    """Return a verdict in torchrun's words."""
    return verdict.model_copy(
        update={
            "headline": spoken(verdict.headline),
            "expectation": spoken(verdict.expectation),
            "results": tuple(map(_result, verdict.results)),
            "diagnosis": tuple(map(_resume, verdict.diagnosis)),
            "notes": _all(verdict.notes),
        }
    )


def spoken(text: str) -> str:
    """Return a sentence of a check in torchrun's words."""
    for pattern, words in _SPOKEN:
        text = pattern.sub(words, text)
    return text


def _result(result: CheckResult) -> CheckResult:
    anomalies = tuple(
        anomaly.model_copy(update={"message": spoken(anomaly.message)})
        for anomaly in result.anomalies
    )
    return result.model_copy(update={"summary": spoken(result.summary), "anomalies": anomalies})


def _resume(resume: Resume) -> Resume:
    return resume.model_copy(update={"sentence": spoken(resume.sentence)})


def _all(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(spoken, texts))
