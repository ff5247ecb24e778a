"""Which objects hold state now, and which no longer."""

from typing import Any

import torch

from chaos.probe.state.watch import StateObjects


def optimizer() -> Any:
    return torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)


def test_an_optimizer_that_made_no_step_in_the_last_epoch_trains_no_more() -> None:
    found, probe, trained, later = StateObjects(), optimizer(), optimizer(), optimizer()
    for each in (probe, trained, later):
        found.add_object("optimizer", each)

    found.record_step(probe, 0)
    found.record_step(trained, 1)

    assert found.list_optimizers(1) == [probe, trained, later]
    assert found.list_optimizers(2) == [trained, later]


def test_it_is_told_of_each_optimizer_once() -> None:
    told: list[None] = []
    found, one = StateObjects(lambda: told.append(None)), optimizer()

    for _ in range(2):
        found.add_object("optimizer", one)
        found.add_object("schedule", object)

    assert len(told) == 1
