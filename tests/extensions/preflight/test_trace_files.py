"""Every public format is read, and every mistake in a trace has its line."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from chaos.errors import UsageError
from chaos.extensions.preflight.capacity import capacity
from chaos.extensions.preflight.forecast import simulate
from chaos.extensions.preflight.market import (
    Exponential,
    LossNotice,
    Market,
    Shock,
    find_worst_market,
)
from chaos.extensions.preflight.question import Question
from chaos.extensions.preflight.trace import build_replay_market, build_trace, fit_market
from chaos.extensions.preflight.trace_files import load_advisor, load_trace, parse_parcae
from tests.extensions.preflight.drawn import drawn
from tests.extensions.preflight.questions import sound_question

BAMBOO = (
    "0,add,a\n0,add,b\n0,add,c\n60000,remove,b\n120000,add,d\n180000,remove,a\n180000,remove,c\n"
)
PARCAE = (
    '[0, "add", {"nodes": ["a", "b", "c"], "duration": 60000}]\n'
    '[60000, "remove", {"nodes": ["b"], "duration": 60000}]\n'
    '[120000, "no-op", {"nodes": [], "duration": 60000}]\n'
)
COUNTS = "2021-12-11, 11:11:30, 5\n2021-12-11, 11:12:30, 3\n2021-12-11, 11:13:30, 5\n"
TRACES = Path(os.environ.get("CHAOS_TRACES", Path(__file__).parents[3] / "../shared/traces"))
NO_NOTICE = LossNotice()


def written(folder: Path, text: str, name: str = "trace.txt") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_bamboos_events_become_counts(tmp_path: Path) -> None:
    trace = load_trace(written(tmp_path, BAMBOO))

    assert [(c.at_s, c.up) for c in trace.changes] == [(0, 3), (60, 2), (120, 3), (180, 1)]
    assert trace.drops == (1, 2)
    assert trace.node_h == pytest.approx((3 + 2 + 3) / 60)
    assert trace.kind == "held"


def test_parcaes_lines_become_counts(tmp_path: Path) -> None:
    trace = load_trace(written(tmp_path, PARCAE))

    assert [(c.at_s, c.up) for c in trace.changes] == [(0, 3), (60, 2)]
    assert trace.span_s == 180


def test_series_of_counts_are_read(tmp_path: Path) -> None:
    trace = load_trace(written(tmp_path, COUNTS))

    assert [(c.at_s, c.up, c.lost, c.added) for c in trace.changes] == [
        (0, 5, 0, 0),
        (60, 3, 2, 0),
        (120, 5, 0, 2),
    ]


@pytest.mark.parametrize(
    ("folder", "kind"), [("preemption", "held"), ("availability", "probes"), ("x", "probes")]
)
def test_skypilots_json_is_read_and_probes_are_not_taken_for_nodes_held(
    tmp_path: Path, folder: str, kind: str
) -> None:
    text = json.dumps({"metadata": {"gap_seconds": 300}, "data": [4, 4, 2, 4]})
    trace = load_trace(written(tmp_path / folder, text, "us-east-1a.json"))

    assert (trace.kind, trace.drops, trace.span_s) == (kind, (2,), 1200)
    said = fit_market(trace, notice=NO_NOTICE, price_ratio=0.3).notes
    assert any("probes" in note for note in said) is (kind == "probes")


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("", ":1", "the trace is empty"),
        ("\n \n", ":1", "the trace is empty"),
        ("0,add,a\n999999999999999999,remove,a\n", ":2", "years. Are its times"),
        ('{"metadata": {"gap_seconds": 3e12}, "data": [4, 2]}', ":1", "years. Are its times"),
        ("[1, 2, 3]\n", ":1", "not a line of a Parcae trace"),
        ("time,event,node\n", ":1", "no row below the headings"),
        ("0.5,16\n1.5,15\n", "", "the unit of its times is not known: 0.5"),
        ("2021-12-11 11:11:30,5\n2021-12-11 11:12:30,x\n", ":2", "not `time, count`"),
        ("2021-12-11 11:11:30,a,b\n", ":1", "neither a count of nodes nor add"),
        ("time,price\n2021-12-11 11:11:30,5\n", ":2", "neither a count of nodes"),
        ("time,gpu_util\n2021-12-11 11:11:30,95\n", ":2", "neither a count of nodes"),
        (f"2021-12-11 11:11:30,{'9' * 5000}\n", ":1", "neither a count of nodes"),
        (" JobID  State\n-----\n7 FAILED\n", ":1", "sacct with padded columns"),
        ("MIT License\n", ":1", "no known format"),
        ("0,add,a\n5,remove,b\n", ":2", "b is removed and was never added"),
        ("0,add,a\n5,add,a\n", ":2", "a is added and was there already"),
        ("0,add,a\n-5,remove,a\n", ":2", "lies before the beginning"),
        ("0,add,a\n5,moved,a\n", ":2", "not `milliseconds,add|remove,node`"),
        ("2021-12-11, 11:11:30, 5\n2021-12-11, 11:12:30, -3\n", ":2", "cannot be negative"),
        ("2021-12-11, 11:11:30, 5\n2021-13-11, 11:12:30, 3\n", ":2", "no such moment"),
        ("2021-12-11, 11:11:30, 5\n2021-12-11, 3\n", ":2", "not `date, time, count`"),
        ("2021-12-11, 11:11:30, 1639221090\n", ":1", "wrong column"),
        ('[0, "add", {"nodes": ["a"]}]\n[1, 2]\n', ":2", "not a line of a Parcae trace"),
        ('[0, "add", {"nodes": ["a"]}]\n[9, "delete", {"nodes": ["a"]}]\n', ":2", "not 'delete'"),
        ('[0, "add", {"nodes": "abc"}]\n', ":1", "not a line of a Parcae trace"),
        ('[NaN, "add", {"nodes": ["a"]}]\n', ":1", "not a line of a Parcae trace"),
        ('{"metadata": {"gap_seconds": NaN}, "data": [1]}', ":1", "above 0"),
        ('{"metadata": {}, "data": [1]}', ":1", "neither metadata.gap_seconds"),
        ('{"metadata": {"gap_seconds": 0}, "data": [1]}', ":1", "above 0"),
        ('{"metadata": {"gap_seconds": 9}, "data": [1.5, 1]}', ":1", "must be whole"),
        ('{"rows": []}', ":1", "no trace that chaos knows"),
        ('{"data": [1,', ":1", "this is not JSON"),
        ("2021-12-11, 11:11:30, 5\n2021-12-11, 11:12:30, 5\n", ":2", "nothing ever changes"),
    ],
)
def test_a_wrong_trace_is_refused_at_its_line(
    tmp_path: Path, text: str, place: str, problem: str
) -> None:
    path = written(tmp_path, text)

    with pytest.raises(UsageError) as refused:
        load_trace(path)

    assert str(refused.value).startswith(f"{path}{place}: ")
    assert problem in str(refused.value)
    assert refused.value.hint  # what to do


@pytest.mark.parametrize(
    "text",
    [
        "2021-12-11 11:11:30,5\n2021-12-11 11:12:30,3\n2021-12-11 11:13:30,5\n",
        "2021-12-11T11:11:30Z;5\n2021-12-11T11:12:30Z;3\n2021-12-11T11:13:30Z;5\n",
        "1639221090,5\n1639221150,3\n1639221210,5\n",
        "1639221090000\t5\n1639221150000\t3\n1639221210000\t5\n",
        "time,nodes\n2021-12-11 11:11:30,5\n2021-12-11 11:12:30,3\n2021-12-11 11:13:30,5\n",
        "time_s,price,nodes\n0,3,5\n60,3,3\n120,4,5\n",
        "time_s,running,interruptions\n0,5,0\n60,3,2\n120,5,0\n",
        "hours,instances\n0,5\n0.0166666667,3\n0.0333333333,5\n",
        "time | event | node\n"
        + "".join(
            f"2021-12-11 11:{at} | {what} | {node}\n"
            for at, what, node in [
                *(("11:30", "launched", n) for n in "abcde"),
                *(("12:30", "PREEMPTED", n) for n in "ab"),
                *(("13:30", "launched", n) for n in "fg"),
            ]
        ),
    ],
)
def test_columns_are_known_by_what_stands_in_them(tmp_path: Path, text: str) -> None:
    trace = load_trace(written(tmp_path, text))

    changes = [(round(c.at_s - trace.changes[0].at_s), c.up) for c in trace.changes]
    assert changes == [(0, 5), (60, 3), (120, 5)]


def test_the_unit_of_plain_times_is_what_is_said(tmp_path: Path) -> None:
    file = written(tmp_path, "0.5,16\n1.5,15\n2.5,16\n")

    assert [round(c.at_s) for c in load_trace(file, unit="h").changes] == [0, 3600, 7200]


def test_a_trace_in_seconds_is_read_as_milliseconds_and_said_to_be_short(tmp_path: Path) -> None:
    trace = load_trace(written(tmp_path, "0,add,a\n3600,remove,a\n"))

    assert any("if its times are seconds" in repair for repair in trace.repairs)


def test_a_file_of_no_known_format_is_told_what_is_known(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Bamboo.*Parcae.*SkyPilot"):
        load_trace(written(tmp_path, "hello\n"))


def test_json_of_brackets_without_end_is_refused(tmp_path: Path) -> None:
    text = '{"data": ' + "[" * 100_000

    with pytest.raises(UsageError, match=r":1: this JSON is nested too deeply"):
        load_trace(written(tmp_path, text))
    with pytest.raises(UsageError, match="not a Spot Advisor table"):
        load_advisor(written(tmp_path, text), "r", "t")


def test_rows_out_of_order_are_sorted_and_said_to_be(tmp_path: Path) -> None:
    rows = COUNTS.splitlines()
    trace = load_trace(written(tmp_path, "\n".join([rows[1], rows[0], rows[2]])))

    assert trace.drops == (2,)
    assert trace.repairs == ("1 row out of order, and sorted",)


def test_what_concerns_no_node_of_parcaes_is_passed_over(tmp_path: Path) -> None:
    rows = ('[0, "add", {"nodes": ["a", "b"]}]', '[1, "migration", {"nodes": [], "duration": 9}]')
    trace = load_trace(
        written(tmp_path, "\n".join((*rows, '[600000, "remove", {"nodes": ["b"]}]')))
    )

    assert [change.up for change in trace.changes] == [2, 1]


def test_two_counts_of_one_moment_are_one_and_said_to_be(tmp_path: Path) -> None:
    at = "2021-12-11, 11:11:30"
    trace = load_trace(written(tmp_path, f"{at}, 5\n{at}, 4\n2021-12-11, 11:12:30, 3\n"))

    assert trace.drops == (1,)
    assert any(repair.startswith("1 row of the same moment") for repair in trace.repairs)


def test_a_mark_before_the_text_is_no_text(tmp_path: Path) -> None:
    assert load_trace(written(tmp_path, "\ufeff0,add,a\n600000,remove,a\n")).drops == (1,)


def advisor(folder: Path) -> Path:
    table = {"us-east-1": {"Linux": {"p3.2xlarge": {"r": 3, "s": 64}}}}
    return written(folder, json.dumps({"spot_advisor": table}), "advisor.json")


def test_spot_advisors_bucket_is_a_monthly_hazard(tmp_path: Path) -> None:
    row = load_advisor(advisor(tmp_path), "us-east-1", "p3.2xlarge")

    assert row == pytest.approx((730 / 0.20, 0.64))


def test_spot_advisors_table_is_no_trace_and_a_missing_row_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--advisor"):
        load_trace(advisor(tmp_path))
    with pytest.raises(UsageError, match="no p9"):
        load_advisor(advisor(tmp_path), "us-east-1", "p9")


@pytest.mark.parametrize("seed", range(4))
def test_what_made_a_trace_is_found_again_in_its_intervals(seed: int) -> None:
    made = Market(lifetime=Exponential(mtbf_h=10), shock=Shock(every_h=20, share=0.5), away_h=0.5)
    found = fit_market(
        drawn(made, nodes=16, hours=2000, seed=seed), notice=NO_NOTICE, price_ratio=0.3
    )

    assert found.mtbf_h.low <= found.mtbf_h.value <= found.mtbf_h.high
    assert found.mtbf_h.value == pytest.approx(made.mtbf_h, rel=0.15)
    assert found.away_h.value == pytest.approx(0.5, rel=0.2)
    assert found.market.mtbf_h == pytest.approx(found.mtbf_h.value, rel=0.05)
    assert found.market.shock is not None
    assert found.market.shock.every_h == pytest.approx(20, rel=0.3)


def test_a_fitted_market_loses_as_many_at_once_as_its_trace_did() -> None:
    counts = [(0.0, 60)]
    for n in range(1, 40):
        lost = 40 if n == 20 else (2 if n % 3 == 0 else 1)
        counts += [(n * 3600.0, 60 - lost), (n * 3600.0 + 600, 60)]
    trace = build_trace("tails", counts, format_="test", kind="held", span_s=40 * 3600)
    market = fit_market(trace, notice=NO_NOTICE, price_ratio=0.3).market
    engine = capacity(market, 60, 300, np.random.Generator(np.random.SFC64(0)))
    lost_at_once = np.concatenate([engine.change() for _ in range(200)])

    assert lost_at_once.max() == 40
    assert (lost_at_once > 1).sum() / (lost_at_once > 0).sum() == pytest.approx(14 / 39, abs=0.04)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    made = Market(lifetime=Exponential(mtbf_h=10), away_h=0.2)
    fits = [
        fit_market(drawn(made, nodes=8, hours=300, seed=n), notice=NO_NOTICE, price_ratio=0.3)
        for n in range(60)
    ]
    held = sum(found.mtbf_h.low <= 10 <= found.mtbf_h.high for found in fits)

    assert 48 <= held <= 60  # 57 expected; resampling is known to be a little narrow


def test_a_market_cannot_be_learnt_where_nothing_was_lost() -> None:
    grows = build_trace("grows", [(0, 1), (60, 2)], format_="test", kind="held")

    with pytest.raises(UsageError, match="no node is lost"):
        fit_market(grows, notice=NO_NOTICE, price_ratio=0.3)


def test_where_no_node_came_back_it_is_not_taken_to_have_come_at_once() -> None:
    falls = build_trace("falls", [(0, 4), (1800, 3), (3600, 3)], format_="test", kind="held")
    found = fit_market(falls, notice=NO_NOTICE, price_ratio=0.3)

    assert found.market.away_h == 1.0  # half an hour was seen, of an hour in all
    assert any("no node ever comes back" in note for note in found.notes)


def test_a_fit_says_how_much_worse_its_market_may_be() -> None:
    made = Market(lifetime=Exponential(mtbf_h=10), away_h=0.5)
    short, long = (
        fit_market(drawn(made, nodes=8, hours=hours), notice=NO_NOTICE, price_ratio=0.3)
        for hours in (20, 2000)
    )
    worst = find_worst_market(short.market)

    assert worst is not None
    assert worst.mtbf_h == pytest.approx(short.mtbf_h.low, rel=0.01)
    assert worst.away_h == pytest.approx(short.away_h.high, rel=0.01)
    assert short.market.doubt is not None
    assert long.market.doubt is not None
    assert short.market.doubt.losses > 1.3 > long.market.doubt.losses >= 1
    assert find_worst_market(made) is None


def test_a_replayed_trace_loses_what_the_trace_lost() -> None:
    made = Market(lifetime=Exponential(mtbf_h=10), away_h=0.5)
    trace = drawn(made, nodes=8, hours=300)
    market = build_replay_market(trace, notice=NO_NOTICE, price_ratio=0.3)

    assert market.mtbf_h == pytest.approx(trace.node_h / sum(trace.drops))
    base = sound_question()
    question = Question(
        **{**dict(base), "market": market, "job": base.job.model_copy(update={"spare_nodes": 0})}
    )
    assert simulate(question, runs=50, seed=0).restarts.sum() > 0


def public_traces() -> list[Path]:
    # By name: files of other kinds that users have may lie beside them.
    found = sorted(TRACES.glob("*")) if TRACES.is_dir() else []
    return [path for path in found if path.name.startswith(("bamboo-", "parcae-", "skypilot-"))]


@pytest.mark.skipif(
    not public_traces(), reason="no public traces here; CHAOS_TRACES names a folder"
)
def test_public_traces_are_read_whole() -> None:
    for path in public_traces():
        trace = load_trace(path)
        assert fit_market(trace, notice=NO_NOTICE, price_ratio=0.3).mtbf_h.value > 0


@pytest.mark.skipif(
    not (TRACES / "bamboo-p3-trace.csv").is_file(), reason="Bamboo's p3 trace is not here"
)
def test_bamboos_p3_trace_has_its_known_statistics() -> None:
    trace = load_trace(TRACES / "bamboo-p3-trace.csv")
    found = fit_market(trace, notice=NO_NOTICE, price_ratio=0.3)

    assert trace.peak == 32
    assert trace.span_s / 3600 == pytest.approx(11.4, abs=0.05)
    assert found.mtbf_h.value == pytest.approx(1.64, abs=0.01)


def test_a_line_that_is_nested_too_deeply_is_refused_with_its_number() -> None:
    deep = "[" * 100_000

    with pytest.raises(UsageError, match=r"deep\.json:1: not a line of a Parcae trace"):
        parse_parcae("deep.json", [deep])
