"""A saved plan is read as itself."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from chaos.faults.kill_node import KillNode
from chaos.faults.kill_worker import KillWorker
from chaos.model.fault_entry import FaultEntry
from chaos.model.plan import Plan
from chaos.model.scenario import Job, Scenario
from chaos.model.trigger import AtMoment, AtStep
from chaos.plan.make import make_plan

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


@given(faults, seeds)
def test_a_saved_plan_is_read_as_itself(entries: tuple[FaultEntry, ...], seed: int) -> None:
    plan = planned(*entries, seed=seed)

    assert Plan.model_validate_json(plan.model_dump_json()) == plan
