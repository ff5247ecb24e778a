from pathlib import Path

import pytest

from chaos.faults.kill_driver import KillDriver
from chaos.model.event import AnyEvent, DriverExited, FaultInvoked
from chaos.model.fault_entry import FaultEntry
from chaos.model.plan import Plan
from chaos.model.scenario import Job, Scenario
from chaos.model.trigger import AtStep
from chaos.plan.driver_restart import build_driver_env, must_restart_driver
from chaos.plan.make import make_plan

ENDED = DriverExited(code=-9)


def planned(*faults: FaultEntry, **job: object) -> Plan:
    own = Job.model_validate({"script": "j.py", "workers": 1, **job})
    scenario = Scenario(scenario="x", job=own, faults=faults)
    return make_plan(scenario, file=Path("x.chaos.yaml"), seed=0, cwd=Path("/cwd"))


def struck(op: int) -> AnyEvent:
    return FaultInvoked(op=op, fault="kill_driver", attempt=0, rank=0, pid=1, node_id="n")


TWICE = planned(
    FaultEntry(at=AtStep(epoch=0, step=1, rank=0), kill_driver=KillDriver()),
    FaultEntry(at=AtStep(epoch=1, step=1, rank=0), kill_driver=KillDriver()),
)


def test_a_driver_that_a_fault_killed_has_a_successor() -> None:
    assert must_restart_driver(TWICE, [struck(0)])


def test_a_driver_that_ends_by_itself_has_none() -> None:
    assert not must_restart_driver(TWICE, [])
    assert not must_restart_driver(TWICE, [struck(0), ENDED])


def test_each_fault_gives_one_successor() -> None:
    assert must_restart_driver(TWICE, [struck(0), ENDED, struck(1)])
    assert not must_restart_driver(TWICE, [struck(0), ENDED, struck(1), ENDED])


def test_another_fault_starts_no_driver() -> None:
    assert not must_restart_driver(planned(), [struck(0)])


def test_a_new_start_has_the_variables_of_the_faults_so_far() -> None:
    at = AtStep(epoch=0, step=1, rank=0)
    plan = planned(
        FaultEntry(at=at, kill_driver=KillDriver(env={"ID": "2"})),
        FaultEntry(at=at, kill_driver=KillDriver(env={"ID": "3", "TRY": "2"})),
    )

    assert build_driver_env(plan, []) == {}
    assert build_driver_env(plan, [struck(0)]) == {"ID": "2"}
    assert build_driver_env(plan, [struck(0), struck(1)]) == {"ID": "3", "TRY": "2"}


@pytest.mark.parametrize(
    ("most", "earlier", "begins"),
    [(0, 0, False), (1, 0, True), (1, 1, False), (2, 1, True), (-1, 9, True)],
)
def test_a_command_that_fails_begins_again_up_to_its_retries(
    most: int, earlier: int, begins: bool
) -> None:
    plan = planned(restart="command", failure={"max_failures": most})
    ended = [DriverExited(code=1, start=start) for start in range(earlier)]

    assert must_restart_driver(plan, ended, code=1) is begins
    assert not must_restart_driver(plan, ended, code=0)


def test_by_its_launcher_a_script_that_fails_is_not_started_again() -> None:
    assert not must_restart_driver(planned(failure={"max_failures": 3}), [], code=1)


def test_a_fault_on_the_driver_costs_a_command_one_of_its_retries() -> None:
    fault = FaultEntry(at=AtStep(epoch=0, step=1, rank=0), kill_driver=KillDriver())

    assert not must_restart_driver(planned(fault, restart="command"), [struck(0)], code=-9)
