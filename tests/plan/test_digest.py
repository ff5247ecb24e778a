from pathlib import Path
from typing import Any

import pytest

from chaos.faults.kill_worker import KillWorker
from chaos.model.expect import Expect
from chaos.model.fault_entry import FaultEntry
from chaos.model.plan import Plan
from chaos.model.scenario import ClusterShape, Job, Limits, Scenario
from chaos.model.trigger import AtStep
from chaos.plan.digest import baseline_digest
from chaos.plan.make import make_plan

JOB: dict[str, Any] = {"script": "train.py", "workers": 2, "args": {"epochs": 4}}
KILL = FaultEntry(at=AtStep(epoch=1, step=1), kill_worker=KillWorker())


def planned(name: str = "x", seed: int = 0, **parts: Any) -> Plan:
    scenario = Scenario(**{"scenario": name, "job": Job(**JOB), **parts})
    return make_plan(scenario, file=Path(f"{name}.chaos.yaml"), seed=seed, cwd=Path("/w"))


def baseline_of(plan: Plan, **parts: dict[str, str]) -> str:
    return baseline_digest(
        plan, **{"code": {"/w/train.py": "a"}, "versions": {"ray": "2"}, **parts}
    )


def test_a_digest_is_sixteen_hex_digits() -> None:
    digest = baseline_of(planned())

    assert len(digest) == 16
    assert int(digest, 16) >= 0


def test_a_digest_outlives_saving() -> None:
    plan = planned(faults=(KILL,))

    assert baseline_of(Plan.model_validate_json(plan.model_dump_json())) == baseline_of(plan)


@pytest.mark.parametrize(
    "plan",
    [
        planned("y"),
        planned(seed=3),
        planned(faults=(KILL,)),
        planned(expect=Expect(attempts=2)),
        planned(limits=Limits(run_s=9.0)),
        planned(faults=(KILL,)).build_baseline_plan(),
        planned(job=Job(**{**JOB, "args": {"epochs": 4}})),
    ],
    ids=["name", "seed", "faults", "expect", "limits", "baseline", "equal job"],
)
def test_plans_that_differ_in_what_is_done_to_the_job_share_a_baseline(plan: Plan) -> None:
    assert baseline_of(plan) == baseline_of(planned())


@pytest.mark.parametrize(
    "digest",
    [
        baseline_of(planned(job=Job(**{**JOB, "args": {"epochs": 5}}))),
        baseline_of(planned(job=Job(**{**JOB, "env": {"A": "1"}}))),
        baseline_of(planned(cluster=ClusterShape(cpus_per_node=2))),
        baseline_of(planned(), code={"/w/train.py": "b"}),
        baseline_of(planned(), versions={"ray": "3"}),
        baseline_of(planned().model_copy(update={"cwd": "/v"})),
    ],
    ids=["args", "env", "shape", "code", "versions", "cwd"],
)
def test_what_the_job_depends_on_asks_for_its_own_baseline(digest: str) -> None:
    assert digest != baseline_of(planned())


def test_the_order_in_which_files_are_listed_does_not_matter() -> None:
    files = {"a": "1", "b": "2"}
    turned = dict(reversed(files.items()))

    assert baseline_of(planned(), code=files) == baseline_of(planned(), code=turned)
