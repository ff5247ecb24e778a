"""A trace of other nodes than the job's is read in one of two ways, and the answer says which."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from chaos.errors import UsageError
from chaos.extensions.preflight.answer import Answer, answer_question, combine_answers
from chaos.extensions.preflight.capacity import capacity, pools_capacity
from chaos.extensions.preflight.compression import choose_pool, follow_nodes
from chaos.extensions.preflight.forecast import Effort
from chaos.extensions.preflight.load import MarketChoice, choose_market
from chaos.extensions.preflight.market import (
    Exponential,
    LossNotice,
    Market,
    Replay,
    Shock,
    TraceNodes,
    TraceReading,
    Weibull,
    describe_trace_nodes,
    loss_interval_s,
)
from chaos.extensions.preflight.page import render_answer
from chaos.extensions.preflight.question import Costs, Goal, JobShape, Question, change_question
from chaos.extensions.preflight.ranges import list_readings
from chaos.extensions.preflight.rules import findings
from chaos.extensions.preflight.settings import RaySettings
from chaos.extensions.preflight.trace import Trace, build_replay_market, build_trace, fit_market
from tests.extensions.preflight.drawn import drawn
from tests.extensions.preflight.shown import in_markdown, shown

FEW = Effort(runs=200, jobs=1)
MADE = Market(
    lifetime=Exponential(mtbf_h=3), shock=Shock(every_h=2, share=0.15), away_h=2.2
)  # of 24 nodes some 13 are up


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Return a trace of twelve hours with at most 24 nodes, and mostly with eight or more."""
    return drawn(MADE, nodes=24, hours=12, seed=3)


def asked_of(market: Market, **values: object) -> Question:
    """Return the question of a job of eight nodes for six hours."""
    asked = Question(
        preflight="eight nodes",
        job=JobShape(nodes=8, steps=20_000, checkpoint_every_steps=500),
        settings=RaySettings(max_failures=-1, storage_path="s3://bucket", run_name="r"),
        costs=Costs(step_s=1, save_s=8, schedule_s=20, start_s=10),
        market=market,
        goal=Goal(deadline_h=12.0),
    )
    return change_question(
        asked, {name.replace("__", "."): value for name, value in values.items()}
    )


def market_of(trace: Trace, read: TraceReading | None = None, *, repeated: bool = False) -> Market:
    told = LossNotice(seconds=120, reliability=0.95)
    if repeated:
        return build_replay_market(trace, notice=told, price_ratio=0.35).choose_reading(read)
    return fit_market(trace, notice=told, price_ratio=0.35).market.choose_reading(read)


# -- the nodes that a job holds -----------------------------------------------------------------

KINDS = {
    "memoryless": Market(
        lifetime=Exponential(mtbf_h=2), away_h=1, shock=Shock(every_h=3, share=0.3)
    ),
    "replaced at once": Market(lifetime=Exponential(mtbf_h=2)),
    "ageing": Market(lifetime=Weibull(scale_h=2, shape=2), away_h=1),
    "repeated": Market(replay=Replay(at_s=(0, 60, 90), up=(1, 0.25, 0.75), span_s=120, peak=24)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_market_a_job_holds_what_is_up_and_no_more_than_it_wants(kind: str) -> None:
    market = KINDS[kind].model_copy(update={"trace_nodes": TraceNodes(most=24, read="market")})
    held = capacity(market, 8, 50, np.random.Generator(np.random.SFC64(1)))
    every = capacity(KINDS[kind], 24, 50, np.random.Generator(np.random.SFC64(1)))

    for _ in range(60):
        before, at_s = held.up, held.next_s
        assert (at_s == every.next_s).all()  # the market's own, whatever the job wants
        assert (before == np.minimum(every.up, 8)).all()
        all_lost, lost = every.change(), held.change()
        assert (lost <= np.minimum(all_lost, before)).all()
        assert (before - lost <= held.up).all()


def test_a_jobs_node_is_lost_as_often_as_any_of_the_market() -> None:
    market = KINDS["replaced at once"].model_copy(
        update={"trace_nodes": TraceNodes(most=24, read="market")}
    )
    engine, lost = capacity(market, 8, 200, np.random.Generator(np.random.SFC64(0))), 0
    while (engine.next_s < 100 * 3600).all():
        lost += int(engine.change().sum())

    node_h = 8 * float(engine.next_s.mean()) / 3600 * 200
    assert node_h / lost == pytest.approx(2.0, rel=0.03)
    assert loss_interval_s(market, 8) == pytest.approx(2 * 3600 / 8)


def test_losses_of_a_repeated_trace_are_as_rare_as_they_hit_the_job() -> None:
    at_s = tuple(60.0 * n for n in range(20))
    replay = Replay(at_s=at_s, up=(1.0, 0.5) * 10, span_s=1200, peak=4)
    market = Market(replay=replay, trace_nodes=TraceNodes(most=4, read="market"))

    # Two of four go, ten times; a job of one node is hit by half of them.
    assert loss_interval_s(market, 1) == pytest.approx(1200 / 5)
    assert loss_interval_s(market, 3) == pytest.approx(1200 / 10)


def test_two_pools_of_one_market_meet_the_same_losses() -> None:
    market = KINDS["memoryless"].model_copy(
        update={"trace_nodes": TraceNodes(most=24, read="market")}
    )
    engine = pools_capacity(
        [(market, 8), (market, 9)], 100, np.random.Generator(np.random.SFC64(0))
    )
    apart, lost = 0, 0
    for _ in range(50):
        of_8, of_9 = engine.change().reshape(2, -1)
        apart, lost = apart + int((of_8 != of_9).sum()), lost + int((of_8 > 0).sum())

    assert apart < lost / 3  # one in nine of the losses of nine hits none of the eight


def test_a_trace_and_its_nodes_are_of_one_size() -> None:
    with pytest.raises(ValidationError, match="the nodes of one trace, got 24 and 32"):
        Market(replay=KINDS["repeated"].replay, trace_nodes=TraceNodes(most=32))


# -- the answer ---------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[False, True], ids=["fitted", "repeated"])
def both(request: pytest.FixtureRequest, trace: Trace) -> Answer:
    """Return the answer without a chosen reading."""
    return answer_question(asked_of(market_of(trace, repeated=request.param)), FEW)


def test_where_the_readings_differ_it_cannot_be_told(both: Answer) -> None:
    by_shares, as_market = both.readings

    assert (both.word, both.exit_code) == ("cannot tell", 2)
    assert by_shares.word == "no-go"
    assert as_market.word in {"go", "go with changes", "cannot tell"}
    assert "how the trace's 24 nodes are read as 8 of yours (--trace-nodes)" in both.why
    assert ": no-go by shares; " in both.why
    assert both.changes == {}  # each reading has its own
    assert both.forecast is None


def test_both_readings_are_shown_with_their_figures_and_the_option_that_chooses(
    both: Answer,
) -> None:
    plain = json.loads(json.dumps(both.dump_values(), default=str))

    assert [one["trace_nodes"] for one in plain["readings"]] == ["pool", "market"]
    goodputs = [one["forecast"]["goodput"]["middle"] for one in plain["readings"]]
    assert goodputs[0] < 0.3 < goodputs[1]
    for text in (shown(both), render_answer(both), in_markdown(both)):
        one_line = " ".join(text.split())
        assert f"--trace-nodes pool: {both.readings[0].word}: " in one_line
        assert f"--trace-nodes market: {both.readings[1].word}: " in one_line
        assert all(f"{goodput:.1%}" in text for goodput in goodputs)
        assert "24 nodes in the trace, read as 8 of yours by shares" in one_line
        assert "24 nodes in the trace, read as a market: you hold up to 8" in one_line


@pytest.mark.parametrize("read", ["pool", "market"])
def test_a_chosen_reading_is_answered_alone_and_said(trace: Trace, read: TraceReading) -> None:
    found = answer_question(asked_of(market_of(trace, read, repeated=True)), FEW)

    assert found.readings == ()
    assert found.forecast is not None
    said = "read as 8 of yours by shares" if read == "pool" else "read as a market: you hold up to"
    for text in (shown(found), render_answer(found), in_markdown(found)):
        assert f"24 nodes in the trace, {said}" in " ".join(text.split())


def test_where_the_readings_agree_the_worse_one_is_shown_and_the_other_named(trace: Trace) -> None:
    asked = asked_of(market_of(trace, repeated=True), job__nodes=22, goal__deadline_h=8.0)
    found = answer_question(asked, FEW)

    assert found.word == "no-go"
    assert {one.word for one in found.readings} == {"no-go"}
    assert found.forecast is not None
    assert found.forecast.mean_goodput == min(
        one.forecast.mean_goodput for one in found.readings if one.forecast
    )
    text = shown(found)
    assert [line.split()[0] for line in text.splitlines() if "no-go  " in line] == [
        "--trace-nodes",
        "--trace-nodes",
    ]


def test_without_costs_both_readings_are_asked_of_the_rules(trace: Trace) -> None:
    bare = asked_of(market_of(trace)).model_copy(update={"costs": None})

    found = answer_question(bare, FEW)

    texts = [one.text for one in found.findings if one.rule == "min-nodes-above-market"]
    assert any("(the trace's 24, by shares)" in text for text in texts)
    assert found.word == "cannot tell"


def test_changes_that_suffice_by_one_reading_alone_are_not_advised(trace: Trace) -> None:
    asked = asked_of(
        market_of(trace, repeated=True),
        job__min_nodes=1,
        job__steps=4_000,
        settings__max_failures=0,
        settings__max_preemption_failures=0,
        goal__deadline_h=6.0,
    )
    found = answer_question(asked, FEW)
    worse, better = found.readings
    few = replace(worse, changes={**found.changes, "settings.max_failures": 1})

    assert [one.word for one in (found, worse, better)] == ["go with changes"] * 3
    # Read as a market, the same job meets more losses.
    doubtful = combine_answers((few, better), (), FEW)
    assert doubtful.word == "cannot tell"
    assert "go with changes as a market, each with other changes" in doubtful.why


def test_a_job_larger_than_the_trace_is_read_by_shares_alone(trace: Trace) -> None:
    asked = asked_of(market_of(trace, repeated=True), job__nodes=32, goal__deadline_h=8.0)

    ((only, _),) = list_readings(asked)
    assert "read as 32 of yours by shares: 2 copies of the trace" in (
        describe_trace_nodes(only.market, 32) or ""
    )
    with pytest.raises(UsageError, match="whether more could be had is not in it") as refused:
        list_readings(asked_of(market_of(trace, "market"), job__nodes=32))
    assert "--trace-nodes pool" in refused.value.hint
    # An elastic one may go on with what there was.
    elastic = asked_of(market_of(trace, "market"), job__nodes=32, job__min_nodes=8)
    assert [way.question for way in list_readings(elastic)] == [elastic]


def test_a_rule_says_of_which_nodes_it_speaks(trace: Trace) -> None:
    texts = {
        read: {one.rule: one.text for one in findings(asked_of(market_of(trace, read)))}
        for read in ("pool", "market")
    }

    rule = "min-nodes-above-market"
    assert "of 8 (the trace's 24, by shares) the market leaves" in texts["pool"][rule]
    assert "every loss stops training until the node is replaced" in texts["pool"]["no-spare"]
    assert (
        "where the market has fewer than 8 nodes (the trace's 24, read as a market)"
        in (texts["market"]["no-spare"])
    )


@pytest.mark.parametrize(
    ("market", "pool", "text"),
    [
        (KINDS["repeated"], 24, "24 nodes in the trace, read as 24 of yours, node for node"),
        (KINDS["repeated"], 8, "read as 8 of yours by shares: 4 are up where 12 of the 24 were"),
        (KINDS["memoryless"], 8, "by shares: each is up as often as one of the 24"),
    ],
)
def test_how_a_trace_is_read_is_said_by_an_example(market: Market, pool: int, text: str) -> None:
    read = market.model_copy(update={"trace_nodes": TraceNodes(most=24)})

    assert text in (describe_trace_nodes(read, pool) or "")
    assert describe_trace_nodes(market, pool) is None


# -- where else a trace is used -----------------------------------------------------------------


def test_the_option_reaches_the_market(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    rows = [f"0,add,n{n}" for n in range(6)] + ["600000,remove,n1", "900000,remove,n2"]
    file.write_text("\n".join(rows), encoding="utf-8")

    for repeated in (False, True):
        market, _ = choose_market(MarketChoice(trace=file, replay=repeated, trace_nodes="market"))
        assert market.trace_nodes == TraceNodes(most=6, read="market")
    assert choose_market(MarketChoice(trace=file))[0].trace_nodes == TraceNodes(most=6)


def test_runs_of_a_validation_need_a_trace_that_always_has_the_jobs_nodes(trace: Trace) -> None:
    market = market_of(trace, "market", repeated=True)
    least = min(change.up for change in trace.changes)

    assert choose_pool(market, nodes=least) == least
    with pytest.raises(UsageError, match=rf"fewer than {least + 1} nodes"):
        choose_pool(market, nodes=least + 1)


def test_of_a_market_lost_nodes_are_replaced_at_once() -> None:
    counts = [(0.0, 6), (60.0, 5), (120.0, 4), (180.0, 2), (240.0, 6)]
    trace = build_trace("t", counts, format_="test", kind="held", span_s=300)

    for seed in range(20):
        start = follow_nodes(trace, pool=3, min_nodes=3, seed=seed, read="market")
        up = start.up
        for change in start.changes:
            up += change.returned - change.lost
            at = start.start_s + change.at_s
            assert up == min(3, next(count for at_s, count in reversed(counts) if at_s <= at))


@given(
    st.lists(st.integers(0, 8), min_size=2, max_size=12).filter(lambda ups: max(ups) >= 3),
    st.integers(0, 3),
)
def test_whatever_the_trace_no_more_is_lost_than_was_held(ups: list[int], seed: int) -> None:
    counts = [(60.0 * n, up) for n, up in enumerate(ups)]
    trace = build_trace("t", counts, format_="test", kind="held", span_s=60.0 * len(ups))
    try:
        start = follow_nodes(trace, pool=3, min_nodes=2, seed=seed, read="market")
    except UsageError:
        return
    up = start.up
    for change in start.changes:
        assert 0 <= change.lost <= up
        assert change.returned >= 0
        up += change.returned - change.lost
        assert 0 <= up <= 3


# -- a no-go ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def no_go(trace: Trace) -> Answer:
    return answer_question(asked_of(market_of(trace, "pool")), FEW)


def test_a_no_go_says_what_would_have_to_be_true(no_go: Answer, trace: Trace) -> None:
    assert no_go.word == "no-go"
    for text in (shown(no_go), render_answer(no_go), in_markdown(no_go)):
        assert "it would take nodes lost" in " ".join(text.split())

    factor = int(no_go.would_take.partition("nodes lost ")[2].split()[0])
    mtbf_h = market_of(trace).mtbf_h * factor
    free = market_of(trace, "pool").model_copy(
        update={"lifetime": Exponential(mtbf_h=mtbf_h), "shock": None, "doubt": None}
    )
    better = answer_question(change_question(asked_of(free), no_go.changes), FEW)
    assert better.word in {"go", "go with changes"}


def test_a_deadline_that_is_only_too_short_is_said_as_the_one_that_would_do() -> None:
    calm = Market(lifetime=Exponential(mtbf_h=500))
    found = answer_question(asked_of(calm, goal__deadline_h=5.0), FEW)

    assert found.word == "no-go"
    hours = float(found.would_take.partition("a deadline of ")[2].split()[0])
    assert answer_question(asked_of(calm, goal__deadline_h=hours * 1.02), FEW).word == "go"


def test_a_page_of_a_no_go_has_no_difference_that_may_be_none(no_go: Answer) -> None:
    page = render_answer(no_go).partition("<script")[0]

    assert " times" in page
    assert no_go.counsel is not None
    for one in (*no_go.counsel.settings, *no_go.counsel.levers):
        assert (f' scope="row">{one.what}</th>' in page) is one.is_sure
    unsure = replace(
        no_go,
        counsel=replace(
            no_go.counsel,
            settings=tuple(
                replace(one, cost=replace(one.goodput, low=-0.69, value=17.5, high=35.8))
                for one in no_go.counsel.settings
            ),
        ),
    )
    page = render_answer(unsure)
    assert "+17.5 times" not in page
    assert "unsure" in page
    assert (
        "%" not in next(line for line in shown(no_go).splitlines() if line.startswith("cost"))[:40]
    )
