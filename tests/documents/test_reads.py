"""The page of what each check reads is made from the code, and from all of it."""

import pytest

from chaos.check.judge import CHECKS
from tests.tools.reasons import reasons


@pytest.mark.parametrize("check", [check.NAME for check in CHECKS])
def test_every_check_has_words_for_being_inconclusive(check: str) -> None:
    assert reasons(check)


def test_words_are_followed_through_functions_names_and_what_they_are_given() -> None:
    found = reasons("replicas")

    assert "there is no baseline to compare with" in found  # a property's, in another module
    assert "nothing was seen of the job's state" in found  # with what the check gave


def test_words_are_followed_through_doubts_that_a_generator_yields() -> None:
    assert "the last line of the journal … is cut short" in reasons("watched")
    assert "how rank … entered attempt … was not seen" in reasons("state")
