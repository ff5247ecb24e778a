"""From the facts of a finding to the anomaly in a verdict."""

from collections.abc import Iterable
from dataclasses import fields

from pydantic_core import to_jsonable_python

from chaos.check.kinds.base import Facts
from chaos.check.prose.registry import describe_finding
from chaos.model.launcher import LauncherWords
from chaos.model.severity import Severity
from chaos.model.verdict import Anomaly


def build_anomaly(  # noqa: PLR0913 (the fields of an anomaly)
    facts: Facts,
    terms: LauncherWords,
    *,
    events: Iterable[int],
    parts: Iterable[str] = (),
    severity: Severity = "wrong result",
    is_result: bool | None = None,
    guess: str = "",
    is_unexplained: bool = False,
) -> Anomaly:
    """Return a broken promise with its kind, its facts as in JSON, and the sentence about them.

    `parts`: what of the job is affected, such as a part of its state, a metric or a file; with the
    kind they identify the defect. The other arguments as in `Anomaly`.
    """
    return Anomaly(
        kind=facts.kind,
        facts={
            field.name: to_jsonable_python(getattr(facts, field.name)) for field in fields(facts)
        },
        message=describe_finding(facts, terms),
        events=tuple(events),
        parts=tuple(parts),
        severity=severity,
        is_result=is_result,
        guess=guess,
        is_unexplained=is_unexplained,
    )
