"""The state of a job, and its end, in words."""

import pytest

from chaos.extensions.slurm.client import JobState
from chaos.extensions.slurm.run import describe_end

pytestmark = pytest.mark.timeout(120)
STATE = JobState("RUNNING", restarts=0, is_preempted=False, code=0, signal=0)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ({"state": "FAILED", "code": 143}, "it ended with code 143, and Slurm has not requeued it"),
        ({"state": "PREEMPTED", "signal": 15}, "it ended with signal 15, and Slurm has not"),
        ({"state": "FAILED", "code": 143, "is_preempted": True}, "code 143 within its grace"),
        ({"state": "CANCELLED"}, "it ended with no error of its own"),
    ],
)
def test_the_end_of_a_job_is_put_in_words(seen: dict[str, object], words: str) -> None:
    state = JobState(**{**STATE.__dict__, **seen})

    assert words in describe_end(state)


@pytest.mark.parametrize(
    "state", ["PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "REQUEUED", "SIGNALING", "STAGE_OUT"]
)
def test_a_job_that_goes_on_has_not_ended(state: str) -> None:
    assert not JobState(**{**STATE.__dict__, "state": state}).has_ended


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "PREEMPTED", "TIMEOUT", "NODE_FAIL"])
def test_any_other_state_is_the_end(state: str) -> None:
    assert JobState(**{**STATE.__dict__, "state": state}).has_ended
