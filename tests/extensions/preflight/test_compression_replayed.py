"""A trace becomes faults at places: losses, waits and returns of the nodes that a job holds."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.audit.job_profile import measure_job
from chaos.errors import UsageError
from chaos.extensions.preflight.calibration import draw_fault_triggers
from chaos.extensions.preflight.compression import (
    FollowedNodes,
    JobPace,
    PoolChange,
    TraceWalk,
    follow_nodes,
)
from chaos.extensions.preflight.compression import find_walk as part_with_a_loss
from chaos.extensions.preflight.trace import Trace, build_trace
from chaos.faults.kill_node import KillNode
from chaos.faults.return_capacity import ReturnCapacity
from chaos.model.expect import Expect
from chaos.model.places import EpochRank
from chaos.model.plan import Op, Plan, Shape
from chaos.model.scenario import Job, Limits
from chaos.model.trigger import AtStep
from chaos.scenario_file.load import load_scenario
from chaos.scenario_file.text import render_scenario
from tests.check.story import Story

PACE = JobPace(workers=2, min_workers=None, steps=(10,) * 6, saved=frozenset(range(6)), step_s=1.0)


def walked(
    *changes: tuple[float, int, int], up: int = 3, pace: JobPace = PACE, seed: int = 0
) -> TraceWalk:
    """Walk a job of sixty steps of a second through (second, lost, back)."""
    walk = TraceWalk(pace, seed)
    walk.walk(FollowedNodes(0.0, up, tuple(PoolChange(*change) for change in changes)), scale=1)
    return walk


def said(walk: TraceWalk) -> list[str]:
    return [
        f"{epoch}.{step} {op.kind}"
        for (epoch, step), op in zip(places(walk), walk.ops, strict=True)
    ]


def places(walk: TraceWalk) -> list[tuple[int, int]]:
    steps = [op.at for op in walk.ops if isinstance(op.at, AtStep)]
    return [(at.epoch, at.step) for at in steps]


def test_a_lost_worker_is_struck_where_training_is_and_a_lost_spare_is_withheld() -> None:
    kinds = {tuple(said(walked((25, 1, 0), up=3, seed=seed))) for seed in range(20)}

    assert kinds == {("2.5 kill_node",), ("2.5 withhold_capacity",)}


def test_after_a_loss_training_goes_on_from_the_last_commit() -> None:
    alone = JobPace(workers=1, min_workers=None, steps=(10,) * 6, saved=PACE.saved, step_s=1.0)
    walks = (walked((25, 1, 0), (33, 0, 1), up=2, pace=alone, seed=seed) for seed in range(20))

    # Eight seconds after a strike it is eight steps into the epoch that was begun again.
    assert {tuple(said(walk)) for walk in walks} == {
        ("2.5 kill_node", "2.8 return_capacity"),
        ("2.5 withhold_capacity", "3.3 return_capacity"),
    }


def test_a_job_without_a_spare_waits_until_the_trace_has_nodes_again() -> None:
    (back, loss) = walked((25, 1, 0), (29, 0, 1), up=2).ops

    assert (back.kind, loss.kind) == ("return_capacity", "kill_node")
    assert isinstance(back.fault, ReturnCapacity)
    assert (back.fault.nodes, back.fault.after_s) == (1, 4.0)


def test_nodes_that_go_while_it_waits_are_taken_off_those_that_come() -> None:
    walk = walked((25, 2, 0), (26, 0, 1), (27, 1, 0), (28, 0, 3), up=2)

    returned = [op.fault for op in walk.ops if isinstance(op.fault, ReturnCapacity)]
    assert [(one.nodes, one.after_s) for one in returned] == [(1, 1.0), (2, 3.0)]
    assert walk.ops[-1].fault == KillNode(ranks=(0, 1))


def test_a_place_that_an_earlier_attempt_would_meet_is_moved_behind_it() -> None:
    walk = walked((28, 1, 1), (31, 1, 1), up=2)

    # Three seconds after the first loss it would be at 2.3, where the first attempt was as well.
    assert said(walk) == [
        "2.8 return_capacity",
        "2.9 kill_node",
        "2.10 return_capacity",
        "3.1 kill_node",
    ]
    assert walk.moved > 0


def test_an_elastic_job_goes_on_with_fewer() -> None:
    elastic = JobPace(2, 1, (10,) * 6, frozenset(range(6)), 1.0)

    assert [op.kind for op in walked((25, 1, 0), up=2, pace=elastic).ops] == ["kill_node"]


def test_a_scale_that_does_not_fit_is_refused() -> None:
    many = tuple((1.0 + n / 10, 1, 1) for n in range(100))
    with pytest.raises(UsageError, match="more than 40 faults"):
        walked(*many, pace=JobPace(2, None, (1000,), frozenset({0}), 1.0))
    with pytest.raises(UsageError, match="wait 9000 s"):
        walked((25, 1, 0), (9025, 0, 1), up=2)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    steps = draw(
        st.lists(st.tuples(st.integers(1, 30), st.integers(0, 8)), min_size=3, max_size=12)
    )
    at_s, counts = 0.0, [(0.0, 8)]
    for apart, up in steps:
        at_s += apart
        counts.append((at_s, up))
    return build_trace("drawn", counts, format_="test", kind="held", span_s=at_s + 1)


@given(traces(), st.integers(0, 5), st.sampled_from([None, 1]))
def test_what_comes_of_any_trace_can_be_run(
    tmp_path_factory: pytest.TempPathFactory, trace: Trace, seed: int, least: int | None
) -> None:
    pace = JobPace(2, least, (10,) * 6, frozenset(range(6)), 0.5)
    start = follow_nodes(trace, pool=3, min_nodes=2, seed=seed)
    walk = TraceWalk(pace, seed)
    walk.walk(start, scale=1)

    assert places(walk) == sorted(set(places(walk)))
    assert all(1 <= step <= 10 for _, step in places(walk))
    folder = tmp_path_factory.mktemp("replayed")
    (folder / "job.py").write_text("", encoding="utf-8")
    path = folder / "a.chaos.yaml"
    plan = plan_of(folder, walk.ops, nodes=start.up, least=least)
    text = render_scenario(plan, folder=folder, comment=["a trace"], expect={})
    path.write_text(text, encoding="utf-8")
    loaded = load_scenario(path)
    assert [entry.fault for entry in loaded.faults] == [op.fault for op in walk.ops]


def plan_of(folder: Path, ops: list[Op], *, nodes: int, least: int | None) -> Plan:
    return Plan(
        scenario="a trace",
        slug="a",
        file=str(folder / "job.py"),
        seed=0,
        cwd=str(folder),
        job=Job(script=str(folder / "job.py"), workers=2, min_workers=least),
        shape=Shape(nodes=nodes, cpus_per_node=1),
        ops=tuple(ops),
        expect=Expect(),
        limits=Limits(),
    )


def test_nodes_of_a_trace_are_lost_together_where_the_trace_lost_them_together() -> None:
    trace = build_trace(
        "zone", [(0, 32), (60, 0), (120, 32)], format_="test", kind="held", span_s=180
    )

    start = follow_nodes(trace, pool=3, min_nodes=2, seed=1)

    assert [(change.lost, change.returned) for change in start.changes] == [(3, 0), (0, 3)]


def test_the_same_seed_follows_the_same_nodes() -> None:
    counts = [(float(n), 8 - n % 5) for n in range(40)]
    trace = build_trace("t", counts, format_="test", kind="held")

    first, again, other = (follow_nodes(trace, pool=4, min_nodes=2, seed=s) for s in (1, 1, 2))

    assert first == again != other


def test_a_trace_of_too_few_nodes_is_refused() -> None:
    trace = build_trace("t", [(0, 2), (1, 1)], format_="test", kind="held")

    with pytest.raises(UsageError, match="2 nodes at most, and 3"):
        follow_nodes(trace, pool=3, min_nodes=2, seed=0)
    short = build_trace("t", [(0, 1), (1, 0), (2, 1)], format_="t", kind="held")
    with pytest.raises(UsageError, match="never 2 are up"):
        follow_nodes(short, pool=1, min_nodes=2, seed=0)


def test_calibration_strikes_behind_the_first_commit() -> None:
    job = measure_job(Story(()).history())

    places = list(draw_fault_triggers(job, count=8, seed=1))

    assert all(at.epoch > 0 for at in places)
    assert len(set(map(str, places))) > 2
    assert places == list(draw_fault_triggers(job, count=8, seed=1))


def test_a_job_that_reports_once_cannot_be_calibrated() -> None:
    job = replace(measure_job(Story(()).history()), steps={EpochRank(0, 0): 5, EpochRank(0, 1): 5})

    with pytest.raises(UsageError, match="reports only once"):
        list(draw_fault_triggers(job, count=1, seed=0))


def test_a_part_of_the_trace_is_taken_in_which_the_job_loses_a_worker() -> None:
    # Of nine nodes three are lost: most draws of three follow one that is, many do not.
    counts = [(0.0, 9), (20.0, 8), (35.0, 7), (50.0, 6)]
    trace = build_trace("t", counts, format_="t", kind="held", span_s=60.0)
    drawn = [follow_nodes(trace, pool=3, min_nodes=2, seed=seed) for seed in range(20)]

    def part(seed: int) -> tuple[FollowedNodes, TraceWalk]:
        return part_with_a_loss(trace, PACE, pool=3, seed=seed, read="pool", scale=1.0)

    found = [part(seed) for seed in range(20)]

    assert not all(start.changes for start in drawn)
    assert all(walk.losses for _, walk in found)
    assert found[3] == part(3)


def test_a_trace_in_which_no_part_takes_a_worker_is_refused() -> None:
    trace = build_trace("t", [(0, 9), (50, 10), (90, 9)], format_="t", kind="held")

    with pytest.raises(UsageError, match="in 16 parts of the trace, at this pace, no loss takes"):
        part_with_a_loss(trace, PACE, pool=3, seed=0, read="pool", scale=1.0)
