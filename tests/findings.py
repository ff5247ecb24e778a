"""Findings as tests ask for them: by kind, facts, parts and severity, and never by their sentences.

What the sentence of a kind looks like is in `tests/check/prose_texts.json`.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from chaos.check.anomaly import encode_facts
from chaos.model.severity import Severity
from chaos.model.verdict import Anomaly, CheckResult, Verdict

Source: TypeAlias = Verdict | CheckResult | Anomaly | Iterable[Anomaly]


def expect_finding(
    source: Source,
    kind: str,
    /,
    *,
    severity: Severity = "wrong result",
    parts: tuple[str, ...] | None = None,
    **facts: object,
) -> Anomaly:
    """Return the first finding of a kind with these facts; fail with those that there are.

    A fact may be given in part: a mapping has some of a record's fields, and a tuple the values of
    all of them, such as `(2, 0)` for an epoch and a step. Floats are compared to three digits.
    """
    anomalies = list_anomalies(source)
    for anomaly in anomalies:
        if (
            (anomaly.kind, anomaly.severity) == (kind, severity)
            and (parts is None or anomaly.parts == parts)
            and is_match(anomaly.facts, facts)
        ):
            return anomaly
    lines = (f"{a.kind} {dict(a.facts)} {a.parts} {a.severity}" for a in anomalies)
    raise AssertionError("\n  ".join([f"no {kind} {facts} {parts} {severity} in:", *lines]))


def expect_in_headline(verdict: Verdict, kind: str, /, **expected: Any) -> Anomaly:
    """Return a finding likewise, of those whose sentence is in the verdict's headline."""
    told = [a for a in list_anomalies(verdict) if a.message[1:] in verdict.headline]
    return expect_finding(told, kind, **expected)


def list_anomalies(source: Source) -> list[Anomaly]:
    """Return the findings of a verdict or a check that break a promise; else what is given."""
    match source:
        case Verdict():
            return [anomaly for result in source.broken for anomaly in result.anomalies]
        case CheckResult():
            return list(source.anomalies) if source.status == "fail" else []
        case Anomaly():
            return [source]
        case _:
            return list(source)


def is_match(actual: object, expected: object) -> bool:
    """Return whether a fact, as in JSON, is the expected one as far as that is given."""
    expected = encode_facts(expected)
    if isinstance(actual, Mapping):
        if isinstance(expected, list):
            return is_match(list(actual.values()), expected)
        return isinstance(expected, Mapping) and all(
            name in actual and is_match(actual[name], value) for name, value in expected.items()
        )
    if isinstance(actual, list) and isinstance(expected, list):
        return len(actual) == len(expected) and all(map(is_match, actual, expected))
    if isinstance(actual, float) and isinstance(expected, float):
        return math.isclose(actual, expected, rel_tol=1e-3)
    return actual == expected
