"""Every planted bug is one of the job as it is today."""

import pytest

from tests.planted import BUGS, DIGITS

KEPT = [name for name in BUGS if DIGITS.with_stem(name).is_file()]


@pytest.mark.parametrize("name", BUGS)
def test_each_change_is_made_at_one_place(name: str) -> None:
    compile(BUGS[name].text, name, "exec")


@pytest.mark.parametrize("name", KEPT)
def test_a_script_that_is_kept_is_the_one_that_the_table_makes(name: str) -> None:
    """`python -m tests.planted NAME > scenarios/jobs/NAME.py` writes it again."""
    assert DIGITS.with_stem(name).read_text(encoding="utf-8") == BUGS[name].text


def test_the_two_that_readme_and_scenarios_name_are_kept() -> None:
    assert KEPT == ["digits_optimizer_lost", "digits_rng_lost"]
