"""What must hold of every simulated run, and of runs that differ in one thing."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.errors import UsageError
from chaos.extensions.preflight.estimate import chance
from chaos.extensions.preflight.forecast import (
    Outcomes,
    build_forecast,
    goodput,
    simulate,
    simulate_each,
)
from chaos.extensions.preflight.market import (
    MARKETS,
    Exponential,
    LossNotice,
    Market,
    Shock,
    Weibull,
)
from chaos.extensions.preflight.question import Question, change_question
from tests.extensions.preflight.questions import memoryless, sound_question

PARTS = ("useful_s", "save_s", "lost_s", "restart_s", "wait_s")


def outcomes(question: Question, *, runs: int = 300, seed: int = 0) -> Outcomes:
    return simulate(question, runs=runs, seed=seed, horizon_s=3e6)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    lifetime = draw(
        st.one_of(
            st.builds(Exponential, mtbf_h=st.floats(2, 100)),
            st.builds(Weibull, scale_h=st.floats(2, 100), shape=st.floats(0.5, 3)),
        )
    )
    shock = draw(st.none() | st.builds(Shock, every_h=st.floats(1, 50), share=st.floats(0.1, 1)))
    notice = LossNotice(
        seconds=draw(st.sampled_from([0, 10, 30, 120])), reliability=draw(st.floats(0, 1))
    )
    market = Market(
        lifetime=lifetime, shock=shock, notice=notice, away_h=draw(st.sampled_from([0, 0.1, 1]))
    )
    nodes = draw(st.integers(2, 12))
    return change_question(
        sound_question(),
        {
            "market": market.model_dump(mode="json"),
            "job.nodes": nodes,
            "job.min_nodes": draw(st.none() | st.integers(1, nodes - 1)),
            "job.spare_nodes": draw(st.integers(0, 3)),
            "job.saves_on_notice": draw(st.booleans()),
            "job.steps": draw(st.integers(1000, 30_000)),
            "job.checkpoint_every_steps": draw(st.integers(50, 1000)),
            "settings.max_failures": draw(st.integers(-1, 20)),
            "settings.preemption_grace_s": draw(st.sampled_from([0, 60])),
            "settings.relax_collectives_on_preemption": draw(st.booleans()),
        },
    )


@given(questions())
def test_every_second_of_every_run_is_accounted_for_once(question: Question) -> None:
    seen = outcomes(question)

    total = sum(getattr(seen, part) for part in PARTS)
    late = seen.end_s - total
    # A save that was cut off by the deadline may be counted short, by no more than the saves.
    assert (np.abs(late) <= 1e-6 * seen.end_s + 1e-6).all()
    assert all((getattr(seen, part) >= -1e-6).all() for part in PARTS)


@given(questions())
def test_no_run_does_more_than_its_work_or_spends_more_than_its_budget(question: Question) -> None:
    seen = outcomes(question)
    limit = question.ray.max_failures

    assert (seen.work_s <= question.work_s + 1e-6).all()
    assert (
        seen.work_s[seen.finished > 0] == pytest.approx(question.work_s)
    ) or not seen.finished.any()
    assert not (seen.finished * seen.spent).any()
    assert (seen.useful_s >= seen.work_s - 1e-6).all()
    assert (seen.rescued <= seen.noticed).all()
    assert limit < 0 or (seen.failures <= limit + seen.spent).all()
    charged = seen.failures + seen.preemptions + seen.start_failures
    assert (charged == seen.restarts + seen.spent).all()


def test_the_same_seed_gives_the_same_bits_on_any_number_of_processes() -> None:
    question = memoryless(loss_every_s=2000, commits=20)
    one, two = (simulate(question, runs=12_000, seed=5, jobs=jobs) for jobs in (1, 2))

    for field in fields(Outcomes):
        assert np.array_equal(getattr(one, field.name), getattr(two, field.name))
    assert not np.array_equal(one.end_s, simulate(question, runs=12_000, seed=6).end_s)


@pytest.mark.parametrize("rarer", [2.0, 5.0, 50.0])
def test_fewer_losses_give_more_goodput(rarer: float) -> None:
    often = goodput(outcomes(memoryless(loss_every_s=1500), runs=2000))
    seldom = goodput(outcomes(memoryless(loss_every_s=1500 * rarer), runs=2000))

    assert seldom.mean() > often.mean()


@settings(max_examples=20, deadline=None)
@given(questions(), st.floats(0, 100))
def test_a_slower_restart_never_gives_more_goodput(question: Question, more_s: float) -> None:
    free = change_question(question, {"settings.max_failures": -1})
    slower = change_question(free, {"costs.start_s": 15.0 + more_s})
    fast, slow = goodput(outcomes(free)), goodput(outcomes(slower))

    error = float((slow - fast).std()) / len(fast) ** 0.5
    assert slow.mean() <= fast.mean() + 4 * error + 1e-9


@settings(max_examples=20, deadline=None)
@given(questions())
def test_more_retries_never_finish_fewer_runs(question: Question) -> None:
    few = outcomes(change_question(question, {"settings.max_failures": 1}))
    many = outcomes(change_question(question, {"settings.max_failures": 8}))

    # The same draws: a run that came through with few does so with many.
    assert (many.finished >= few.finished).all()


def test_a_save_on_notice_loses_less_work() -> None:
    notice = {"seconds": 120, "reliability": 1.0}
    without = memoryless(loss_every_s=3000, every=1000, market__notice=notice)
    with_save = change_question(without, {"job.saves_on_notice": True})

    lost, lost_less = (outcomes(q).lost_s.mean() for q in (without, with_save))

    assert lost_less < 0.35 * lost


def test_a_notice_too_short_for_the_save_changes_nothing() -> None:
    notice = {"seconds": 10, "reliability": 1.0}
    without = memoryless(loss_every_s=3000, market__notice=notice, costs__upload_s=30)
    with_save = change_question(without, {"job.saves_on_notice": True})

    assert outcomes(with_save).rescued.sum() == 0
    assert np.array_equal(outcomes(without).end_s, outcomes(with_save).end_s)


def test_grace_lets_survivors_commit_after_the_deadline_but_only_when_relaxed() -> None:
    question = memoryless(
        loss_every_s=3000,
        every=1000,
        job__saves_on_notice=True,
        market__notice={"seconds": 20, "reliability": 1.0},
        costs__upload_s=40,
    )
    grace = change_question(question, {"settings.preemption_grace_s": 60})
    both = change_question(grace, {"settings.relax_collectives_on_preemption": True})

    assert outcomes(question).rescued.sum() == outcomes(grace).rescued.sum() == 0
    assert outcomes(both).rescued.sum() > 0


def test_announced_losses_are_charged_to_their_own_budget() -> None:
    question = memoryless(
        loss_every_s=3000,
        market__notice={"seconds": 30, "reliability": 1.0},
        settings__max_failures=0,
    )
    seen = outcomes(question)
    unwatched = outcomes(change_question(question, {"settings.preemption_watcher": False}))

    assert seen.finished.all()
    assert seen.failures.sum() == 0
    assert unwatched.spent.mean() > 0.9


def test_a_spare_turns_waiting_into_restarting() -> None:
    short = memoryless(loss_every_s=4000, market__away_h=0.5)
    spare = change_question(short, {"job.spare_nodes": 2})

    waits, waits_less = (outcomes(q).wait_s.mean() for q in (short, spare))

    assert waits_less < 0.2 * waits


def test_an_elastic_job_goes_on_with_fewer_nodes() -> None:
    rigid = memoryless(loss_every_s=4000, nodes=8, market__away_h=1.0)
    elastic = change_question(rigid, {"job.min_nodes": 4})
    stiff, bends = outcomes(rigid), outcomes(elastic)

    assert bends.wait_s.mean() < 0.2 * stiff.wait_s.mean()
    assert goodput(bends).mean() > goodput(stiff).mean()
    assert build_forecast(elastic, bends).ledger["shrunk"] > 0


@pytest.mark.parametrize("market", MARKETS, ids=[market.name for market in MARKETS])
def test_every_preset_can_be_simulated_and_is_named_by_its_mean_life(market: Market) -> None:
    question = change_question(sound_question(), {"market": market.model_dump(mode="json")})
    seen = outcomes(question, runs=100)

    assert (seen.end_s > 0).all()
    named = float(market.name.split("-")[1].rstrip("h")) if "bathtub" not in market.name else 10
    assert market.mtbf_h == pytest.approx(named, rel=0.1)


def test_absurd_units_are_refused_instead_of_running_for_ever() -> None:
    with pytest.raises(UsageError, match="units"):
        simulate(memoryless(loss_every_s=0.01), runs=100, seed=0)


def test_a_share_of_nothing_says_nothing() -> None:
    assert (chance(0, 0).low, chance(0, 0).high) == (0, 1)
    assert chance(95, 100).low < 0.95 < chance(95, 100).high


def test_a_deadline_far_beyond_what_a_job_can_need_is_no_reason_to_refuse_it() -> None:
    asked = change_question(
        sound_question(),
        {
            "market": next(m for m in MARKETS if m.name == "hot-4h").model_dump(mode="json"),
            "job.nodes": 512,
            "job.steps": 200,
            "goal.deadline_h": 2000.0,
        },
    )

    assert (simulate(asked, runs=20, seed=0).end_s <= 100 * asked.work_s + 86_400).all()


@pytest.mark.parametrize("away_h", [0.0, 0.02, 0.05, 0.1, 0.2])
def test_replacements_that_come_later_never_raise_the_goodput(away_h: float) -> None:
    asked = memoryless(loss_every_s=1800, nodes=8, costs__detect_s=300, market__away_h=away_h)
    sooner, later = (
        goodput(outcomes(change_question(asked, {"market.away_h": away}), runs=1000)).mean()
        for away in (away_h, away_h + 0.05)
    )

    assert later <= sooner + 0.01


def test_questions_that_are_asked_together_get_what_each_gets_alone() -> None:
    base = change_question(memoryless(loss_every_s=3000, nodes=8), {"market.away_h": 0.2})
    asked = [
        change_question(base, values)
        for values in (
            {},
            {"job.checkpoint_every_steps": 100},
            {"job.spare_nodes": 2},
            {"job.min_nodes": 6, "settings.max_failures": 9},
            {"market.away_h": 0.0},
            {"market.lifetime": {"kind": "weibull", "scale_h": 9.0, "shape": 0.7}},
        )
    ]

    together = simulate_each(asked, runs=300, seed=4, jobs=1)

    for one, seen in zip(asked, together, strict=True):
        alone = simulate(one, runs=300, seed=4, jobs=1)
        for field in fields(Outcomes):
            assert np.array_equal(getattr(seen, field.name), getattr(alone, field.name)), field.name


def test_a_loss_of_all_nodes_of_one_run_beside_a_smaller_one_of_another_is_counted() -> None:
    market = Market(
        lifetime=Exponential(mtbf_h=5),
        shock=Shock(every_h=2, share=0.5),
        notice=LossNotice(seconds=0, reliability=0),
        away_h=1,
    )
    question = change_question(
        sound_question(),
        {
            "market": market.model_dump(mode="json"),
            "job.nodes": 2,
            "job.min_nodes": 1,
            "job.spare_nodes": 3,
            "job.steps": 5000,
            "settings.max_failures": -1,
        },
    )

    seen = outcomes(question, seed=25)  # a division by zero was in it

    assert (seen.work_s <= question.work_s + 1e-6).all()
