"""A plan is read where the package of its fault is not installed; a mistake in it stays one."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from chaos.faults.world import RefusedError
from chaos.model.plan import Op
from chaos.plugins import mark_absent_faults
from tests.accepted import expect_text
from tests.world import RANK_1, FakeWorld

AT = {"epoch": 1, "step": 2, "rank": 0}


def read(**op: Any) -> Op:
    """Return an op as it is read from a plan."""
    plan = json.dumps({"ops": [{"index": 0, "at": AT, **op}]}).encode()
    (value,) = json.loads(mark_absent_faults(plan, Op.model_fields))["ops"]
    return Op.model_validate_json(json.dumps(value))


def test_a_fault_of_a_package_that_is_not_here_keeps_its_name_and_its_rank() -> None:
    op = read(melt={"rank": 1, "at_k": 900}, package="chaos-heat 3.1", kill_worker=None)

    assert op.kind == "melt"
    assert op.target_rank == 1
    expect_text(str(op))
    assert Op.model_validate_json(op.model_dump_json()) == op


def test_it_strikes_nobody() -> None:
    world = FakeWorld()

    with pytest.raises(RefusedError, match=r"melt is of the package chaos-heat 3\.1"):
        read(melt={}, package="chaos-heat 3.1").fault.inject(world, RANK_1, lambda *_, **__: None)

    assert world.done == []


def test_a_fault_that_was_installed_and_not_used_is_not_missed() -> None:
    assert read(kill_worker={}, melt=None).kind == "kill_worker"


@pytest.mark.parametrize(
    "op", [{"kill_wroker": {}}, {"kill_worker": {}, "melt": {}}, {"melt": 3, "package": "x 1"}]
)
def test_an_unknown_key_that_no_package_was_named_for_is_a_mistake(op: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        read(**op)


@pytest.mark.parametrize("plan", ["[]", "{}", '{"ops": 3}', '{"ops": [3]}'])
def test_what_is_no_plan_is_left_as_it_is(plan: str) -> None:
    assert json.loads(mark_absent_faults(plan.encode(), ())) == json.loads(plan)
