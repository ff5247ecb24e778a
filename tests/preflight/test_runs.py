"""One loss at a time, by hand: what is committed, lost, charged and waited for."""

from typing import Any

import numpy as np
import pytest

from chaos.preflight.capacity import Floats
from chaos.preflight.forecast import costs_of, on_demand_s
from chaos.preflight.question import Question
from chaos.preflight.runs import Runs
from chaos.preflight.simulate import simulate
from tests.preflight.questions import memoryless

NODES = 4
LUCK = (0.0, 0.0, 0.5, 1.0)  # hit, told, half a poll, rank 0 survives


def question(**values: Any) -> Question:
    """1000 steps, saved every 100; a save stops 10 s and is committed 30 s after that."""
    given: dict[str, Any] = {
        "costs__upload_s": 30,
        "costs__detect_s": 5,
        "costs__teardown_s": 7,
        "market__notice": {"seconds": 0, "reliability": 0},
    }
    return memoryless(
        loss_every_s=1e6, every=100, commits=10, restart_s=20, nodes=NODES, **{**given, **values}
    )


def struck(
    asked: Question, at_s: float, *, lost: int = 1, up: int = NODES, luck: tuple[float, ...] = LUCK
) -> Runs:
    """Give one run, struck once at `at_s`, with `up` nodes left to it."""
    runs = Runs(asked, np.array([asked.job.pool]), 1e9)
    now, held = np.array([at_s]), np.array([asked.job.pool])
    runs.train_until(now, held)
    runs.meet(now, held, np.array([up]), np.array([lost]), _column(luck))
    return runs


def _column(luck: tuple[float, ...]) -> Floats:
    return np.array(luck)[:, None]


def test_a_checkpoint_counts_once_it_is_uploaded_and_not_before() -> None:
    # Training from 20 s on; the second save ends at 240 s and is committed at 270 s.
    early, late = struck(question(), 265), struck(question(), 275)

    assert (early.work_s[0], early.save_s[0], early.lost_s[0]) == (100, 10, 135)
    assert (late.work_s[0], late.save_s[0], late.lost_s[0]) == (200, 20, 35)


def test_only_finished_steps_are_lost_and_none_within_a_save() -> None:
    # Begun at 20 s; steps of a second; the first save from 120 s to 130 s, committed at 160 s.
    lost = [float(struck(question(), at_s).lost_steps[0]) for at_s in (65.5, 125, 159, 161)]

    assert lost == [45, 100, 129, 31]


def test_an_unannounced_loss_is_detected_torn_down_and_started_again() -> None:
    runs = struck(question(), 265)

    assert runs.ready_s[0] == 265 + 5 + 7 + 20
    assert (runs.failures[0], runs.preemptions[0]) == (1, 0)
    assert runs.restart_s[0] == 20


def test_an_announced_loss_needs_no_detection_and_has_its_own_budget() -> None:
    runs = struck(question(market__notice={"seconds": 60, "reliability": 0.5}), 265)

    assert runs.ready_s[0] == 265 + 7 + 20
    assert (runs.failures[0], runs.preemptions[0]) == (0, 1)


def test_a_save_on_notice_holds_what_was_done_when_it_began() -> None:
    # Told at 205 s; half a poll and a step later, 208.5 s, the save begins, in step 78 or so.
    told = question(market__notice={"seconds": 60, "reliability": 1.0}, job__saves_on_notice=True)
    runs = struck(told, 265)

    assert runs.work_s[0] == pytest.approx(208.5 - 20 - 10)
    assert runs.rescued[0] == 1
    # Behind it training goes on until the node is gone.
    assert runs.lost_s[0] == pytest.approx(245 - 178.5 - 20)


@pytest.mark.parametrize(("notice_s", "rescued"), [(43, 0), (44, 1)])
def test_a_save_on_notice_must_be_committed_in_time(notice_s: float, rescued: int) -> None:
    # Half a poll 2.5 s, a step 1 s, the save 10 s, the upload 30 s: 43.5 s.
    told = question(
        market__notice={"seconds": notice_s, "reliability": 1.0}, job__saves_on_notice=True
    )

    assert struck(told, 265).rescued[0] == rescued


def test_where_rank_0_is_lost_grace_does_not_help() -> None:
    told = question(
        market__notice={"seconds": 20, "reliability": 1.0},
        job__saves_on_notice=True,
        settings__preemption_grace_s=60,
        settings__relax_collectives_on_preemption=True,
    )
    survives, dies = struck(told, 265), struck(told, 265, luck=(0.0, 0.0, 0.5, 0.2))

    assert (survives.rescued[0], dies.rescued[0]) == (1, 0)
    # The new group waits for the save: 43.5 s from the notice, of which 20 s were there.
    assert survives.ready_s[0] - dies.ready_s[0] == pytest.approx(23.5)


def test_a_job_that_is_too_small_waits_and_starts_when_nodes_are_back() -> None:
    asked = question(market__away_h=1.0)
    runs = struck(asked, 265, up=3)
    assert np.isinf(runs.ready_s[0])

    now = np.array([1000.0])
    runs.train_until(now, np.array([3]))
    runs.meet(now, np.array([3]), np.array([4]), np.array([0]), _column(LUCK))

    assert runs.ready_s[0] == 1000 + 20
    assert runs.wait_s[0] == 1000 - 265


def test_an_elastic_job_asks_for_all_first_and_then_goes_on_more_slowly() -> None:
    runs = struck(question(job__min_nodes=2), 265, up=3)
    assert runs.ready_s[0] == 265 + 5 + 7 + 20 + 60
    assert runs.used[0] == 3

    runs.train_until(np.array([1e6]), np.array([3]))

    assert runs.finished[0]
    # 900 steps' worth at three quarters of the speed, twelve saves, the last upload.
    assert runs.end_s[0] == pytest.approx(357 + 1200 + 12 * 10 + 30)


def test_a_lost_spare_costs_nothing() -> None:
    asked = question(job__spare_nodes=1)

    spared = struck(asked, 265, up=4, luck=(0.1, 0.0, 0.5, 1.0))
    hit = struck(asked, 265, up=4, luck=(0.3, 0.0, 0.5, 1.0))

    assert (spared.restarts[0], hit.restarts[0]) == (0, 1)


def test_what_a_node_costs_while_held_is_paid_and_half_a_training_is_half_a_training() -> None:
    asked = question(settings__max_failures=0)
    outcomes = simulate(question(), runs=10, seed=0)
    saved_once_s = 1000 + 10 + 30 + 20  # on demand nine of the ten checkpoints would not be made
    assert costs_of(question(), outcomes) == pytest.approx(
        0.35 * (saved_once_s + 90) / saved_once_s
    )
    assert on_demand_s(asked) == NODES * saved_once_s

    spent = struck(asked, 275)
    assert spent.spent[0]
    assert spent.node_s[0] == 275 * NODES


def test_the_price_of_a_run_that_failed_is_set_against_what_it_did() -> None:
    asked = memoryless(loss_every_s=2000, every=100, settings__max_failures=0)
    outcomes = simulate(asked, runs=50, seed=0)
    part = outcomes.work_s / asked.work_s
    done = part > 0

    whole = 0.35 * outcomes.node_s / on_demand_s(asked)
    assert costs_of(asked, outcomes)[done] == pytest.approx(whole[done] / part[done])
    assert np.isinf(costs_of(asked, outcomes)[~done]).all()


def test_no_save_on_notice_holds_more_than_the_whole_training() -> None:
    # The last step ends at 20 + 1001 + 100 s, its save at 1131 s; the upload is under way.
    asked = question(
        job__steps=1001,
        job__saves_on_notice=True,
        settings__preemption_grace_s=60,
        settings__relax_collectives_on_preemption=True,
        market__notice={"seconds": 10, "reliability": 1},
        costs__upload_s=20,
    )
    found = struck(asked, 1145)

    parts = found.useful_s + found.save_s + found.lost_s + found.restart_s + found.wait_s
    assert found.work_s[0] <= asked.work_s
    assert found.rescued[0] == 1
    assert parts[0] == 1145
