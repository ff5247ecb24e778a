"""The arguments of a later start."""

from pathlib import Path

import pytest

from chaos.model.arguments import build_command_line
from chaos.model.fault_entry import FaultEntry
from chaos.model.plan import Plan
from chaos.model.scenario import Job, Scenario
from chaos.plan.make import make_plan


def planned(*faults: FaultEntry, **job: object) -> Plan:
    own = Job.model_validate({"script": "j.py", "workers": 1, **job})
    scenario = Scenario(scenario="x", job=own, faults=faults)
    return make_plan(scenario, file=Path("x.chaos.yaml"), seed=0, cwd=Path("/cwd"))


@pytest.mark.parametrize(
    ("args", "more", "then"),
    [
        ({"epochs": 3, "from": "scratch"}, {"from": "resume"}, "--epochs 3 --from resume"),
        ({"pretrained": "x.pt"}, {"pretrained": False, "resume": True}, "--resume"),
        (["run", "lr=1"], {"resume": "latest"}, "run lr=1 --resume latest"),
        ({"epochs": 3}, ["--init_from=resume"], "--epochs 3 --init_from=resume"),
    ],
)
def test_a_later_start_has_the_arguments_of_a_restart(
    args: object, more: object, then: str
) -> None:
    job = planned(restart="command", args=args, restart_args=more).job

    assert job.build_start_args(0) == job.args
    assert (
        build_command_line(job.build_start_args(1))
        == build_command_line(job.build_start_args(2))
        == then.split()
    )
