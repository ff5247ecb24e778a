"""A part bounds what is accepted."""

import pytest

from chaos.model.expect import AcceptedFinding


@pytest.mark.parametrize(
    ("part", "parts", "is_accepted"),
    [
        (None, (), True),
        (None, ("model",), True),
        ("optimizer", ("optimizer",), True),
        ("optimizer", ("optimizer.exp_avg", "optimizer.step"), True),
        ("optimizer", ("optimizer.exp_avg", "schedule"), False),
        ("optimizer", (), False),
        ("opt", ("optimizer",), False),
    ],
)
def test_a_part_bounds_what_is_accepted(
    part: str | None, parts: tuple[str, ...], is_accepted: bool
) -> None:
    accepted = AcceptedFinding(finding="older-save", part=part, reason="meant")

    assert accepted.matches("older-save", parts) is is_accepted
    assert not accepted.matches("saves-gone", parts)
