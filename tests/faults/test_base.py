"""A fault is named after its key."""

from typing import Any

import pytest

from chaos.faults.base import Fault
from chaos.model.fault_entry import FAULTS, FaultEntry
from chaos.model.trigger import AtStep

AT = AtStep(epoch=1, step=1, rank=1)
FIELDS: dict[str, dict[str, Any]] = {
    "slow_upload": {"delay_s": 1.0},
    "delayed_visibility": {"for_s": 1.0},
}
KINDS = [kind for kind, fault in FAULTS.items() if fault.family == "storage"]
every_fault = pytest.mark.parametrize("kind", KINDS)


def fault_of(kind: str) -> Fault:
    made: dict[str, Any] = {kind: FIELDS.get(kind, {})}
    return FaultEntry.model_validate({"at": AT, **made}).fault


@every_fault
def test_a_fault_is_named_after_its_key(kind: str) -> None:
    assert str(fault_of(kind)).startswith(kind)
