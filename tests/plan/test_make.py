from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.faults.evict_node import EvictNode
from chaos.faults.kill_node import KillNode
from chaos.faults.kill_worker import KillWorker
from chaos.faults.preempt_node import PreemptNode
from chaos.model.fault_entry import FAULTS, FaultEntry
from chaos.model.plan import Plan
from chaos.model.scenario import ClusterShape, Job, Scenario
from chaos.model.trigger import AtMoment, AtStep
from chaos.plan.make import build_slug, make_plan

CWD = Path("/home/me/project")
seeds = st.integers(0, 2**64)
triggers = st.builds(
    AtStep, epoch=st.integers(0, 3), step=st.just(1), rank=st.none() | st.just(0)
) | st.builds(AtMoment, epoch=st.integers(0, 3), moment=st.just("reported"))
entries = st.builds(FaultEntry, at=triggers, kill_worker=st.builds(KillWorker)) | st.builds(
    FaultEntry, at=triggers, kill_node=st.builds(KillNode, rank=st.none() | st.just(1))
)
faults = st.lists(entries, max_size=5).map(tuple)


def planned(
    *entries: FaultEntry, seed: int = 0, workers: int = 4, file: str = "scenarios/x.chaos.yaml"
) -> Plan:
    job = Job(script="jobs/train.py", workers=workers, inputs=("../data.csv",))
    scenario = Scenario(scenario="x", job=job, faults=entries)
    return make_plan(scenario, file=Path(file), seed=seed, cwd=CWD)


def anywhere() -> FaultEntry:
    return FaultEntry(at=AtStep(epoch=1, step=1), kill_worker=KillWorker())


def test_nodes_drain_for_as_long_as_the_fault_that_needs_them() -> None:
    entry = FaultEntry(at=AtStep(epoch=1, step=1), evict_node=EvictNode(grace_s=3, drain_s=0))

    assert planned(anywhere(), entry).shape.drain_s == 0
    assert planned(anywhere()).shape.drain_s is None


def test_paths_are_resolved_beside_the_scenario_file() -> None:
    plan = planned()

    assert plan.file == "/home/me/project/scenarios/x.chaos.yaml"
    assert plan.job.script == "/home/me/project/scenarios/jobs/train.py"
    assert plan.job.inputs == ("/home/me/project/data.csv",)
    assert plan.cwd == "/home/me/project"


def test_an_absolute_scenario_file_needs_no_working_directory() -> None:
    assert planned(file="/srv/y.chaos.yaml").job.script == "/srv/jobs/train.py"


def test_a_train_loop_stays_as_it_is() -> None:
    scenario = Scenario(scenario="x", job=Job(train_loop="a.b:c", workers=1))

    plan = make_plan(scenario, file=Path("x.chaos.yaml"), seed=0, cwd=CWD)

    assert (plan.job.script, plan.job.train_loop) == (None, "a.b:c")


def test_one_node_is_spare_unless_the_scenario_says_how_many_there_are() -> None:
    job = Job(train_loop="a:b", workers=3)
    given_shape = Scenario(scenario="x", job=job, cluster=ClusterShape(nodes=2, cpus_per_node=2))

    plan = make_plan(given_shape, file=Path("x.chaos.yaml"), seed=0, cwd=CWD)

    assert (plan.shape.nodes, plan.shape.cpus_per_node) == (2, 2)
    assert (planned(workers=3).shape.nodes, planned().shape.cpus_per_node) == (4, 1)


def lost(*kinds: str) -> tuple[FaultEntry, ...]:
    faults: dict[str, dict[str, object]] = {
        "worker": {"kill_worker": KillWorker()},
        "node": {"kill_node": KillNode()},
        "spot": {"preempt_node": PreemptNode(notice_s=1)},
    }
    return tuple(
        FaultEntry.model_validate({"at": AtStep(epoch=1, step=1), **faults[kind]}) for kind in kinds
    )


@pytest.mark.parametrize(
    ("workers", "cpus", "kinds", "nodes"),
    [
        (3, 1, ("worker", "worker"), 4),
        (3, 1, ("node",), 4),
        (3, 1, ("node", "worker", "spot"), 5),
        (2, 1, ("spot", "spot", "node"), 5),
        (4, 2, (), 3),
        (5, 2, ("node", "node"), 5),
    ],
)
def test_there_is_a_spare_for_every_node_that_is_lost(
    workers: int, cpus: int, kinds: tuple[str, ...], nodes: int
) -> None:
    scenario = Scenario(
        scenario="x",
        job=Job(train_loop="a:b", workers=workers),
        cluster=ClusterShape(cpus_per_node=cpus),
        faults=lost(*kinds),
    )

    assert make_plan(scenario, file=Path("x"), seed=0, cwd=CWD).shape.nodes == nodes


def test_every_fault_that_takes_a_node_is_known_as_one() -> None:
    in_family = {name for name, fault in FAULTS.items() if fault.family == "node"}
    assert {name for name in FAULTS if name.endswith("_node")} == in_family


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("kill_mid_epoch.chaos.yaml", "kill_mid_epoch"),
        ("kill mid/epoch.chaos.yaml", "epoch"),
        ("Kill, twice!.chaos.yaml", "Kill_twice"),
        ("x.yaml", "x"),
        ("x.yml", "x"),
        ("..chaos.yaml", "scenario"),
        (f"{'a' * 99}.chaos.yaml", "a" * 80),
    ],
)
def test_the_slug_is_the_files_name(name: str, folder: str) -> None:
    assert build_slug(Path(name)) == folder


@given(st.text(st.characters(exclude_characters="/\0"), min_size=1))
def test_a_slug_is_always_the_name_of_one_visible_folder(name: str) -> None:
    folder = build_slug(Path(f"{name}.chaos.yaml"))

    assert folder.isascii()
    assert len(Path(folder).parts) == 1
    assert not folder.startswith((".", "-"))


@given(faults, seeds)
def test_the_same_seed_makes_the_same_plan(entries: tuple[FaultEntry, ...], seed: int) -> None:
    assert planned(*entries, seed=seed) == planned(*entries, seed=seed)


@given(faults, seeds)
def test_every_rank_is_drawn_among_the_jobs_and_given_ranks_are_kept(
    entries: tuple[FaultEntry, ...], seed: int
) -> None:
    ops = planned(*entries, seed=seed, workers=3).ops

    assert [op.index for op in ops] == list(range(len(entries)))
    assert [op.fault for op in ops] == [entry.fault for entry in entries]
    assert all(op.at.rank in range(3) for op in ops)
    assert all(e.at.rank in {None, op.at.rank} for e, op in zip(entries, ops, strict=True))


@given(faults, entries, seeds)
def test_an_op_added_at_the_end_moves_no_other(
    entries: tuple[FaultEntry, ...], last: FaultEntry, seed: int
) -> None:
    assert planned(*entries, last, seed=seed).ops[:-1] == planned(*entries, seed=seed).ops


def test_an_op_that_is_given_its_rank_moves_no_other() -> None:
    fixed = FaultEntry(at=AtStep(epoch=1, step=1, rank=0), kill_worker=KillWorker())

    for seed in range(20):
        free, bound = (
            planned(anywhere(), anywhere(), seed=seed),
            planned(fixed, anywhere(), seed=seed),
        )
        assert free.ops[1] == bound.ops[1]


def test_another_seed_can_strike_another_rank() -> None:
    assert {planned(anywhere(), seed=seed).ops[0].at.rank for seed in range(40)} == {0, 1, 2, 3}


def test_the_draws_of_a_seed_never_change() -> None:
    drawn = [op.at.rank for op in planned(*[anywhere()] * 8, seed=7).ops]

    assert drawn == [1, 0, 2, 0, 2, 1, 0, 2]
