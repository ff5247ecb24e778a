"""A storage fault is armed, and counts only once storage itself has said what it did."""

from collections.abc import Callable
from typing import Any

import pytest

from chaos.faults.base import Fault
from chaos.faults.world import Target
from chaos.model.fault_entry import FAULTS, FaultEntry
from chaos.model.trigger import AtStep

AT = AtStep(epoch=1, step=1, rank=1)
VICTIM = Target(attempt=0, rank=1, pid=7, node_id="n", op=3)
FIELDS: dict[str, dict[str, Any]] = {
    "slow_upload": {"delay_s": 1.0},
    "delayed_visibility": {"for_s": 1.0},
}
KINDS = [kind for kind, fault in FAULTS.items() if fault.family == "storage"]
every_fault = pytest.mark.parametrize("kind", KINDS)


class Storage:
    """A world in which only storage is touched; `effect` is what it says it did."""

    def __init__(self, effect: str | None) -> None:
        self.effect = effect
        self.done: list[object] = []

    def arm_storage(self, target: Target) -> None:
        self.done.append(target)

    def await_storage(self, target: Target) -> str | None:
        self.done.append("awaited")
        return self.effect


def fault_of(kind: str) -> Fault:
    made: dict[str, Any] = {kind: FIELDS.get(kind, {})}
    return FaultEntry.model_validate({"at": AT, **made}).fault


@every_fault
def test_the_rank_goes_on_once_the_fault_is_armed_and_before_it_takes_effect(kind: str) -> None:
    world = Storage("raised it")
    release: Callable[[int | None], None] = lambda _: world.done.append("released")  # noqa: E731

    outcome = fault_of(kind).inject(world, VICTIM, release)  # type: ignore[arg-type]

    assert world.done == [VICTIM, "released", "awaited"]
    assert (outcome.status, outcome.detail) == ("ok", "raised it")


@every_fault
def test_a_fault_that_storage_never_got_to_is_a_failure_of_ours(kind: str) -> None:
    outcome = fault_of(kind).inject(Storage(None), VICTIM, lambda _: None)  # type: ignore[arg-type]

    assert outcome.status == "fail"
    assert "armed" in outcome.detail
