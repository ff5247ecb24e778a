"""Times as options have them."""

import pytest
import typer

from chaos.cli.options import parse_hours, parse_seconds


@pytest.mark.parametrize(
    ("text", "means"), [("90", 90), ("90s", 90), ("5m", 300), ("1.5h", 5400), ("2d", 172_800)]
)
def test_a_time_has_a_unit_or_is_in_seconds(text: str, means: float) -> None:
    assert parse_seconds(text) == means


def test_a_deadline_without_a_unit_is_in_hours() -> None:
    assert (parse_hours("72"), parse_hours("72h"), parse_hours("3d"), parse_hours("30m")) == (
        72,
        72,
        72,
        0.5,
    )
    with pytest.raises(typer.BadParameter):
        parse_hours("-1")
