"""Who has ended a part of our cluster: a fault, or somebody else; no cluster here."""

import signal
from dataclasses import replace

import pytest

from chaos.backends.ray.deaths import Death, Deaths

KILLED = Death("raylet", "0a1b2c3d4e5f", 42, -signal.SIGKILL, is_heads=False)
OTHER = Death("raylet", "ffffffffffff", 43, -signal.SIGKILL, is_heads=False)
HEADS = Death("gcs_server", "0000aaaa1111", 7, -signal.SIGKILL, is_heads=True)


def nobody() -> set[str]:
    raise AssertionError


def test_a_node_that_a_fault_has_struck_is_asked_for_once() -> None:
    asked: list[str] = []

    def struck() -> set[str]:
        asked.append("struck")
        return {KILLED.node_id}

    deaths = Deaths(lambda: [KILLED], struck)

    assert [deaths.foreign(), deaths.foreign()] == [None, None]
    assert asked == ["struck"]


def test_a_node_that_no_fault_has_struck_was_ended_by_somebody_else() -> None:
    deaths = Deaths(lambda: [KILLED, OTHER], lambda: {KILLED.node_id})

    assert deaths.foreign() == OTHER


def test_where_the_head_has_ended_nobody_is_asked() -> None:
    assert Deaths(lambda: [KILLED, HEADS], nobody).foreign() == HEADS


def test_raylets_that_end_without_the_gcs_that_a_plan_ends_are_the_faults() -> None:
    assert Deaths(lambda: [KILLED], nobody, ends_gcs=True).foreign() is None
    assert Deaths(lambda: [HEADS], nobody, ends_gcs=True).foreign() == HEADS


@pytest.mark.parametrize(
    ("code", "how", "remedy"),
    [
        (-signal.SIGKILL, "was ended by SIGKILL, and chaos did not end it", "more memory"),
        (-signal.SIGABRT, "ended by itself, with code -6", "less else runs"),
        (1, "ended by itself, with code 1", "less else runs"),
    ],
)
def test_it_is_said_what_has_ended_and_what_to_do(code: int, how: str, remedy: str) -> None:
    said = str(replace(HEADS, code=code))

    assert said.startswith(f"the gcs server of the head (pid 7) {how}. ")
    assert remedy in said
