"""An op begins once, at its place, when what a restart must find is committed."""

from hypothesis import given
from hypothesis import strategies as st

from chaos.faults.kill_worker import KillWorker
from chaos.faults.poison_step import PoisonStep
from chaos.faults.raise_in_worker import RaiseInWorker
from chaos.model.event import AnyEvent, Committed, FaultEnded, FaultInvoked, GateReached
from chaos.model.plan import Op, Plan, Shape
from chaos.model.scenario import Expect, Job, Limits
from chaos.model.trigger import MOMENTS, AtMoment, AtRecovery, AtStep
from chaos.plan.due import commits_before, due_ops, is_recovering, is_spent


def plan_of(*places: AtStep | AtMoment) -> Plan:
    ops = tuple(Op(index=i, at=at, kill_worker=KillWorker()) for i, at in enumerate(places))
    return Plan(
        scenario="s",
        slug="s",
        file="/s.chaos.yaml",
        seed=0,
        cwd="/",
        job=Job(script="/job.py", workers=2),
        shape=Shape(nodes=3, cpus_per_node=1),
        ops=ops,
        expect=Expect(),
        limits=Limits(),
    )


def reached(op: int) -> GateReached:
    return GateReached(op=op, attempt=0, rank=1, pid=7, node_id="n")


def committed(epoch: int) -> Committed:
    return Committed(attempt=0, epoch=epoch, checkpoint=f"c{epoch}", metrics=())


def invoked(op: int) -> FaultInvoked:
    return FaultInvoked(op=op, fault="kill_worker", attempt=0, rank=1, pid=7, node_id="n")


places = st.one_of(
    st.builds(AtStep, epoch=st.integers(0, 4), step=st.integers(1, 9), rank=st.just(1)),
    st.builds(AtMoment, epoch=st.integers(0, 4), moment=st.sampled_from(MOMENTS), rank=st.just(1)),
)


def test_nothing_is_due_before_a_worker_stands_at_the_place() -> None:
    plan = plan_of(AtStep(epoch=0, step=1, rank=1))

    assert due_ops(plan, []) == ()


def test_a_step_waits_for_the_commit_of_every_earlier_epoch() -> None:
    plan = plan_of(AtStep(epoch=2, step=5, rank=1))

    assert due_ops(plan, [committed(0), reached(0)]) == ()
    assert due_ops(plan, [committed(0), reached(0), committed(1)]) == plan.ops


def test_committed_waits_for_its_own_epoch_as_well() -> None:
    plan = plan_of(AtMoment(epoch=1, moment="committed", rank=1))

    assert due_ops(plan, [committed(0), reached(0)]) == ()
    assert due_ops(plan, [committed(0), reached(0), committed(1)]) == plan.ops


@given(places)
def test_every_op_begins_exactly_once(place: AtStep | AtMoment) -> None:
    plan = plan_of(place)
    ready: list[AnyEvent] = [committed(e) for e in range(commits_before(plan.ops[0]))]

    assert due_ops(plan, [*ready, reached(0)]) == plan.ops
    assert due_ops(plan, [*ready, reached(0), invoked(0)]) == ()
    assert due_ops(plan, [*ready, reached(0), invoked(0), reached(0)]) == ()


@given(st.lists(places, max_size=5), st.data())
def test_what_is_due_was_reached_and_is_in_plan_order(
    drawn: list[AtStep | AtMoment], data: st.DataObject
) -> None:
    plan = plan_of(*drawn)
    indexes = st.sampled_from(range(len(drawn))) if drawn else st.nothing()
    events = data.draw(
        st.lists(
            st.one_of(indexes.map(reached), indexes.map(invoked), st.integers(0, 4).map(committed)),
            max_size=12,
        )
    )

    due = [op.index for op in due_ops(plan, events)]

    assert due == sorted(due)
    assert set(due) <= {e.op for e in events if isinstance(e, GateReached)}
    assert not set(due) & {e.op for e in events if isinstance(e, FaultInvoked | FaultEnded)}


ONCE = Op(index=0, at=AtStep(epoch=0, step=1, rank=1), kill_worker=KillWorker())
ALWAYS = Op(index=0, at=ONCE.at, poison_step=PoisonStep())
SECOND = Op(index=0, at=ONCE.at, raise_in_worker=RaiseInWorker(attempts=(1,)))
GIVEN_UP = FaultEnded(op=0, status="fail", detail="why")


def test_a_fault_that_strikes_once_is_spent_by_its_first_strike() -> None:
    assert not is_spent(ONCE, 0, [])
    assert is_spent(ONCE, 1, [invoked(0)])


def test_a_poisoned_step_strikes_each_attempt_once() -> None:
    ended = FaultEnded(op=0, status="ok", detail="gone")

    assert is_spent(ALWAYS, 0, [invoked(0)])
    assert not is_spent(ALWAYS, 1, [invoked(0), ended])


def test_a_fault_can_be_meant_for_one_attempt() -> None:
    assert is_spent(SECOND, 0, [])
    assert not is_spent(SECOND, 1, [])


def test_what_was_given_up_does_not_come_again() -> None:
    assert all(is_spent(op, 1, [GIVEN_UP]) for op in (ONCE, ALWAYS, SECOND))


def test_a_recovery_begins_with_the_attempt_after_the_one_that_was_struck() -> None:
    at = AtRecovery(recovering_from=0, rank=1)

    assert not is_recovering(at, 1, [])
    assert not is_recovering(at, 0, [invoked(0)])
    assert is_recovering(at, 1, [invoked(0)])
    assert not is_recovering(AtRecovery(recovering_from=1, rank=1), 1, [invoked(0)])
