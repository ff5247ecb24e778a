"""An op begins once, at its place, when what a restart must find is committed."""

from hypothesis import given
from hypothesis import strategies as st

from chaos.faults.kill_worker import KillWorker
from chaos.faults.poison_step import PoisonStep
from chaos.faults.raise_in_worker import RaiseInWorker
from chaos.model.event import FaultEnded, FaultInvoked
from chaos.model.plan import Op
from chaos.model.trigger import MOMENTS, AtMoment, AtRecovery, AtStep
from chaos.plan.op_state import count_needed_commits, is_recovering, is_spent


def invoked(op: int) -> FaultInvoked:
    return FaultInvoked(op=op, fault="kill_worker", attempt=0, rank=1, pid=7, node_id="n")


places = st.one_of(
    st.builds(AtStep, epoch=st.integers(0, 4), step=st.integers(1, 9), rank=st.just(1)),
    st.builds(AtMoment, epoch=st.integers(0, 4), moment=st.sampled_from(MOMENTS), rank=st.just(1)),
)


@given(places)
def test_a_place_waits_for_the_commit_of_every_earlier_epoch(place: AtStep | AtMoment) -> None:
    is_after_its_own = isinstance(place, AtMoment) and place.moment == "committed"

    needed = count_needed_commits(Op(index=0, at=place, kill_worker=KillWorker()))

    assert needed == place.epoch + is_after_its_own


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
