"""Random plans: the same from the same seed, and within the job and its budget."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from chaos.model.expect import Expect
from chaos.model.fault_entry import FaultEntry
from chaos.model.launcher import Launcher
from chaos.model.plan import Plan
from chaos.model.scenario import ClusterShape, FailureBudget, Job, Scenario
from chaos.model.trigger import AtStep
from chaos.plan.draw import DRAWN, FAULTS_MAX, draw_plan
from chaos.plan.make import make_plan

seeds = st.integers(0, 2**32)
courses = st.lists(st.integers(0, 9), min_size=1, max_size=6)


def plan_for(workers: int = 2, launcher: Launcher = "ray") -> Plan:
    job = Job(
        launcher=launcher,
        script="j.py",
        workers=workers,
        failure=FailureBudget(max_failures=0),
    )
    scenario = Scenario(
        scenario="x", job=job, expect=Expect(outcome="error", ignore_metrics=("s",))
    )
    return make_plan(scenario, file=Path("x.chaos.yaml"), seed=0, cwd=Path("/cwd"))


@given(seed=seeds, steps=courses, workers=st.integers(1, 4))
def test_every_place_is_one_that_the_job_comes_to(
    seed: int, steps: list[int], workers: int
) -> None:
    plan = draw_plan(plan_for(workers), seed=seed, steps=steps)

    assert 1 <= len(plan.ops) <= FAULTS_MAX
    for op in plan.ops:
        assert op.at.rank is not None
        assert op.at.rank < workers
        assert op.at.epoch < len(steps)
        if isinstance(op.at, AtStep):
            assert op.at.step <= steps[op.at.epoch]


@given(seed=seeds, steps=courses.filter(any), workers=st.integers(1, 4))
def test_a_job_that_torchrun_starts_gets_faults_of_workers_at_its_own_steps(
    seed: int, steps: list[int], workers: int
) -> None:
    plan = plan_for(workers, "torchrun")
    drawn = draw_plan(plan, seed=seed, steps=steps)
    faults = tuple(FaultEntry.model_validate({"at": op.at, op.kind: op.fault}) for op in drawn.ops)

    scenario = Scenario(scenario="x", job=drawn.job, faults=faults)  # as none needs Ray
    assert len(scenario.faults) == len(drawn.ops)
    assert drawn.shape == plan.shape
    assert all(op.fault.family == "worker" for op in drawn.ops)
    for op in drawn.ops:
        assert isinstance(op.at, AtStep)
        assert 1 <= op.at.step <= steps[op.at.epoch]


def test_faults_of_all_kinds_that_suit_it_are_drawn_for_torchrun() -> None:
    plans = [draw_plan(plan_for(2, "torchrun"), seed=s, steps=[3, 3]) for s in range(60)]

    kinds = {op.kind for plan in plans for op in plan.ops}
    assert {"kill_worker", "raise_in_worker", "slow_worker"} <= kinds


@given(seed=seeds, steps=courses.filter(lambda steps: sum(steps) > 1))
def test_torchruns_lost_nodes_come_back_and_its_host_is_never_lost(
    seed: int, steps: list[int]
) -> None:
    plan = plan_for(4, "torchrun")
    plan = plan.model_copy(update={"shape": plan.shape.model_copy(update={"nodes": 2})})
    drawn = draw_plan(plan, seed=seed, steps=steps)
    faults = tuple(FaultEntry.model_validate({"at": op.at, op.kind: op.fault}) for op in drawn.ops)

    scenario = Scenario(scenario="x", job=drawn.job, cluster=ClusterShape(nodes=2), faults=faults)
    assert len(scenario.faults) == len(drawn.ops)
    taken = [op for op in drawn.ops if op.kind in {"kill_node", "preempt_node"}]
    assert len(taken) == sum(op.kind == "return_capacity" for op in drawn.ops)
    assert all(op.at.rank in {2, 3} for op in taken)


def test_nodes_are_lost_at_random_where_there_are_several() -> None:
    plan = plan_for(2, "torchrun")
    plan = plan.model_copy(update={"shape": plan.shape.model_copy(update={"nodes": 2})})
    drawn = [draw_plan(plan, seed=seed, steps=[3, 3]) for seed in range(60)]

    kinds = {op.kind for one in drawn for op in one.ops}
    assert {"kill_node", "preempt_node", "freeze_node", "kill_worker"} <= kinds


@given(seed=seeds, steps=courses)
def test_the_same_seed_draws_the_same_faults(seed: int, steps: list[int]) -> None:
    assert draw_plan(plan_for(), seed=seed, steps=steps) == draw_plan(
        plan_for(), seed=seed, steps=steps
    )


@given(seed=seeds, steps=courses)
def test_every_fault_is_paid_for_and_has_a_spare_node(seed: int, steps: list[int]) -> None:
    plan = draw_plan(plan_for(), seed=seed, steps=steps)

    assert plan.job.failure is not None
    assert len(plan.ops) <= plan.job.failure.max_failures
    assert sum(op.fault.lost_node_count for op in plan.ops) <= plan.shape.nodes - plan.job.workers


@given(first=seeds, second=seeds)
def test_all_seeds_share_a_cluster_and_a_baseline(first: int, second: int) -> None:
    one, other = (draw_plan(plan_for(), seed=s, steps=[3, 3]) for s in (first, second))

    assert (one.shape, one.job) == (other.shape, other.job)


def test_nothing_special_is_expected_but_what_the_job_itself_needs() -> None:
    plan = draw_plan(plan_for(), seed=1, steps=[3, 3])

    assert plan.expect == Expect(ignore_metrics=("s",))


def test_many_seeds_draw_every_kind_of_fault() -> None:
    drawn = (draw_plan(plan_for(), seed=s, steps=[3] * 4) for s in range(120))

    kinds = {op.kind for plan in drawn for op in plan.ops}
    assert kinds == {kind for kind, _ in DRAWN}
