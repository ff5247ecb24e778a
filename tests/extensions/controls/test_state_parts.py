"""Parts of the state as values: kept at the start, and set again later."""

import pickle
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from chaos.extensions.controls.state_parts import collect_parts
from chaos.probe.state.indirect_values import IndirectValue
from chaos.probe.state.restored_values import HeldValue, set_value
from chaos.probe.state.watch import StateObjects


class Job:
    """A small job with a part of each kind, and a step of training."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
        self.adam = torch.optim.AdamW(self.net.parameters(), lr=0.1)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.adam, 1, 0.5)
        self.average = torch.optim.swa_utils.AveragedModel(self.net)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1)
        self._owners = StateObjects()
        for kind, owner in (
            ("schedule", self.schedule),
            ("ema", self.average),
            ("scaler", self.scaler),
        ):
            self._owners.add_object(kind, owner)

    def step(self) -> None:
        loss = self.scaler.scale(self.net(torch.randn(4, 3)).square().mean())
        loss.backward()
        self.scaler.step(self.adam)
        self.scaler.update()
        self.schedule.step()
        self.average.update_parameters(self.net)

    @property
    def parts(self) -> dict[str, HeldValue]:
        return collect_parts([self.net], [self.adam], self._owners)

    def read(self, part: str) -> Any:
        value = self.parts[f"state: {part}"].value
        assert isinstance(value, IndirectValue)
        return pickle.loads(pickle.dumps(value.extract()))


def equals(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor):
        return bool(torch.equal(first, second))
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(equals, first, second))
    return bool(first == second)


@pytest.mark.parametrize(
    "part", ["model", "model.buffers", "optimizer", "optimizer.lr", "schedule", "scaler", "ema"]
)
def test_a_part_is_set_to_what_it_was_at_the_start_and_no_other(part: str) -> None:
    job = Job()
    others = {"model", "model.buffers", "optimizer", "optimizer.lr", "schedule", "scaler"} - {part}
    first = job.read(part)
    job.step()
    assert not equals(job.read(part), first)
    before = {other: job.read(other) for other in others}

    assert set_value(job.parts[f"state: {part}"], first)

    assert equals(job.read(part), first)
    assert all(equals(job.read(other), before[other]) for other in others)
    job.step()  # and the job goes on


def test_a_model_of_other_shapes_and_an_optimizer_of_other_groups_stay_as_they_are() -> None:
    job = Job()

    assert not set_value(job.parts["state: model"], [torch.zeros(1)])
    assert not set_value(job.parts["state: optimizer.lr"], [0.1, 0.2])


def test_a_learning_rate_that_is_a_tensor_stays_the_same_tensor() -> None:
    rate = torch.tensor(0.1)
    optimizer = SimpleNamespace(param_groups=[{"params": [], "lr": rate}], state={})
    part = collect_parts([], [optimizer], StateObjects())["state: optimizer.lr"]

    assert set_value(part, [torch.tensor(0.5)])
    assert rate.item() == 0.5
