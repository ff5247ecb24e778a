"""A plan is made smaller until no neighbour of it fails, in few runs."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from chaos.audit.site_groups import build_sort_key
from chaos.extensions.lab.search.plans import JobFaultSites, build_plan_strategy
from chaos.extensions.lab.search.shrink import Ops, shrink_plan
from chaos.faults.kill_worker import KillWorker
from chaos.model.places import EpochRank
from chaos.model.plan import Op
from chaos.model.trigger import AtMoment, AtRecovery, AtStep
from tests.accepted import expect_text

POINTS = [EpochRank(epoch, 0) for epoch in range(6)]
PLACES = JobFaultSites(
    dict.fromkeys(POINTS, 8), dict.fromkeys(("upload_begin", "reported", "committed"), POINTS)
)
Wrong = Callable[[Ops], bool]


def ends_attempts(ops: Ops) -> list[Op]:
    return [op for op in ops if op.fault.ends_attempt == "always" and not op.fault.is_announced]


# What a defect may need: some faults, a late one, one at a moment, a restart that is hit as well.
DEFECTS: dict[str, Wrong] = {
    "two": lambda ops: len(ends_attempts(ops)) > 1,
    "three": lambda ops: len(ends_attempts(ops)) > 2,
    "late": lambda ops: any(op.at.epoch >= 3 for op in ends_attempts(ops)),
    "at a report": lambda ops: any(isinstance(op.at, AtMoment) for op in ops),
    "twice": lambda ops: any(isinstance(op.at, AtRecovery) for op in ops),
    "two epochs": lambda ops: len({op.at.epoch for op in ends_attempts(ops)}) > 1,
}


def is_in_order(ops: Ops) -> bool:
    first = [op for op in ops if not isinstance(op.at, AtRecovery)]
    causes = [op.at.recovering_from < op.index for op in ops if isinstance(op.at, AtRecovery)]
    numbered = [op.index for op in ops] == list(range(len(ops)))
    return first == sorted(first, key=build_sort_key) and all(causes) and numbered


@given(build_plan_strategy(PLACES), st.sampled_from([*DEFECTS]))
def test_what_is_left_fails_and_nothing_of_it_can_be_left_out(ops: Ops, name: str) -> None:
    tried: list[Ops] = []

    def fails(plan: Ops) -> bool:
        assert is_in_order(plan)
        tried.append(plan)
        return DEFECTS[name](plan)

    if not DEFECTS[name](ops):
        return
    small = shrink_plan(ops, fails, PLACES)

    assert DEFECTS[name](small)
    assert len(small) <= {"two": 2, "three": 3, "two epochs": 2, "twice": 2}.get(name, 1)
    assert len(set(tried)) <= 70


def test_faults_become_kills_at_the_first_place_that_fails() -> None:
    late = Op(index=0, at=AtStep(epoch=4, step=7, rank=0), kill_worker=KillWorker(signal="TERM"))
    at_report = Op(
        index=1, at=AtMoment(epoch=5, moment="reported", rank=0), kill_worker=KillWorker()
    )

    small = shrink_plan((late, at_report), lambda ops: ops[-1].at.epoch >= 2, PLACES)

    assert small == (Op(index=0, at=AtStep(epoch=2, step=1, rank=0), kill_worker=KillWorker()),)


def test_what_must_be_at_a_moment_comes_to_the_earliest_one() -> None:
    op = Op(index=0, at=AtMoment(epoch=5, moment="reported", rank=0), kill_worker=KillWorker())

    (small,) = shrink_plan((op,), lambda ops: isinstance(ops[0].at, AtMoment), PLACES)

    assert small.at == AtMoment(epoch=0, moment="reported", rank=0)


def test_where_no_worker_may_be_killed_the_kind_stays() -> None:
    op = Op(index=0, at=AtStep(epoch=4, step=7, rank=0), kill_worker=KillWorker(signal="TERM"))

    (small,) = shrink_plan((op,), lambda _: True, PLACES, ["raise_in_worker"])

    expect_text(str(small))


def test_a_fault_that_becomes_plainer_leaves_the_others_as_they_are() -> None:
    """The first step of an epoch lies before its third: the plan's order changes meanwhile."""
    step = Op(index=0, at=AtStep(epoch=1, step=3, rank=0), kill_worker=KillWorker())
    moment = Op(
        index=1,
        at=AtMoment(epoch=1, moment="committed", rank=0),
        kill_worker=KillWorker(signal="TERM"),
    )
    at = AtRecovery(recovering_from=1, stage="loading", rank=0)
    plan = (step, moment, Op(index=2, at=at, kill_worker=KillWorker()))

    small = shrink_plan(plan, lambda ops: len(ops) == len(plan), PLACES)

    assert small[0].at == small[2].at == AtStep(epoch=0, step=1, rank=0)
    assert str(small[1].at).startswith("the recovery from op 0")
