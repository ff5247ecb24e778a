"""Logs of platforms as traces: what was lost, and what is refused by its name."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.errors import UsageError
from chaos.extensions.preflight.event_logs import RETURN_S, parse_log
from chaos.extensions.preflight.trace_files import load_trace

T = datetime(2026, 3, 1, 10, tzinfo=UTC)


def at(minutes: float) -> str:
    return (T + timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


def spot(minutes: float, node: str) -> dict[str, Any]:
    detail = {"instance-id": node, "instance-action": "terminate"}
    kind = "EC2 Spot Instance Interruption Warning"
    return {"detail-type": kind, "source": "aws.ec2", "time": at(minutes), "detail": detail}


def state(minutes: float, node: str, word: str) -> dict[str, Any]:
    kind = "EC2 Instance State-change Notification"
    return {
        "detail-type": kind,
        "time": at(minutes),
        "detail": {"instance-id": node, "state": word},
    }


def audited(minutes: float, node: str, method: str) -> dict[str, Any]:
    told = {"methodName": method, "resourceName": f"projects/p/zones/z/instances/{node}"}
    return {"protoPayload": told, "timestamp": at(minutes)}


def operated(minutes: float, node: str, kind: str) -> dict[str, Any]:
    return {"operationType": kind, "targetLink": f"https://x/{node}", "endTime": at(minutes)}


def scheduled(minutes: float, node: str, kind: str = "Preempt") -> dict[str, Any]:
    when = (T + timedelta(minutes=minutes)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    return {"EventId": node, "EventType": kind, "Resources": [node], "NotBefore": when}


def kubernetes(minutes: float, node: str, reason: str, kind: str = "Node") -> dict[str, Any]:
    involved = {"kind": kind, "name": node}
    return {"reason": reason, "involvedObject": involved, "lastTimestamp": at(minutes)}


def of_ray(minutes: float, node: str, word: str, reason: str = "") -> dict[str, Any]:
    data = {"node_id": node, "state": word, "death_info": {"reason": reason}}
    seconds = int((T + timedelta(minutes=minutes)).timestamp())
    return {"source_type": "EXPORT_NODE", "timestamp": seconds, "event_data": data}


Make = Callable[[float, str], dict[str, Any]]
LOST: dict[str, Make] = {
    "EventBridge": spot,
    "terminated": lambda when, node: state(when, node, "terminated"),
    "audit": lambda when, node: audited(when, node, "compute.instances.preempted"),
    "operations": lambda when, node: operated(when, node, "compute.instances.preempted"),
    "Azure": scheduled,
    "not ready": lambda when, node: kubernetes(when, node, "NodeNotReady"),
    "Karpenter": lambda when, node: kubernetes(when, node, "SpotInterrupted", "NodeClaim"),
    "Ray": lambda when, node: of_ray(when, node, "DEAD", "UNEXPECTED_TERMINATION"),
}
CAME: dict[str, Make] = {
    "running": lambda when, node: state(when, node, "running"),
    "insert": lambda when, node: audited(when, node, "v1.compute.instances.insert"),
    "start": lambda when, node: operated(when, node, "start"),
    "ready": lambda when, node: kubernetes(when, node, "NodeReady"),
    "alive": lambda when, node: of_ray(when, node, "ALIVE"),
}
FORMS: dict[str, Callable[[list[dict[str, Any]]], str]] = {
    "lines": lambda records: "\n".join(map(json.dumps, records)),
    "list": json.dumps,
    "items": lambda records: json.dumps({"kind": "List", "items": records}),
    "events": lambda records: json.dumps({"DocumentIncarnation": 1, "Events": records}),
    "pretty": lambda records: json.dumps(records, indent=2),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", LOST)
def test_losses_are_read_in_each_format_and_form(tmp_path: Path, kind: str, form: str) -> None:
    file = tmp_path / "log"
    file.write_text(FORMS[form]([LOST[kind](0, "a"), LOST[kind](90, "b"), LOST[kind](90, "c")]))

    trace = load_trace(file, 8)

    assert trace.drops == (1, 2)
    assert (trace.peak, trace.kind) == (8, "held")
    assert trace.span_s == pytest.approx(90 * 60 + RETURN_S + 1)
    assert any("--trace-held" in note for note in trace.repairs)
    assert any("read as after 5 min" in note for note in trace.repairs)


@pytest.mark.parametrize("kind", CAME)
def test_a_node_that_comes_takes_the_place_of_a_lost_one(kind: str) -> None:
    records = [spot(0, "a"), CAME[kind](20, "b"), spot(60, "c"), CAME[kind](61, "d")]
    log = parse_log("log", FORMS["lines"](records))

    assert log is not None
    trace = log.convert_to_trace(4)
    assert [change.up for change in trace.changes] == [4, 3, 4, 3, 4]
    assert not any("read as after" in note for note in trace.repairs)


def test_a_warning_and_the_end_it_warns_of_are_one_loss() -> None:
    log = parse_log("log", FORMS["lines"]([spot(0, "a"), state(2, "a", "terminated")]))

    assert log is not None
    assert log.losses == 1


def test_what_is_no_loss_is_passed_over_and_named() -> None:
    rebalance = {**spot(5, "x"), "detail-type": "EC2 Instance Rebalance Recommendation"}
    on_purpose = of_ray(6, "y", "DEAD", "EXPECTED_TERMINATION")
    records = [spot(0, "a"), rebalance, on_purpose, {"something": "else"}]
    log = parse_log("log", FORMS["lines"](records))

    assert log is not None
    assert log.losses == 1
    assert log.ignored == {
        "EC2 Instance Rebalance Recommendation": 1,
        "EXPORT_NODE": 1,
        "of other kinds": 1,
    }


def test_the_number_of_nodes_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text(FORMS["lines"]([spot(0, "a"), spot(60, "b")]))

    # With the five minutes after which the last one is back, as in the answer.
    with pytest.raises(UsageError, match=r"2 losses of 2 nodes in 1\.1 h.*--trace-held N"):
        load_trace(file)
    file.write_text(FORMS["lines"]([spot(0, "a"), spot(0, "b")]))
    with pytest.raises(UsageError, match=r"more than 1 node are lost.*--trace-held"):
        load_trace(file, 1)


def test_a_log_without_a_loss_says_what_it_has(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text(FORMS["lines"]([state(0, "a", "running")]))

    with pytest.raises(UsageError, match=r"no node is lost in this log of EventBridge's events"):
        load_trace(file, 4)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({**spot(0, "b"), "time": "soon"}, "a record of EventBridge's events"),
        ({**spot(0, "b"), "detail": {}}, "KeyError: 'instance-id'"),
        ({**scheduled(0, "b"), "NotBefore": ""}, "a record of Azure's scheduled events"),
        ({**kubernetes(0, "b", "NodeNotReady"), "lastTimestamp": None}, "KeyError: 'metadata'"),
    ],
)
def test_a_record_that_cannot_be_read_is_refused_with_its_line(
    tmp_path: Path, record: dict[str, Any], said: str
) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text(FORMS["lines"]([spot(0, "a"), record]))

    with pytest.raises(UsageError) as raised:
        load_trace(file, 4)

    assert raised.value.location == f"{file}:2"
    assert said in str(raised.value)


def test_a_torn_line_is_refused_with_its_number(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text(f'{json.dumps(spot(0, "a"))}\n{{"detail-type": "EC2 Spo')

    with pytest.raises(UsageError, match=r"this line is not JSON") as raised:
        load_trace(file, 4)

    assert raised.value.location == f"{file}:2"


SACCT = """\
JobID|JobName|State|Start|End|NNodes|
7|train|PREEMPTED|2026-05-01T00:00:00|2026-05-01T03:00:00|4|
7.batch|batch|CANCELLED|2026-05-01T00:00:00|2026-05-01T03:00:00|1|
7|train|NODE_FAIL|2026-05-01T03:10:00|2026-05-01T09:00:00|4|
7|train|RUNNING|2026-05-01T09:20:00|Unknown|4|
"""


def test_a_job_of_slurm_loses_all_its_nodes_and_says_how_many(tmp_path: Path) -> None:
    file = tmp_path / "sacct.txt"
    file.write_text(SACCT)

    trace = load_trace(file)

    assert [change.up for change in trace.changes] == [4, 0, 4, 0, 4]
    assert trace.drops == (4, 4)
    assert trace.format == "sacct"
    file.write_text(SACCT.replace("2026-05-01T09:00:00", "soon"))
    with pytest.raises(UsageError, match="a row of sacct that cannot be read") as raised:
        load_trace(file)
    assert raised.value.location == f"{file}:4"


@pytest.mark.parametrize(
    "text", ['[0, "add", {"nodes": ["a"]}]\n[5, "rem', '{"metadata": {}, "data": []}', "0,add,a\n"]
)
def test_what_is_no_log_is_left_to_the_other_formats(text: str) -> None:
    assert parse_log("log", text) is None


def test_a_trace_that_has_its_nodes_is_not_told_how_many(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("0,add,a\n600000,remove,a\n")

    with pytest.raises(UsageError, match="Leave --trace-held out"):
        load_trace(file, 4)


@given(
    st.lists(st.tuples(st.floats(0, 1e4), st.sampled_from("abcdef"), st.booleans()), max_size=20)
)
def test_any_log_is_read_or_refused(rows: list[tuple[float, str, bool]]) -> None:
    records = [
        spot(when, node) if lost else state(when, node, "running") for when, node, lost in rows
    ]
    log = parse_log("log", FORMS["lines"](records))
    if log is None:
        assert not records
        return
    try:
        trace = log.convert_to_trace(6)
    except UsageError:
        assert not log.losses or log.losses > 6
        return
    assert 0 < sum(trace.drops) <= log.losses
    assert all(0 <= change.up <= 6 for change in trace.changes)
