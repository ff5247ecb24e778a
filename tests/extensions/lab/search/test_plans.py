"""Drawn plans keep to the places that a job has, and shrink to the plainest."""

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

import chaos
from chaos.errors import UsageError
from chaos.extensions.lab.search import FAULTS_MAX
from chaos.extensions.lab.search.plans import JobFaultSites, build_plan_strategy
from chaos.model.fault_entry import FAULTS, FaultEntry
from chaos.model.places import EpochRank
from chaos.model.plan import Op
from chaos.model.trigger import AtMoment, AtRecovery, AtStep

UPLOADS = [EpochRank(epoch, 0) for epoch in range(3)]
EVERY = [EpochRank(epoch, rank) for epoch in range(3) for rank in range(2)]
RAYS = JobFaultSites(
    dict.fromkeys(EVERY, 4),
    {
        "upload_begin": UPLOADS,
        "upload_end": UPLOADS,
        "reported": EVERY,
        "saving": [EpochRank(1, 1)],
    },
)
TORCHRUNS = JobFaultSites(dict.fromkeys(EVERY, 4), {"saving": UPLOADS}, "torchrun")
QUICK = settings(max_examples=200, phases=(Phase.generate, Phase.shrink), database=None)


def is_there(op: Op, places: JobFaultSites) -> bool:
    match op.at:
        case AtStep(epoch=epoch, step=step, rank=int(rank)):
            return step <= places.steps.get(EpochRank(epoch, rank), 0)
        case AtMoment(epoch=epoch, moment=moment, rank=rank):
            return (epoch, rank) in places.moments[moment]
        case AtRecovery(rank=rank):
            return rank in places.ranks
        case _:
            return False


@given(places=st.sampled_from([RAYS, TORCHRUNS]), data=st.data())
def test_every_fault_is_at_a_place_that_the_job_has(
    places: JobFaultSites, data: st.DataObject
) -> None:
    ops = data.draw(build_plan_strategy(places))

    assert 1 <= len(ops) <= FAULTS_MAX
    assert [op.index for op in ops] == list(range(len(ops)))
    assert all(is_there(op, places) for op in ops)


@given(build_plan_strategy(RAYS))
def test_a_fault_in_a_recovery_follows_one_that_ends_its_attempt(ops: tuple[Op, ...]) -> None:
    for op in ops:
        if isinstance(op.at, AtRecovery):
            cause = ops[op.at.recovering_from]
            assert cause.index < op.index
            assert cause.fault.ends_attempt == "always"


@given(build_plan_strategy(TORCHRUNS))
def test_only_faults_of_torchruns_are_drawn_for_its_jobs(ops: tuple[Op, ...]) -> None:
    assert all(op.fault.needs is None for op in ops)


@given(build_plan_strategy(RAYS, max_faults=2, kinds=["kill_node"]))
def test_anomaly_and_the_number_of_faults_can_be_chosen(ops: tuple[Op, ...]) -> None:
    chosen = [op for op in ops if not isinstance(op.at, AtRecovery)]

    assert 1 <= len(chosen) <= 2
    assert {op.kind for op in chosen} == {"kill_node"}


@pytest.mark.parametrize("kind", ["kill_gcs", "kill_wroker"])
def test_a_kind_that_is_never_drawn_is_refused_by_name(kind: str) -> None:
    with pytest.raises(UsageError, match=f"{kind} is not drawn"):
        build_plan_strategy(RAYS, kinds=[kind])


def test_a_plan_shrinks_to_one_killed_worker_at_the_first_step() -> None:
    (op,) = find(build_plan_strategy(RAYS), bool, settings=QUICK)

    assert (op.kind, op.at) == ("kill_worker", AtStep(epoch=0, step=1, rank=0))


def test_what_needs_two_restarts_shrinks_to_two_killed_workers() -> None:
    def in_two_epochs(ops: tuple[Op, ...]) -> bool:
        return len({op.at.epoch for op in ops if not isinstance(op.at, AtRecovery)}) > 1

    ops = find(build_plan_strategy(RAYS), in_two_epochs, settings=QUICK)

    assert [op.kind for op in ops] == ["kill_worker"] * 2
    assert [op.at for op in ops] == [AtStep(epoch=n, step=1, rank=0) for n in range(2)]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(faults=chaos.plans(epochs=2, steps=3, workers=2))
def test_a_test_draws_entries_as_a_scenario_has_them(faults: list[FaultEntry]) -> None:
    assert faults
    assert all(entry.kind in FAULTS for entry in faults)
