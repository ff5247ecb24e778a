"""Kinds of findings: named, described, and independent of the sentences about them."""

import random
import re
import string

import pytest

from chaos.check import anomaly
from chaos.check.judge import CHECKS, judge
from chaos.check.kinds.base import Facts
from chaos.check.prose.registry import find_entry, list_entries
from chaos.model.launcher_facts import LauncherWords
from chaos.model.verdict import Verdict
from tests.check.prose_texts import list_facts_types
from tests.check.shorthand import plan_of, told_in
from tests.check.test_judge_golden import ROWS

#: kinds that no history of the table shows, with the test that does
SHOWN_ELSEWHERE: dict[str, str] = {}


@pytest.mark.parametrize("facts_type", list(list_facts_types()), ids=lambda cls: cls.__name__)
def test_each_kind_is_described(facts_type: type[Facts]) -> None:
    entry = find_entry(facts_type.kind)

    assert entry is not None
    assert re.fullmatch(r"[a-z]+(-[a-z]+)+", entry.kind)
    assert entry.check in {check.NAME for check in CHECKS}
    for text in (entry.meaning, entry.usual_cause, entry.remedy):
        assert re.fullmatch(r"[A-Z`].*[.]", text), text


def test_a_kind_has_one_type_of_facts() -> None:
    kinds = [facts_type.kind for facts_type in list_facts_types()]

    assert sorted(kinds) == [entry.kind for entry in list_entries()]


def verdicts() -> list[Verdict]:
    return [
        judge(plan_of(line), told_in(line), told_in(baseline))
        for baseline, kept, broken, _, unseen in ROWS.values()
        for line in filter(None, (kept, broken, unseen))
    ]


def test_other_sentences_make_no_other_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome(verdict: Verdict) -> object:
        findings = [
            (result.check, result.status, a.kind, a.parts, a.severity, a.is_unexplained)
            for result in verdict.results
            for a in (*result.anomalies, *result.latent, *result.accepted)
        ]
        return verdict.status, verdict.as_expected, verdict.severity, findings

    draw = random.Random(0)

    def scramble(facts: Facts, terms: LauncherWords) -> str:
        return "".join(draw.choices(string.ascii_lowercase + " ", k=draw.randrange(1, 80)))

    before = [outcome(verdict) for verdict in verdicts()]
    monkeypatch.setattr(anomaly, "describe_finding", scramble)

    assert [outcome(verdict) for verdict in verdicts()] == before


def test_no_finding_is_without_a_kind() -> None:
    findings = [
        (result.check, find_entry(finding.kind), finding.message)
        for verdict in verdicts()
        for result in verdict.broken
        for finding in result.anomalies
    ]

    assert findings
    assert not [text for check, entry, text in findings if entry is None or entry.check != check]
