"""One loss at a time, by hand: what is committed, lost, charged and waited for."""

from typing import Any

import numpy as np
import pytest

from chaos.extensions.preflight.forecast import find_price_shares, find_reference_node_s, simulate
from chaos.extensions.preflight.question import Question
from chaos.extensions.preflight.simulated_runs import SimulatedRuns, pack_luck
from tests.extensions.preflight.questions import memoryless

NODES = 4
FOUR = np.array([NODES])
LUCK = (0.0, 0.0, 0.5, 1.0)  # hit, told, half a poll, rank 0 survives


def question(**values: Any) -> Question:
    """1000 steps, saved every 100; a save stops 10 s and is committed 30 s after that."""
    given: dict[str, Any] = {
        "costs__upload_s": 30,
        "costs__detect_s": 5,
        "costs__teardown_s": 7,
        "settings__checkpoint_upload_mode": "async",
        "settings__torch_backend": "gloo",
        "market__notice": {"seconds": 0, "reliability": 0},
    }
    return memoryless(
        loss_every_s=1e6, every=100, commits=10, restart_s=20, nodes=NODES, **{**given, **values}
    )


def struck(
    asked: Question, at_s: float, *, lost: int = 1, up: int = NODES, luck: tuple[float, ...] = LUCK
) -> SimulatedRuns:
    """Return one run, struck once at `at_s`, with `up` nodes left to it."""
    runs = SimulatedRuns([asked], np.array([asked.job.pool]), [1e9])
    change(runs, at_s, lost=lost, up=up, luck=luck)
    return runs


def change(
    runs: SimulatedRuns,
    at_s: float,
    *,
    up: int,
    lost: int = 0,
    cut: int = 0,
    luck: tuple[float, ...] = LUCK,
) -> None:
    """Let the pool change once."""
    runs.advance(np.array([at_s]))
    drawn = np.array([pack_luck(*luck)], dtype=np.uint64)
    runs.apply_change(np.array([up]), np.array([lost]), drawn, np.array([cut]))


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
    # The new group waits for the save, and this for the upload under way: from 270 s to 300 s.
    assert survives.ready_s[0] - dies.ready_s[0] == pytest.approx(300 - 265)


def test_a_job_that_is_too_small_waits_and_starts_when_nodes_are_back() -> None:
    asked = question(market__away_h=1.0)
    runs = struck(asked, 265, up=3)
    assert np.isinf(runs.ready_s[0])

    change(runs, 1000, up=4)

    assert runs.ready_s[0] == 1000 + 20
    assert runs.wait_s[0] == 1000 - 265 - 5 - 7


def test_an_elastic_job_asks_for_all_first_and_then_goes_on_more_slowly() -> None:
    runs = struck(question(job__min_nodes=2), 265, up=3)
    assert runs.ready_s[0] == 265 + 5 + 7 + 20 + 60
    assert runs.used[0] == 3

    runs.advance(np.array([1e6]))

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
    assert find_price_shares(question(), outcomes) == pytest.approx(
        0.35 * (saved_once_s + 90) / saved_once_s
    )
    assert find_reference_node_s(asked) == NODES * saved_once_s

    spent = struck(asked, 275)
    assert spent.spent[0]
    assert spent.node_s[0] == 275 * NODES


def test_the_price_of_a_run_that_failed_is_set_against_what_it_did() -> None:
    asked = memoryless(loss_every_s=2000, every=100, settings__max_failures=0)
    outcomes = simulate(asked, runs=50, seed=0)
    part = outcomes.work_s / asked.work_s
    done = part > 0

    whole = 0.35 * outcomes.node_s / find_reference_node_s(asked)
    assert find_price_shares(asked, outcomes)[done] == pytest.approx(whole[done] / part[done])
    assert np.isinf(find_price_shares(asked, outcomes)[~done]).all()


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


@pytest.mark.parametrize(
    ("mode", "kept"),
    # Training from 20 s on. Sync: saved and uploaded at 330, 640, 950 s. Async: saves at 130, 240,
    # 350 s, uploads one after another until 330, 530, 730 s. No upload: the script's own, together.
    [("sync", [0, 100, 200]), ("async", [0, 100, 300]), ("no_upload", [0, 200, 400])],
)
def test_uploads_pass_through_one_thread_or_hold_training_up(mode: str, kept: list[int]) -> None:
    asked = question(settings__checkpoint_upload_mode=mode, costs__upload_s=200)

    assert [struck(asked, at_s).work_s[0] for at_s in (329, 500, 735)] == kept


def test_a_training_ends_when_the_last_upload_is_through() -> None:
    ends = []
    for mode in ("sync", "async", "no_upload"):
        runs = SimulatedRuns(
            [question(settings__checkpoint_upload_mode=mode, costs__upload_s=200)], FOUR, [1e9]
        )
        runs.advance(np.array([1e6]))
        ends.append(float(runs.end_s[0]))

    assert ends == [20 + 1000 + 10 * 210, 20 + 110 + 10 * 200, 20 + 1000 + 10 * 10 + 200]


@pytest.mark.parametrize("back_s", [266, 276, 277, 300])
def test_detection_and_teardown_count_also_where_nodes_are_waited_for(back_s: float) -> None:
    # Struck at 265 s; 5 s until it is found out, and 7 s until the old group is gone.
    runs = struck(question(market__away_h=1.0), 265, up=3)
    change(runs, back_s, up=4)

    assert runs.ready_s[0] == max(back_s, 277) + 20
    assert runs.wait_s[0] == max(0, back_s - 277)


def test_the_seam_of_a_repeated_trace_ends_the_attempt_and_is_charged_to_nobody() -> None:
    runs = SimulatedRuns([question(settings__max_failures=0)], FOUR, [1e9])
    change(runs, 275, up=3, cut=1)

    assert np.isinf(runs.ready_s[0])
    assert (runs.work_s[0], runs.failures[0], runs.restarts[0], runs.spent[0]) == (200, 0, 0, 0)


def test_a_loss_during_a_start_is_charged_to_the_controller() -> None:
    # Placed and started from 277 to 292 s, restored until 297 s.
    for at_s, failures, start_failures in ((266, 1, 0), (273, 1, 1), (291, 1, 1), (293, 2, 0)):
        runs = struck(question(costs__schedule_s=15, costs__restore_s=5), 265)
        change(runs, at_s, up=NODES, lost=1)

        assert (runs.failures[0], runs.start_failures[0]) == (failures, start_failures), at_s


def test_an_announced_loss_during_a_start_is_found_when_the_node_is_gone() -> None:
    told = {"market__notice": {"seconds": 60, "reliability": 1.0}}
    asked = question(costs__schedule_s=15, costs__restore_s=5, **told)
    # Told at 265 s, so torn down until 272 s, placed and started until 287 s.
    for at_s, found_s in ((270, 272 - 7), (280, 280 + 5), (290, 290)):
        runs = struck(asked, 265)
        change(runs, at_s, up=NODES, lost=1)

        assert runs.ready_s[0] == found_s + 7 + 20, at_s


def test_a_finite_budget_of_the_controller_ends_a_job_that_waits() -> None:
    asked = question(market__away_h=1.0, settings__controller_failure_limit=2)
    runs = struck(asked, 265, up=3)
    change(runs, 1000, up=4)

    # Tries to place the group from 277 s on, 60 s each; the third failure is one too many.
    assert runs.spent[0]
    assert runs.end_s[0] == 277 + 3 * 60
    assert not struck(question(job__min_nodes=2), 265, up=1).spent[0]


@pytest.mark.parametrize(("backend", "until_s"), [("gloo", 265), ("nccl", 265 + 60)])
def test_survivors_that_hang_are_waited_for_until_the_grace_ends(
    backend: str, until_s: float
) -> None:
    notice = {"seconds": 30, "reliability": 1.0}
    told = question(
        market__notice=notice, settings__torch_backend=backend, settings__preemption_grace_s=60
    )

    assert struck(told, 265).ready_s[0] == until_s + 7 + 20


def test_a_running_group_grows_when_ray_looks_and_an_asking_one_at_once() -> None:
    # Struck at 265 s, gone at 277 s, all asked for until 337 s; three train from 357 s on.
    grows, asks = (
        struck(question(job__min_nodes=2), 265, up=3),
        struck(question(job__min_nodes=2), 265, up=3),
    )
    change(grows, 500, up=4)
    change(asks, 300, up=4)
    grows.advance(np.array([537.5]))

    assert asks.ready_s[0] == 300 + 20
    assert (asks.used[0], grows.used[0]) == (4, 4)
    # Ray looks 60, 120 and 180 s after the start of the group.
    assert grows.ready_s[0] == 357 + 180 + 7 + 20
