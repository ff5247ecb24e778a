"""Who has killed a part of our cluster: a fault, or somebody else; no cluster here."""

import signal

from chaos.backends.ray.deaths import Death, Deaths, broken_off

KILLED = Death("raylet", "0a1b2c3d4e5f", 42, signal.SIGKILL, is_heads=False)
OTHER = Death("raylet", "ffffffffffff", 43, signal.SIGKILL, is_heads=False)
HEADS = Death("gcs_server", "0000aaaa1111", 7, signal.SIGKILL, is_heads=True)


def test_a_node_that_a_fault_has_taken_is_asked_for_once() -> None:
    asked: list[str] = []

    def lost() -> set[str]:
        asked.append("lost")
        return {KILLED.node_id}

    deaths = Deaths(lambda: [KILLED], lost)

    assert [deaths.foreign(), deaths.foreign()] == [None, None]
    assert asked == ["lost"]


def test_a_node_that_no_fault_has_taken_was_killed_by_somebody_else() -> None:
    deaths = Deaths(lambda: [KILLED, OTHER], lambda: {KILLED.node_id})

    assert deaths.foreign() == OTHER


def test_where_the_head_is_killed_nobody_is_asked() -> None:
    def nobody() -> set[str]:
        raise AssertionError

    deaths = Deaths(lambda: [KILLED, HEADS], nobody)

    assert deaths.foreign() == HEADS


def test_it_is_said_what_was_killed_and_what_to_do_and_no_job_is_blamed() -> None:
    said = str(broken_off(HEADS))

    assert "the gcs server of the head (pid 7) was ended by SIGKILL" in said
    assert "says nothing of the job" in said
    assert "more memory" in said
