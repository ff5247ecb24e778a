"""From the facts of a finding to the anomaly in a verdict."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from chaos.check.kinds.base import Facts
from chaos.check.prose.registry import describe_finding
from chaos.model.launcher_facts import LauncherWords
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
    message_without_guess: str = "",
    is_unexplained: bool = False,
) -> Anomaly:
    """Return a broken promise with its kind, its facts as in JSON, and the sentence about them.

    `parts`: what of the job is affected, such as a part of its state, a metric or a file; with the
    kind they identify the defect. The other arguments as in `Anomaly`.
    """
    return Anomaly(
        kind=facts.kind,
        facts=encode_facts(facts),
        message=describe_finding(facts, terms),
        events=tuple(events),
        parts=tuple(parts),
        severity=severity,
        is_result=is_result,
        message_without_guess=message_without_guess,
        is_unexplained=is_unexplained,
    )


def encode_facts(value: Any) -> Any:  # noqa: ANN401 (whatever a fact is made of)
    """Return a value as it stands in JSON: records and named tuples by their fields."""
    if is_dataclass(value):
        return {field.name: encode_facts(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "_asdict"):
        return {name: encode_facts(part) for name, part in value._asdict().items()}
    if isinstance(value, Mapping):
        return {str(key): encode_facts(part) for key, part in value.items()}
    if isinstance(value, (tuple, list, set, frozenset)):
        return [encode_facts(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such number
    return value
