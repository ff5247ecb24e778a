"""What outlives a run is named, and what Ray itself leaves is not."""

import pytest

from chaos.model import event as ev
from tests.check.story import Story, Strike
from tests.check.tamper import (
    changed,
    result_on,
    told,
    verdict_on,
    without,
)
from tests.findings import expect_finding

KILLED = Story((Strike(2, 3, 1),))
DIRECTORY = ev.Leftover(kind="checkpoint_directory", name="checkpoint_x")


@pytest.mark.parametrize("kind", ["process", "placement_group", "actor"])
def test_what_outlives_the_run_is_named(kind: str) -> None:
    history = told(KILLED.history(), ev.Leftover(kind=kind, name="pid 7"))  # type: ignore[arg-type]

    verdict = verdict_on(KILLED, history)

    assert [result.check for result in verdict.broken] == ["leftovers"]
    article = "an" if kind == "actor" else "a"
    assert f"; {article} {kind.replace('_', ' ')} outlived the run: pid 7." in verdict.headline


def test_one_unregistered_checkpoint_directory_per_fault_is_ray_as_we_know_it() -> None:
    one = told(KILLED.history(), DIRECTORY)

    assert result_on("leftovers", KILLED, one).status == "pass"
    assert result_on("leftovers", KILLED, one).measures == {"left_checkpoint_directory": 1}


def test_more_unregistered_checkpoint_directories_than_faults_are_too_many() -> None:
    two = told(KILLED.history(), DIRECTORY, DIRECTORY)

    expect_finding(
        result_on("leftovers", KILLED, two), "unregistered-checkpoints", directories=2, faults=1
    )


def test_a_fault_of_which_nobody_knows_what_it_did_may_leave_a_directory() -> None:
    history = changed(told(KILLED.history(), DIRECTORY), ev.FaultEnded, status="info")

    assert result_on("leftovers", KILLED, history).status == "pass"


@pytest.mark.parametrize(
    "end", [ev.DeadlinePassed(limit_s=240), ev.RunEnded(interrupted=True)], ids=str
)
def test_a_run_that_we_ended_had_no_chance_to_clean_up(end: ev.AnyEvent) -> None:
    left = told(KILLED.history(), ev.Leftover(kind="actor", name="PlacementGroupCleaner"))
    history = told(without(left, ev.RunEnded), end)

    assert result_on("leftovers", KILLED, history).status == "inconclusive"


def test_where_nobody_looked_nothing_is_known_of_leftovers() -> None:
    history = without(KILLED.history(), ev.LeftoversSearched)

    assert result_on("leftovers", KILLED, history).status == "inconclusive"
