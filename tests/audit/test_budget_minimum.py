"""What an answer takes at least, and the limits that it is held to."""

from dataclasses import replace
from functools import partial

import pytest

from chaos.audit.budget import Budget, MachineLoad, MinimumRuns, Pace, set_time_limit
from tests.accepted import expect_text

DEFAULT = Budget(seconds=60, is_default=True)

# -- time ----------------------------------------------------------------------------------


def test_the_minimum_may_take_five_times_the_default_limit_and_what_follows_does_not() -> None:
    is_spent = partial(DEFAULT.is_spent, runs=3, begun_places=3)

    assert not is_spent(seconds=299, for_minimum=True)
    assert is_spent(seconds=300, for_minimum=True)
    assert is_spent(seconds=60, for_minimum=False)


def test_a_number_of_runs_bounds_the_minimum_as_well() -> None:
    assert Budget(runs=4).is_spent(seconds=0, runs=4, begun_places=4, for_minimum=True)
    assert not Budget(runs=4).is_spent(seconds=9e9, runs=3, begun_places=3, for_minimum=False)


def test_two_places_are_tried_however_long_the_clean_runs_took() -> None:
    budget = Budget(seconds=60, runs=9, is_default=True)

    assert not budget.is_spent(seconds=600, runs=1, begun_places=1, for_minimum=False)
    assert budget.is_spent(seconds=600, runs=2, begun_places=2, for_minimum=False)
    assert Budget(seconds=60, runs=1).is_spent(seconds=9, runs=1, begun_places=1, for_minimum=False)


def test_what_is_too_dear_is_said_with_the_command_that_is_not() -> None:
    minimum = MinimumRuns(runs=15, places=15, spent_s=100, run_s=60, lanes=2)
    command = "chaos audit a.py --time-limit 60s --no-confirm -- --budget 9"

    [note] = minimum.describe_shortage(DEFAULT, command)
    [given] = minimum.describe_shortage(Budget(seconds=300), command)

    assert minimum.total_s == 100 + (8 + 15 / 2 * 0.5) * 60
    expect_text(note.text)
    expect_text(given.text, "given")
    for enough in (Budget(seconds=170, is_default=True), Budget(seconds=850)):
        assert minimum.fits(enough)
        assert not [*minimum.describe_shortage(enough, command)]


@pytest.mark.parametrize(("seconds", "asked"), [(60, 4), (54, 3), (50, 0), (170, 0)])
def test_where_there_is_time_for_a_few_groups_they_are_asked_for(seconds: int, asked: int) -> None:
    minimum = MinimumRuns(runs=15, places=15, spent_s=100, run_s=60, lanes=2)
    groups = ("mid-epoch", "inside a save", "just after commit", "last epoch", "epoch boundary")
    budget = Budget(seconds=seconds, is_default=True)
    command = f"chaos audit a.py --time-limit {seconds}s -- --n 9"

    said = " ".join(note.text for note in minimum.describe_shortage(budget, command, groups))

    words = "".join(f" --places '{group}'" for group in groups[:asked])
    limit = f"--time-limit {seconds}s{words} -- --n 9`"
    assert (f"`chaos audit a.py {limit}" in said) == bool(asked)
    assert said.count("--places") == asked
    assert MinimumRuns(runs=asked, places=asked, spent_s=100, run_s=60, lanes=2).fits(budget)


def test_a_command_that_can_pass_has_no_number_of_runs_that_cannot() -> None:
    minimum = MinimumRuns(runs=15, places=15, spent_s=100, run_s=60, lanes=2)
    command = "chaos audit a.py --max-runs 6 --time-limit 60s -- --max-runs 9"

    few, limit = minimum.describe_shortage(replace(DEFAULT, runs=6), command)
    [enough] = minimum.describe_shortage(replace(DEFAULT, runs=15), command)

    assert "--max-runs 6 is fewer" in few.text
    expect_text(limit.text, "limit text")
    expect_text(enough.text, "enough text")


def test_a_command_without_a_limit_is_given_one() -> None:
    expect_text(set_time_limit("chaos audit a.py", 90))


def test_where_time_decides_no_number_of_places_is_foretold() -> None:
    pace = Pace(done=10, place_count=200, needed=0, has_needed_runs=False, spent_s=40, runs_s=20)

    assert pace.total(Budget(seconds=60)) is None
    assert pace.estimate_remaining_s(Budget(seconds=60)) == 20
    assert pace.total(Budget()) == 200
    assert pace.total(Budget(runs=20)) == 20


def test_progress_counts_up_to_what_is_needed_in_any_case() -> None:
    pace = Pace(done=10, place_count=200, needed=6, has_needed_runs=True, spent_s=70, runs_s=20)

    assert pace.total(Budget(seconds=60)) == 16
    assert pace.estimate_remaining_s(DEFAULT) == 12
    assert pace.estimate_remaining_s(Budget(seconds=60)) == 0
    assert pace.total(Budget(seconds=60, runs=12)) == 12


def test_before_any_run_is_over_no_time_that_is_left_is_told() -> None:
    pace = Pace(done=0, place_count=200, needed=6, has_needed_runs=True, spent_s=10, runs_s=0)

    assert pace.total(Budget(seconds=60)) == 6
    assert pace.total(Budget()) == 200
    assert pace.estimate_remaining_s(Budget(seconds=60)) is None


def test_the_first_finding_ends_an_audit_that_asks_for_no_more() -> None:
    first = Budget(seconds=60, first_finding=True)

    assert not first.is_spent(seconds=1, runs=1, begun_places=1, for_minimum=True)
    assert first.is_spent(seconds=1, runs=1, begun_places=1, wrong=1, for_minimum=True)
    assert first.find_reached_option(seconds=1, runs=1, wrong=1) == "--exitfirst"
    assert not Budget(seconds=60).is_spent(
        seconds=1, runs=3, begun_places=3, wrong=3, for_minimum=True
    )


def test_what_an_answer_takes_is_foretold_where_it_is_within_the_limits() -> None:
    minimum = MinimumRuns(runs=7, places=15, spent_s=100, run_s=10, lanes=1)

    [said] = minimum.describe_cost(DEFAULT)

    expect_text(said.text)
    assert not [*minimum.describe_cost(Budget(runs=9))]
    assert not [*minimum.describe_cost(Budget(seconds=40))]


def test_what_an_answer_takes_is_a_range_that_knows_restarts_and_a_busy_machine() -> None:
    """'Some 31 s more' took 290 on two cores with four lanes, beside other work."""
    calm = MinimumRuns(runs=8, places=16, spent_s=20, run_s=8, lanes=4, start_s=5)
    busy = replace(calm, machine=MachineLoad(cores=2, process_count=8))

    assert calm.range_s[0] == busy.range_s[0] == calm.total_s - 20
    assert calm.range_s[0] < calm.range_s[1]
    # Alone a run had two ninths of a core, and each of four has a sixth.
    assert busy.range_s[1] / calm.range_s[1] == pytest.approx((2 / 9) / (2 / 12) / 4)
    idle = MachineLoad(cores=8)
    assert idle.estimate_slowdown(1, 4) == 1.0
    assert MachineLoad(cores=2).estimate_slowdown(1, 4) == 2.0
