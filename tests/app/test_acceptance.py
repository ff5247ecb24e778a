"""`FINDING[:PART]=REASON`."""

import pytest

from chaos.app.acceptance import parse_accepted_finding
from chaos.errors import UsageError
from chaos.model.expect import AcceptedFinding


@pytest.mark.parametrize(
    ("word", "finding", "part", "reason"),
    [
        ("older-save=we keep the best", "older-save", None, "we keep the best"),
        ("older-save:model.rest=a=b", "older-save", "model.rest", "a=b"),
    ],
)
def test_a_finding_is_accepted_for_a_reason(
    word: str, finding: str, part: str | None, reason: str
) -> None:
    assert parse_accepted_finding(word) == AcceptedFinding(
        finding=finding, part=part, reason=reason
    )


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("older-sav=x", "Did you mean older-save?"),
        ("older-save", "accepted without a reason"),
        ("older-save= ", "accepted without a reason"),
        ("rgn", "Did you mean rng?"),
    ],
)
def test_what_is_no_finding_or_has_no_reason_is_refused(word: str, problem: str) -> None:
    with pytest.raises(UsageError, match="accept: ") as raised:
        parse_accepted_finding(word)

    assert problem in str(raised.value)
