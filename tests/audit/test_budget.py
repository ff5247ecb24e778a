"""The limits of an audit: what they end, and how long a cause may be looked for."""

from chaos.audit.budget import FAULTS_SHARE, OVERRUN, Budget

LIMIT = Budget(seconds=100.0)
BEGUN = 5


def test_a_wrong_result_leaves_a_part_of_the_time_limit_for_its_cause() -> None:
    before, after = 100 * FAULTS_SHARE - 1, 100 * FAULTS_SHARE + 1
    for seconds, is_spent in ((before, False), (after, True)):
        for_minimum = LIMIT.is_spent(
            seconds=seconds, runs=BEGUN, begun_places=BEGUN, for_minimum=True, wrong=1
        )
        assert for_minimum is is_spent
    assert (
        LIMIT.find_reached_option(seconds=after, runs=BEGUN, wrong=1) == "70% of --time-limit 100s"
    )
    assert LIMIT.find_reached_option(seconds=101, runs=BEGUN, wrong=1) == "--time-limit 100s"
    assert LIMIT.find_reached_option(seconds=after, runs=BEGUN) is None


def test_a_limit_that_nobody_gave_is_called_the_default() -> None:
    default = Budget(seconds=60.0, is_default=True)
    assert default.find_reached_option(seconds=61, runs=BEGUN) == "the default time limit of 60s"


def test_a_right_job_may_take_as_long_as_an_answer_needs_by_default() -> None:
    default = Budget(seconds=100.0, is_default=True)
    assert not default.is_spent(seconds=300, runs=BEGUN, begun_places=BEGUN, for_minimum=True)
    assert default.is_spent(seconds=101, runs=BEGUN, begun_places=BEGUN, for_minimum=False)


def test_a_limit_that_was_given_is_kept_whatever_an_answer_needs() -> None:
    """`--time-limit 60s` took 374 seconds, and an audit in CI had the runner for ten minutes."""
    assert not LIMIT.is_spent(seconds=99, runs=BEGUN, begun_places=BEGUN, for_minimum=True)
    assert LIMIT.is_spent(seconds=100, runs=BEGUN, begun_places=BEGUN, for_minimum=True)
    # A first kill or two may still begin in the fifth after it: without any nothing is shown.
    assert not LIMIT.is_spent(seconds=110, runs=0, begun_places=0, for_minimum=True)
    assert LIMIT.is_spent(seconds=100 * OVERRUN, runs=0, begun_places=0, for_minimum=True)


def test_the_last_trial_of_a_cause_ends_no_later_than_a_fifth_after_the_limit() -> None:
    trials_s = LIMIT.trials_s(spent_s=70, run_s=8)
    assert trials_s is not None
    assert 70 + trials_s + 8 <= 100 * OVERRUN
    assert LIMIT.trials_s(spent_s=150, run_s=8) == 0.0


def test_a_limit_that_was_not_asked_for_ends_no_trial() -> None:
    assert Budget(seconds=60.0, is_default=True).trials_s(spent_s=70, run_s=8) is None
    assert Budget(runs=4).trials_s(spent_s=70, run_s=8) is None
