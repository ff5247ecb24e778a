"""The page of what each check reads is made from the code, and from all of it."""

import pytest

from chaos.check.judge import CHECKS
from tests.tools.reasons import reasons


@pytest.mark.parametrize("check", [check.NAME for check in CHECKS])
def test_every_check_has_words_for_being_inconclusive(check: str) -> None:
    assert reasons(check)


def test_words_are_followed_through_functions_names_and_what_they_are_given() -> None:
    found = reasons("replicas")

    # a property's, in another module
    assert any(text.startswith("there is no baseline") for text in found)
    # with what the check gave
    assert any("of the job's state" in text for text in found)


def test_words_are_followed_through_doubts_that_a_generator_yields() -> None:
    assert any("journal … is cut short" in text for text in reasons("watched"))
    assert any("how rank … entered attempt …" in text for text in reasons("state"))
