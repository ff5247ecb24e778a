from pathlib import Path

from chaos.faults.kill_driver import KillDriver
from chaos.model.event import AnyEvent, DriverExited, FaultInvoked
from chaos.model.fault_entry import FaultEntry
from chaos.model.plan import Plan
from chaos.model.scenario import Job, Scenario
from chaos.model.trigger import AtStep
from chaos.plan.driver_restart import driver_begins_again, env_at_start
from chaos.plan.make import make_plan

ENDED = DriverExited(code=-9)


def planned(*faults: FaultEntry) -> Plan:
    scenario = Scenario(scenario="x", job=Job(script="j.py", workers=1), faults=faults)
    return make_plan(scenario, file=Path("x.chaos.yaml"), seed=0, cwd=Path("/cwd"))


def struck(op: int) -> AnyEvent:
    return FaultInvoked(op=op, fault="kill_driver", attempt=0, rank=0, pid=1, node_id="n")


TWICE = planned(
    FaultEntry(at=AtStep(epoch=0, step=1, rank=0), kill_driver=KillDriver()),
    FaultEntry(at=AtStep(epoch=1, step=1, rank=0), kill_driver=KillDriver()),
)


def test_a_driver_that_a_fault_killed_has_a_successor() -> None:
    assert driver_begins_again(TWICE, [struck(0)])


def test_a_driver_that_ends_by_itself_has_none() -> None:
    assert not driver_begins_again(TWICE, [])
    assert not driver_begins_again(TWICE, [struck(0), ENDED])


def test_each_fault_gives_one_successor() -> None:
    assert driver_begins_again(TWICE, [struck(0), ENDED, struck(1)])
    assert not driver_begins_again(TWICE, [struck(0), ENDED, struck(1), ENDED])


def test_another_fault_starts_no_driver() -> None:
    assert not driver_begins_again(planned(), [struck(0)])


def test_a_new_start_has_the_variables_of_the_faults_so_far() -> None:
    at = AtStep(epoch=0, step=1, rank=0)
    plan = planned(
        FaultEntry(at=at, kill_driver=KillDriver(env={"ID": "2"})),
        FaultEntry(at=at, kill_driver=KillDriver(env={"ID": "3", "TRY": "2"})),
    )

    assert env_at_start(plan, []) == {}
    assert env_at_start(plan, [struck(0)]) == {"ID": "2"}
    assert env_at_start(plan, [struck(0), struck(1)]) == {"ID": "3", "TRY": "2"}
