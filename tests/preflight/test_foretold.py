"""A market in fast motion, the strikes that it makes, and whether the model foretells them."""

import random
from collections.abc import Sequence

import pytest

from chaos.calibration.timed_strikes import TimedStrikes
from chaos.errors import UsageError
from chaos.model import event as ev
from chaos.model.event import AnyEvent, WorkerPlace
from chaos.model.history import Entry, History
from chaos.preflight.change import changed
from chaos.preflight.comparison import Comparison
from chaos.preflight.compression import Loss, compressed, drawn_losses, pool_for, scale_for
from chaos.preflight.course import Course, course_of
from chaos.preflight.estimate import mean_of
from chaos.preflight.foretold import asked_of, compared
from chaos.preflight.market import Bathtub, Exponential, Market, Notice, Replay, Shock
from chaos.preflight.presets import MARKETS, preset
from chaos.preflight.question import Question
from tests.check.story import Story, Strike
from tests.check.tamper import trial_of
from tests.preflight.questions import memoryless

HALF_GONE = Replay(at_s=(0.0, 3600.0), up=(1.0, 0.5), span_s=7200.0)


@pytest.mark.parametrize("market", MARKETS, ids=[market.name for market in MARKETS])
def test_a_faster_market_loses_as_much_more_often(market: Market) -> None:
    fast = compressed(market, 100)

    assert fast.mtbf_h * 100 == pytest.approx(market.mtbf_h)
    assert (fast.away_h, fast.notice) == (0.0, Notice())


def test_a_replayed_trace_and_a_bathtub_keep_their_shape() -> None:
    replay = compressed(Market(replay=HALF_GONE), 3600).replay
    bathtub = compressed(preset("bathtub-24h-cap"), 10).lifetime

    assert replay == Replay(at_s=(0.0, 1.0), up=(1.0, 0.5), span_s=2.0)
    assert isinstance(bathtub, Bathtub)
    assert (bathtub.early_h, bathtub.late_h, bathtub.cap_h) == pytest.approx((0.08, 2.2, 2.4))
    assert (bathtub.early_share, bathtub.late_shape) == (0.5, 4)


def test_left_out_the_scale_gives_a_few_losses_in_a_run() -> None:
    market = Market(lifetime=Exponential(mtbf_h=10))
    scale = scale_for(market, nodes=2, work_s=6.0)

    rows = [
        drawn_losses(compressed(market, scale), nodes=2, pool=2, until_s=6.0, seed=seed)
        for seed in range(400)
    ]

    assert sum(map(len, rows)) / 400 == pytest.approx(1.5, abs=0.25)


def test_the_same_seed_draws_the_same_losses() -> None:
    market = compressed(preset("hot-4h"), 3000)
    first, again, other = (
        drawn_losses(market, nodes=4, pool=4, until_s=60, seed=seed) for seed in (3, 3, 4)
    )

    assert first == again != other
    assert all(1 <= loss.workers <= 4 for loss in first)


def test_a_pool_is_so_large_that_a_replayed_trace_leaves_the_job_its_nodes() -> None:
    assert pool_for(preset("hot-4h"), nodes=3) == 3
    assert pool_for(Market(replay=HALF_GONE), nodes=3) == 6
    none_left = Replay(at_s=(0.0, 1.0), up=(1.0, 0.0), span_s=2.0)
    with pytest.raises(UsageError, match="no node is left"):
        pool_for(Market(replay=none_left), nodes=1)


def test_a_lost_node_that_holds_no_worker_strikes_nobody() -> None:
    market = Market(replay=HALF_GONE)
    rows = [
        drawn_losses(market, nodes=1, pool=2, until_s=7200 * 200, seed=seed) for seed in range(4)
    ]

    # One of two nodes goes each round, and the job is on either.
    assert sum(map(len, rows)) / 800 == pytest.approx(0.5, abs=0.06)


class Stopped:
    """A clock that stands where it was put."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now_ns(self) -> int:
        return int(self.seconds * 1e9)

    def wall_ns(self) -> int:
        return self.now_ns()

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def entries(*events: AnyEvent) -> list[Entry]:
    return [Entry(time_ns=0, source="test", seq=n, what=what) for n, what in enumerate(events)]


def group(attempt: int, *pids: int) -> list[Entry]:
    places = tuple(
        WorkerPlace(rank=rank, pid=pid, node_id="n", node_ip="") for rank, pid in enumerate(pids)
    )
    started = ev.WorkerGroupStarted(attempt=attempt, workers=places)
    return entries(started, step_of(attempt))


def step_of(attempt: int) -> ev.StepDone:
    return ev.StepDone(attempt=attempt, rank=0, epoch=0, step=1, losses=())


FIT = entries(
    ev.FitCalled(trainer="", workers=2, run_name="", storage_path="", settings={}, replaced={})
)


def striking(losses: Sequence[Loss]) -> tuple[TimedStrikes, Stopped, list[int]]:
    clock, killed = Stopped(), list[int]()

    def kill(pid: int) -> bool:
        killed.append(pid)
        return True

    strikes = TimedStrikes(losses, clock=clock, seed=0, kill=kill)
    return strikes, clock, killed


def test_workers_are_killed_when_it_is_time_and_not_before() -> None:
    strikes, clock, killed = striking([Loss(2.0, 1)])
    strikes([*FIT, *group(0, 11, 12)])
    clock.seconds = 1.9
    strikes([])
    assert killed == []

    clock.seconds = 2.0
    strikes([])

    assert killed[0] in {11, 12}
    assert (len(killed), strikes.struck) == (1, 1)


def test_losses_together_are_one_strike_and_none_falls_before_a_first_step() -> None:
    strikes, clock, killed = striking([Loss(2.0, 5), Loss(3.5, 1), Loss(4.5, 1)])
    strikes([*FIT, *group(0, 11, 12)])
    clock.seconds = 3.0
    strikes([])
    assert sorted(killed) == [11, 12]

    clock.seconds = 4.0
    strikes([*entries(step_of(0)), *group(1, 21, 22)[:1]])  # the old group's last word, and a start
    strikes(group(1, 21, 22)[1:])
    assert len(killed) == 2

    clock.seconds = 5.0
    strikes([])

    assert killed[2] in {21, 22}
    assert strikes.struck == 2


def walked(question: Question, losses: Sequence[Loss]) -> Course:
    """Walk through one run second by second: the model's words, written another way."""
    costs, every = question.costs, question.job.checkpoint_every_steps
    assert costs is not None
    now_s, done, attempts, lost = costs.begin_s, 0, 1, 0.0
    left = [loss.at_s for loss in losses]
    cycle_s = every * costs.step_s + costs.save_s
    while True:
        end_s = now_s + (question.job.steps - done) / every * cycle_s
        if not left or left[0] > end_s:
            return Course(attempts, lost, end_s, question.work_s / end_s)
        at_s = left.pop(0)
        if at_s < now_s:
            continue  # it is being set up
        trained_s = at_s - now_s
        done += int(trained_s // cycle_s) * every
        lost += min(trained_s % cycle_s, question.interval_s) // costs.step_s
        now_s, attempts = at_s + costs.begin_s, attempts + 1


def foretold(market: Market, **wrong: float) -> dict[str, Comparison]:
    """Compare the model, with costs that may be wrong, with sixty runs that were walked through."""
    truth = memoryless(loss_every_s=1, nodes=2, save_s=2, restart_s=20, every=50, commits=20)
    asked = asked_of(truth, market, pool=2)
    rows = [drawn_losses(market, nodes=2, pool=2, until_s=1e5, seed=seed) for seed in range(60)]
    told = changed(asked, {f"costs.{name}": value for name, value in wrong.items()})
    found = compared([told], [walked(asked, row) for row in rows], seed=1)
    return {row.figure: row for row in found}


SHOCKED = Market(lifetime=Exponential(mtbf_h=0.5), shock=Shock(every_h=0.5, share=0.5))


OFTEN = Market(lifetime=Exponential(mtbf_h=0.03))  # many losses fall into a start, and are spared


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
    assert course_of(trial_of(story), steps=20) is None  # no `fit()` was seen

    course = course_of(trial_of(story, History([*FIT, *story.history()])), steps=20)

    assert course is not None
    assert (course.attempts, course.lost_steps) == (2, 3)
    assert 0 < course.goodput < 1


def test_an_interval_of_a_mean_holds_it() -> None:
    draws = random.Random(0)
    seen = [mean_of([draws.gauss(5, 2) for _ in range(30)], seed=n) for n in range(200)]

    assert 0.88 <= sum(one.low <= 5 <= one.high for one in seen) / 200 <= 0.99
