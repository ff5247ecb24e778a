"""A market in fast motion, the strikes that it makes, and whether the model foretells them."""

import random
from collections.abc import Sequence

import pytest

from chaos.errors import UsageError
from chaos.extensions.preflight.compression import (
    Losses,
    NodeChange,
    PlanClock,
    choose_pool,
    choose_scale,
    compress_market,
    draw_changes,
    draw_losses,
    timed_ops,
)
from chaos.extensions.preflight.estimate import bootstrap_mean
from chaos.extensions.preflight.market import (
    MARKETS,
    Bathtub,
    Exponential,
    LossNotice,
    Market,
    Replay,
    Shock,
    find_preset,
)
from chaos.extensions.preflight.question import Question, change_question
from chaos.extensions.preflight.validation import (
    FigureComparison,
    RunFigures,
    build_validation_question,
    compare_figures,
    run_figures,
)
from chaos.faults.preempt_node import PreemptNode
from chaos.model import event as ev
from chaos.model.event import AnyEvent
from chaos.model.history import History, JournalEntry
from chaos.model.trigger import AtTime
from tests.check.story import Story, Strike
from tests.check.tamper import analysis_of
from tests.extensions.preflight.questions import memoryless

HALF_GONE = Replay(at_s=(0.0, 3600.0), up=(1.0, 0.5), span_s=7200.0)


@pytest.mark.parametrize("market", MARKETS, ids=[market.name for market in MARKETS])
def test_a_faster_market_loses_as_much_more_often(market: Market) -> None:
    fast = compress_market(market, 100)

    assert fast.mtbf_h * 100 == pytest.approx(market.mtbf_h)
    assert (fast.away_h, fast.notice) == (0.0, LossNotice())


def test_a_replayed_trace_and_a_bathtub_keep_their_shape() -> None:
    replay = compress_market(Market(replay=HALF_GONE), 3600).replay
    bathtub = compress_market(find_preset("bathtub-24h-cap"), 10).lifetime

    assert replay == Replay(at_s=(0.0, 1.0), up=(1.0, 0.5), span_s=2.0)
    assert isinstance(bathtub, Bathtub)
    assert (bathtub.early_h, bathtub.late_h, bathtub.cap_h) == pytest.approx((0.08, 2.2, 2.4))
    assert (bathtub.early_share, bathtub.late_shape) == (0.5, 4)


def test_left_out_the_scale_gives_a_few_losses_in_a_run() -> None:
    market = Market(lifetime=Exponential(mtbf_h=10))
    scale = choose_scale(market, nodes=2, work_s=6.0)

    rows = [
        draw_losses(compress_market(market, scale), nodes=2, pool=2, until_s=6.0, seed=seed)
        for seed in range(400)
    ]

    assert sum(map(len, rows)) / 400 == pytest.approx(1.5, abs=0.25)


def test_the_same_seed_draws_the_same_losses() -> None:
    market = compress_market(find_preset("hot-4h"), 3000)
    first, again, other = (
        draw_losses(market, nodes=4, pool=4, until_s=60, seed=seed) for seed in (3, 3, 4)
    )

    assert first == again != other
    assert all(set(loss.lost) <= set(range(4)) and not loss.joined for loss in first)


def test_a_pool_is_so_large_that_a_replayed_trace_leaves_the_job_its_nodes() -> None:
    assert choose_pool(find_preset("hot-4h"), nodes=3) == 3
    assert choose_pool(Market(replay=HALF_GONE), nodes=3) == 6
    none_left = Replay(at_s=(0.0, 1.0), up=(1.0, 0.0), span_s=2.0)
    with pytest.raises(UsageError, match="no node is left"):
        choose_pool(Market(replay=none_left), nodes=1)


def test_a_lost_node_that_holds_no_worker_strikes_nobody() -> None:
    market = Market(replay=HALF_GONE)
    rows = [
        draw_losses(market, nodes=1, pool=2, until_s=7200 * 200, seed=seed) for seed in range(4)
    ]

    # One of two nodes goes each round, and the job is on either.
    assert sum(map(len, rows)) / 800 == pytest.approx(0.5, abs=0.06)


AWAY = compress_market(
    Market(lifetime=Exponential(mtbf_h=1)), 3600, away_s=0.5
)  # a life of a second


def test_a_node_is_lost_once_and_one_that_comes_has_a_number_of_its_own() -> None:
    first, drawn = draw_changes(AWAY, pool=3, until_s=200, seed=7)

    lost = [node for change in drawn for node in change.lost]
    joined, up = first, set(range(first))
    for change in drawn:
        assert set(change.lost) <= up
        up = (up - set(change.lost)) | set(range(joined, joined + change.joined))
        joined += change.joined
        assert len(up) <= 3
    assert len(lost) == len(set(lost)) > 100


def test_nodes_are_away_as_long_as_the_market_says() -> None:
    _, drawn = draw_changes(AWAY, pool=1, until_s=4000, seed=1)

    losses = [change.at_s for change in drawn if change.lost]
    returns = [change.at_s for change in drawn if change.joined]
    away = [back - gone for gone, back in zip(losses, returns, strict=False)]
    assert sum(away) / len(away) == pytest.approx(0.5, rel=0.1)


def test_a_node_that_is_replaced_at_once_comes_as_the_other_goes() -> None:
    _, drawn = draw_changes(
        compress_market(find_preset("hot-4h"), 3000), pool=2, until_s=60, seed=0
    )

    assert all(len(change.lost) == change.joined for change in drawn)


CLOCK = PlanClock(startup_s=1.0, join_s=2.0, notice_s=3.0)


def told(*changes: NodeChange, losses: Losses) -> list[tuple[float, str, int | None]]:
    ops = timed_ops(changes, losses, CLOCK)
    assert [op.index for op in ops] == list(range(len(ops)))
    assert all(isinstance(op.at, AtTime) for op in ops)
    return [(op.at.seconds, op.kind, op.node) for op in ops if isinstance(op.at, AtTime)]


def test_each_loss_strikes_the_node_of_its_number_at_its_moment() -> None:
    assert told(NodeChange(5.0, (1, 0)), NodeChange(9.0, (2,)), losses="kills") == [
        (4.0, "kill_worker", 1),
        (4.0, "kill_worker", 0),
        (8.0, "kill_worker", 2),
    ]


def test_a_node_is_ordered_so_long_before_as_it_takes_to_join() -> None:
    assert told(NodeChange(5.0, (1,)), NodeChange(9.0, (), joined=1), losses="nodes") == [
        (4.0, "kill_node", 1),
        (6.0, "return_capacity", None),
    ]


def test_a_loss_is_announced_ahead_of_its_moment_and_not_before_the_run() -> None:
    early, late = timed_ops([NodeChange(2.0, (0,)), NodeChange(9.0, (1,))], "notices", CLOCK)

    assert [op.fault for op in (early, late)] == [
        PreemptNode(notice_s=2.0),
        PreemptNode(notice_s=3.0),
    ]
    assert [op.at for op in (early, late)] == [AtTime(seconds=0.01), AtTime(seconds=5.0)]


def entries(*events: AnyEvent) -> list[JournalEntry]:
    return [
        JournalEntry(time_ns=0, source="test", seq=n, event=what) for n, what in enumerate(events)
    ]


FIT = entries(
    ev.FitCalled(
        trainer="", workers=2, run_name="", storage_path="", settings={}, original_settings={}
    )
)


def walked(question: Question, losses: Sequence[NodeChange]) -> RunFigures:
    """Walk through one run second by second: the model's words, written another way."""
    costs, every = question.costs, question.job.checkpoint_every_steps
    assert costs is not None
    now_s, done, attempts, lost = costs.begin_s, 0, 1, 0.0
    left = [loss.at_s for loss in losses]
    cycle_s = every * costs.step_s + costs.save_s
    while True:
        end_s = now_s + (question.job.steps - done) / every * cycle_s
        if not left or left[0] > end_s:
            return RunFigures(attempts, lost, end_s, question.work_s / end_s)
        at_s = left.pop(0)
        if at_s < now_s:
            continue  # it is being set up
        trained_s = at_s - now_s
        done += int(trained_s // cycle_s) * every
        lost += min(trained_s % cycle_s, question.interval_s) // costs.step_s
        now_s, attempts = at_s + costs.begin_s, attempts + 1


def foretold(market: Market, **wrong: float) -> dict[str, FigureComparison]:
    """Compare the model, with costs that may be wrong, with sixty runs that were walked through."""
    truth = memoryless(loss_every_s=1, nodes=2, save_s=2, restart_s=20, every=50, commits=20)
    asked = build_validation_question(truth, market, pool=2)
    rows = [draw_losses(market, nodes=2, pool=2, until_s=1e5, seed=seed) for seed in range(60)]
    told = change_question(asked, {f"costs.{name}": value for name, value in wrong.items()})
    found = compare_figures([told], [walked(asked, row) for row in rows], seed=1)
    return {row.figure: row for row in found}


SHOCKED = Market(lifetime=Exponential(mtbf_h=0.5), shock=Shock(every_h=0.5, share=0.5))


LIMIT_S = 2300.0  # more than half of the runs take longer
OFTEN = Market(lifetime=Exponential(mtbf_h=0.03))  # many losses fall into a start, and are spared


def test_runs_that_a_limit_cuts_off_are_cut_off_in_the_forecast_as_well() -> None:
    truth = memoryless(loss_every_s=1, nodes=2, save_s=2, restart_s=20, every=50, commits=20)
    asked = build_validation_question(truth, OFTEN, pool=2)
    losses = [draw_losses(OFTEN, nodes=2, pool=2, until_s=1e5, seed=seed) for seed in range(40)]
    rows = [walked(asked, row) for row in losses]
    finished = [row for row in rows if row.finish_s <= LIMIT_S]

    cut_off = len(rows) - len(finished)
    cut = compare_figures([asked], finished, seed=1, until_s=LIMIT_S, cut_off=cut_off)
    whole = compare_figures([asked], finished, seed=1)

    assert cut[-1].figure == "finished in 2300 s"
    assert all(row.agrees for row in cut)
    assert not any(row.agrees for row in whole)


def test_where_the_model_has_nothing_to_compare_in_time_the_share_says_so() -> None:
    truth = memoryless(loss_every_s=1, nodes=2, save_s=2, restart_s=20, every=50, commits=20)
    asked = build_validation_question(truth, OFTEN, pool=2)

    (share,) = compare_figures([asked], [RunFigures(1, 0, 9, 1)] * 20, seed=1, until_s=10.0)

    assert (share.predicted.value, share.measured.value) == (0, 1)
    assert not share.agrees


@pytest.mark.parametrize("market", [Market(lifetime=Exponential(mtbf_h=0.3)), SHOCKED, OFTEN])
def test_runs_that_go_as_the_model_says_are_foretold(market: Market) -> None:
    rows = foretold(market)

    assert all(row.agrees for row in rows.values())
    assert all(row.inside is not None and row.inside > 0.75 for row in rows.values())


def test_wrong_costs_are_told_by_the_comparison() -> None:
    rows = foretold(SHOCKED, step_s=1.5)

    assert not rows["finish"].agrees
    assert rows["finish"].difference > 0.3


def test_a_recorded_run_is_measured_from_fit_on() -> None:
    story = Story((Strike(2, 3, 1),))
    assert run_figures(analysis_of(story), steps=20) is None  # no `fit()` was seen

    course = run_figures(analysis_of(story, History([*FIT, *story.history()])), steps=20)

    assert course is not None
    assert (course.attempts, course.lost_steps) == (2, 3)
    assert 0 < course.goodput < 1


def test_a_start_that_found_no_room_is_no_attempt_and_one_that_was_struck_is() -> None:
    decided = [
        ev.FailureDecided(attempt=1, decision="RETRY", charged="controller", error=error, errors={})
        for error in (
            "ControllerError: WorkerGroupStartupTimeoutError",
            "ControllerError: WorkerGroupStartupFailedError",
        )
    ]
    story = Story((Strike(2, 3, 1),))
    history = History([*FIT, *story.history(), *entries(*decided)])

    course = run_figures(analysis_of(story, history), steps=20)

    assert course is not None
    assert course.attempts == 3


def test_a_run_is_measured_from_where_places_are_first_looked_for() -> None:
    story = Story((Strike(2, 3, 1),))
    whole = History([*FIT, *story.history()])
    began_ns = whole[-1].time_ns // 4
    scheduling = ev.ControllerState(previous="INITIALIZING", state="SCHEDULING")
    found = JournalEntry(time_ns=began_ns, source="controller", seq=0, event=scheduling)
    rows = sorted([*whole, found], key=lambda entry: entry.time_ns)

    from_fit = run_figures(analysis_of(story, whole), steps=20)
    course = run_figures(analysis_of(story, History(rows)), steps=20)

    assert from_fit is not None
    assert course is not None
    assert from_fit.finish_s - course.finish_s == pytest.approx(began_ns / 1e9)


def test_an_interval_of_a_mean_holds_it() -> None:
    draws = random.Random(0)
    seen = [bootstrap_mean([draws.gauss(5, 2) for _ in range(30)], seed=n) for n in range(200)]

    assert 0.88 <= sum(one.low <= 5 <= one.high for one in seen) / 200 <= 0.99
