"""Tables that say what was lost, and not how many nodes there were; and lists of lives."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from chaos.errors import UsageError
from chaos.extensions.preflight.event_logs import RETURN_S, parse_log
from chaos.extensions.preflight.load import MarketChoice, choose_market
from chaos.extensions.preflight.market import Exponential, LossNotice, describe_trace_nodes
from chaos.extensions.preflight.trace import Trace, fit_market
from chaos.extensions.preflight.trace_columns import Unit
from chaos.extensions.preflight.trace_files import load_trace

DATES = ["2026-03-01 03:00:00", "2026-03-01 05:30:00", "2026-03-01 05:30:20", "2026-03-02 01:00:00"]
COLUMN = "\n".join(["preemption_time", *DATES])
COUNTED = "hour,preempted\n0.5,1\n3,2\n5,0\n8,1\n"
NO_NOTICE = LossNotice()
EVENTS = "time,event,node\n" + "".join(
    f"{moment},preempted,n{node}\n" for moment, node in zip(DATES, (1, 2, 3, 1), strict=True)
)


def loaded(folder: Path, text: str, held: int | None = 8, unit: Unit | None = None) -> Trace:
    (folder / "t.csv").write_text(text, encoding="utf-8")
    return load_trace(folder / "t.csv", held, unit)


NAMED = "instance,preempted_at\n" + "".join(
    f"n{node},{moment}\n" for moment, node in zip(DATES, (1, 2, 3, 1), strict=True)
)


@pytest.mark.parametrize("text", [COLUMN, EVENTS, NAMED])
def test_a_row_for_each_loss_is_read_with_the_nodes_that_were_held(
    text: str, tmp_path: Path
) -> None:
    trace = loaded(tmp_path, text)

    assert trace.peak == 8
    assert trace.drops == (1, 2, 1)  # two within a minute are one loss of two
    assert trace.span_s == pytest.approx(22 * 3600, abs=RETURN_S + 2)


@pytest.mark.parametrize("text", [COLUMN, COUNTED, EVENTS])
def test_without_the_nodes_that_were_held_the_option_is_named(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not say how many there were.*--trace-held N"):
        loaded(tmp_path, text, None)


def test_a_row_of_a_count_loses_so_many_at_once_and_a_row_of_none_is_time(tmp_path: Path) -> None:
    trace = loaded(tmp_path, COUNTED)
    longer = loaded(tmp_path, COUNTED + "20,0\n")

    assert trace.drops == (1, 2, 1)
    assert trace.span_s == pytest.approx(7.5 * 3600 + RETURN_S, abs=2)
    assert longer.span_s == pytest.approx(19.5 * 3600, abs=2)
    assert any("before its first row" in note for note in longer.repairs)


def test_a_zone_is_no_node(tmp_path: Path) -> None:
    text = "zone,preempted_at\na,2026-03-01 03:00:00\na,2026-03-01 03:05:00\n"

    assert loaded(tmp_path, text).drops == (1, 1)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("timestamp\n2026-03-01 03:00:00\n", "does not say of what"),
        ("preemption_time\n2026-03-41 03:00:00\n", "no such moment"),
        ("preemption\n5\n7\n", "the unit of its times is not known"),
        ("hour,preempted\n1,1.5\n2,1\n", "must be whole, got 1.5"),
        ("hour,preempted\n1,0\n2,0\n", "no node is lost in it"),
        ("time,event,node\n0,add,a\n60000,remove,b\n", "--trace-held N"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_way_out(
    text: str, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as raised:
        loaded(tmp_path, text, None)

    assert problem in str(raised.value)


def test_nodes_that_were_there_before_the_table_began_need_their_number(tmp_path: Path) -> None:
    text = "time,event,node\n2026-03-01 03:00:00,preempted,a\n2026-03-01 09:00:00,launched,a\n"

    trace = loaded(tmp_path, f"{text}2026-03-01 12:00:00,preempted,b\n")

    assert trace.drops == (1, 1)
    assert trace.returns == 1


# -- lives ---------------------------------------------------------------------------------------


def learnt(folder: Path, text: str, **options: object) -> tuple[float, tuple[str, ...]]:
    """Return the hours per node of the market that is fitted to a file, and its notes."""
    (folder / "lives.csv").write_text(text, encoding="utf-8")
    market, notes = choose_market(MarketChoice(trace=folder / "lives.csv", **options))  # type: ignore[arg-type]
    return market.mtbf_h, notes


def test_a_list_of_lives_is_a_market(tmp_path: Path) -> None:
    mtbf_h, notes = learnt(tmp_path, "instance_id,lifetime_hours\ni-1,3\ni-2,18\ni-3,9\n")

    assert mtbf_h == pytest.approx(10)
    assert any("read as after 5 min" in note for note in notes)
    assert any("which a loss ended" in note for note in notes)


@pytest.mark.parametrize(
    ("head", "scale", "unit"), [("lifetime_s", 3600, None), ("life", 60, "min")]
)
def test_the_unit_of_lives_is_that_of_their_heading_or_is_said(
    head: str, scale: int, unit: Unit | None, tmp_path: Path
) -> None:
    text = f"id,{head}\na,{3 * scale}\nb,{5 * scale}\n"

    assert learnt(tmp_path, text, trace_unit=unit)[0] == pytest.approx(4)
    with pytest.raises(UsageError, match="the unit of `life` is not known"):
        learnt(tmp_path, text.replace(head, "life"))


def test_a_life_that_goes_on_counts_as_longer(tmp_path: Path) -> None:
    text = "id,lifetime_hours,preempted\na,10,true\nb,30,false\n"

    mtbf_h, notes = learnt(tmp_path, text)

    assert mtbf_h == pytest.approx(40)
    assert any("1 life had not ended" in note for note in notes)


@pytest.mark.parametrize(
    ("head", "rows", "hours"),
    [
        ("id,lifetime_hours,censored", "a,10,false\nb,30,true\n", 40),
        ("id,lifetime_hours,still_running", "a,10,0\nb,30,1\n", 40),
        ("id,lifetime_hours,alive", "a,10,0\nb,30,1\n", 40),
        ("node,lifetime_before_preemption_hours", "a,10\nb,30\n", 20),
        ("id,lifetime_hours,preemptible", "a,10,true\nb,30,true\n", 20),
        ("id,launch_time,lifetime_hours,preempted", "a,2026-03-01 03:00:00,9,1\n", 9),
    ],
)
def test_a_column_of_truths_alone_says_which_lives_ended(
    head: str, rows: str, hours: float, tmp_path: Path
) -> None:
    assert learnt(tmp_path, f"{head}\n{rows}")[0] == pytest.approx(hours)


def test_a_count_series_with_the_hours_of_nodes_is_no_list_of_lives(tmp_path: Path) -> None:
    rows = "".join(f"{date},{n},{4 - n}\n" for n, date in enumerate(DATES[:3], 1))
    plain = "".join(f"{n},{n},{4 - n}\n" for n in range(1, 4))

    dated = loaded(tmp_path, f"timestamp,uptime_hours,nodes_up\n{rows}", None)
    timed = loaded(tmp_path, f"hour,uptime_hours,nodes_up\n{plain}", None)

    assert dated.drops == timed.drops == (1, 1)


def test_lives_with_the_times_of_their_losses_are_losses(tmp_path: Path) -> None:
    rows = "".join(f"n{n},{date},{n + 1}\n" for n, date in enumerate(DATES))

    trace = loaded(tmp_path, f"instance_id,preemption_time,lifetime_hours\n{rows}")

    assert trace.drops == (1, 2, 1)


@pytest.mark.parametrize("head", ["preemptible_nodes", "interruptible_instances"])
def test_nodes_that_may_be_lost_are_held(head: str, tmp_path: Path) -> None:
    rows = "".join(f"{date},{count}\n" for date, count in zip(DATES, (4, 3, 4, 2), strict=True))

    assert loaded(tmp_path, f"timestamp,{head}\n{rows}", None).drops == (1, 2)


@pytest.mark.parametrize("head", ["lost_nodes", "node_losses", "loss"])
def test_a_count_of_losses_is_known_by_its_word(head: str, tmp_path: Path) -> None:
    assert loaded(tmp_path, COUNTED.replace("preempted", head)).drops == (1, 2, 1)


@pytest.mark.parametrize(
    ("head", "rows"),
    [
        ("node_id,preempted_at_s", [(7, 3600), (5, 7200), (9, 90_000)]),
        ("launch_s,preempted_at_s", [(7, 3600), (5, 7200), (9, 90_000)]),
        ("launch_time,preemption_time", [(DATES[0], DATES[1]), (DATES[0], DATES[3])]),
    ],
)
def test_of_several_times_that_of_the_loss_counts(
    head: str, rows: list[tuple[object, object]], tmp_path: Path
) -> None:
    trace = loaded(tmp_path, "\n".join([head, *(f"{a},{b}" for a, b in rows)]))

    assert trace.drops == (1,) * len(rows)
    assert trace.span_s > 19 * 3600


@pytest.mark.parametrize(
    ("rows", "options", "problem"),
    [
        ("a,3,true", {"replay": True}, "Leave --replay-trace out"),
        ("a,3,true", {"trace_held": (4, 4)}, "Leave --trace-held out"),
        ("a,3,maybe", {}, "true or false, got maybe"),
        ("a,-3,true", {}, "a life is a time above 0, got -3"),
        ("a,3,false", {}, "no node is lost in it"),
    ],
)
def test_lives_that_say_nothing_are_refused(
    rows: str, options: dict[str, object], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as raised:
        learnt(tmp_path, f"id,lifetime_hours,preempted\n{rows}\n", **options)

    assert problem in str(raised.value)


def test_lives_of_a_known_law_are_found_again(tmp_path: Path) -> None:
    hours = np.random.default_rng(5).exponential(12.0, 400)
    text = "id,lifetime_hours\n" + "".join(f"{n},{hour:.9f}\n" for n, hour in enumerate(hours))
    (tmp_path / "l.csv").write_text(text, encoding="utf-8")

    market, _ = choose_market(MarketChoice(trace=tmp_path / "l.csv"))

    assert isinstance(market.lifetime, Exponential)
    assert market.mtbf_h == pytest.approx(12, rel=3 / math.sqrt(400))
    with pytest.raises(UsageError, match="does not say when nodes were lost"):
        load_trace(tmp_path / "l.csv")


# -- logs ----------------------------------------------------------------------------------------


def test_kubectls_table_is_answered_with_its_command(tmp_path: Path) -> None:
    text = "LAST SEEN   TYPE     REASON        OBJECT\n3m          Warning  NodeNotReady  node/a\n"

    with pytest.raises(UsageError, match="kubectl get events -A -o json"):
        loaded(tmp_path, text)


def test_the_events_of_a_namespace_are_named_and_no_longer_log_is_asked_for() -> None:
    pods = [
        {
            "reason": reason,
            "involvedObject": {"kind": "Pod", "name": f"p{number}"},
            "lastTimestamp": "2026-03-01T10:00:00Z",
        }
        for number, reason in enumerate(["NodeNotReady", "NodeNotReady", "TaintManagerEviction"])
    ]
    log = parse_log("a.json", json.dumps({"items": pods}))

    assert log is not None
    with pytest.raises(UsageError) as raised:
        log.convert_to_trace(4)
    text = str(raised.value)
    assert "NodeNotReady of a Pod" in text
    assert "kubectl get events -A -o json" in text
    assert "longer time" not in text


def test_the_hours_of_a_log_are_the_same_before_and_after(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        loaded(tmp_path, COLUMN, None)

    market = fit_market(loaded(tmp_path, COLUMN), notice=NO_NOTICE, price_ratio=0.3).market
    said = market.source.rsplit(" in ", maxsplit=1)[-1]
    assert f"in {said}, and does not say" in str(raised.value)


def test_a_trace_of_one_node_is_described_as_one(tmp_path: Path) -> None:
    text = "0,add,a\n3600000,remove,a\n7200000,add,a\n"
    market = fit_market(loaded(tmp_path, text, None), notice=NO_NOTICE, price_ratio=0.3).market

    words = describe_trace_nodes(market.choose_reading("pool"), 4)
    assert words is not None
    assert words.startswith("1 node in the trace")
    assert words.endswith("as often as that one")
