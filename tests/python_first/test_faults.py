"""Every fault is a function, made from its record, and what it makes is an entry of a scenario."""

import inspect
from collections.abc import Callable

import pytest

import chaos
from chaos.faults.kill_worker import KillWorker
from chaos.faults.preempt_node import PreemptNode
from chaos.model.draws import Every, UpTo
from chaos.model.fault_entry import FAULTS, FaultEntry
from chaos.model.trigger import AtMoment, AtRecovery, AtStart, AtState, AtStep, AtTime
from chaos.scenario_file.faults import kill_worker, preempt_node
from chaos.scenario_file.from_python import BY_NAME, DRAWS, PLACE, list_settings


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_asked_of_chaos_itself_and_takes_its_own_settings(fault: str) -> None:
    function = getattr(chaos, fault)
    taken = inspect.signature(function).parameters

    assert function is BY_NAME[fault]
    assert set(taken) == {*PLACE, *DRAWS, *FAULTS[fault].model_fields}
    assert {name for name in list_settings(fault) if name in PLACE} == set()
    assert function.__doc__


def test_what_the_seed_draws_is_beside_the_place() -> None:
    made = kill_worker(
        epoch=1, step=2, up_to={"epoch": 3}, chance=0.5, every=Every(epochs=2, times=3)
    )

    assert made == FaultEntry(
        at=AtStep(epoch=1, step=2),
        up_to=UpTo(epoch=3),
        chance=0.5,
        every=Every(epochs=2, times=3),
        kill_worker=KillWorker(),
    )
    with pytest.raises(ValueError, match="chance must be a number > 0 and <= 1, got 2"):
        kill_worker(epoch=1, step=2, chance=2)


def test_a_name_that_is_no_fault_is_no_attribute() -> None:
    for name in ("kill_wroker", "BY_NAME", "_nothing"):
        with pytest.raises(AttributeError, match=name):
            getattr(chaos, name)


@pytest.mark.parametrize(
    ("made", "entry"),
    [
        (
            kill_worker(rank=1, epoch=2, step=5),
            FaultEntry(at=AtStep(epoch=2, step=5, rank=1), kill_worker=KillWorker()),
        ),
        (
            kill_worker(epoch=2, moment="reported", signal="TERM", grace_s=3),
            FaultEntry(
                at=AtMoment(epoch=2, moment="reported"),
                kill_worker=KillWorker(signal="TERM", grace_s=3.0),
            ),
        ),
        (
            kill_worker(recovering_from=0, rank=1),
            FaultEntry(at=AtRecovery(recovering_from=0, rank=1), kill_worker=KillWorker()),
        ),
        (
            preempt_node(at={"epoch": 1, "step": 2, "rank": 0}, rank=1, notice_s=0.5),
            FaultEntry(
                at=AtStep(epoch=1, step=2, rank=0), preempt_node=PreemptNode(notice_s=0.5, rank=1)
            ),
        ),
        (
            kill_worker(epoch=1, step=2, attempt=1),
            FaultEntry(at=AtStep(epoch=1, step=2, attempt=1), kill_worker=KillWorker()),
        ),
        (
            kill_worker(starting=1, rank=0),
            FaultEntry(at=AtStart(starting=1, rank=0), kill_worker=KillWorker()),
        ),
        (
            kill_worker(state="RUNNING", visit=2),
            FaultEntry(at=AtState(state="RUNNING", visit=2), kill_worker=KillWorker()),
        ),
        (
            kill_worker(seconds=1.5),
            FaultEntry(at=AtTime(seconds=1.5), kill_worker=KillWorker()),
        ),
        (
            kill_worker(at=AtStep(epoch=1, step=2)),
            FaultEntry(at=AtStep(epoch=1, step=2), kill_worker=KillWorker()),
        ),
    ],
)
def test_a_call_is_what_the_file_would_say(made: FaultEntry, entry: FaultEntry) -> None:
    assert made == entry


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda f: f(epoch=1, step=2, ranc=1), "kill_worker.. got .*'ranc'. Did you mean rank"),
        (lambda f: f(rank=1), "kill_worker.. needs one place: epoch and step"),
        (lambda f: f(epoch=1, step=2, moment="saving"), "it has step and moment"),
        (lambda f: f(at={"epoch": 1, "step": 2}, epoch=1), "has either at or epoch"),
        (lambda f: f(epoch=1, step=0), "step must be a whole number >= 1, got 0"),
        (lambda f: f(step=1), "at needs epoch"),
        (lambda f: f(epoch=1, step=1, signal="HUP"), "signal must be one of KILL, TERM, got 'HUP'"),
        (lambda f: f(at={"epoch": 1, "stp": 3}), "unknown key 'stp' in at. Did you mean step"),
    ],
)
def test_a_mistake_is_told_in_the_words_of_a_scenario_file(
    call: Callable[[Callable[..., FaultEntry]], FaultEntry], said: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        call(kill_worker)
