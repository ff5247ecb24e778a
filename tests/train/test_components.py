"""The parts of a state by name, and what each of them counts."""

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler

from chaos.backends.train.state import components
from chaos.backends.train.state.part import Part
from chaos.model.event import Component


def seen(parts: Iterable[Part]) -> dict[str, Component]:
    return {part.name: part.component() for part in parts}


def stepped(kind: Any = torch.optim.SGD, **settings: Any) -> tuple[torch.nn.Module, Any]:
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer = kind(model.parameters(), **settings)
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    return model, optimizer


def of_optimizer(optimizer: Any) -> dict[str, Component]:
    return seen(components.optimizer_parts("optimizer", optimizer, full=True))


def test_momentum_and_settings_are_components_with_their_sizes() -> None:
    _, optimizer = stepped(lr=0.1, momentum=0.5)

    found = of_optimizer(optimizer)

    assert found["optimizer.momentum_buffer"].size == pytest.approx((9 + 9 + 9) ** 0.5)
    assert found["optimizer.momentum_buffer"].count == 2
    assert (found["optimizer.lr"].size, found["optimizer.momentum"].size) == (0.1, 0.5)
    assert found["optimizer.state"].count == 2


def test_adams_step_is_its_number_and_not_a_norm() -> None:
    _, optimizer = stepped(torch.optim.Adam, lr=0.1)

    found = of_optimizer(optimizer)

    assert found["optimizer.step"].size == 1.0
    assert found["optimizer.betas"].size is None
    assert {"optimizer.exp_avg", "optimizer.exp_avg_sq"} <= set(found)


@pytest.mark.parametrize(
    ("kind", "settings", "names"),
    [
        (torch.optim.SGD, {"momentum": 0.9}, {"momentum_buffer", "state"}),
        (torch.optim.SGD, {}, {"state"}),
        (torch.optim.AdamW, {}, {"exp_avg", "exp_avg_sq", "step", "state"}),
    ],
)
def test_an_optimizer_that_was_never_stepped_is_told_from_one_that_is_not_watched(
    kind: Any, settings: dict[str, float], names: set[str]
) -> None:
    optimizer = kind(torch.nn.Linear(2, 1).parameters(), lr=0.1, **settings)

    found = of_optimizer(optimizer)

    empty = {name for name, part in found.items() if (part.digest, part.count) == ("", 0)}
    assert empty == {f"optimizer.{name}" for name in names}


def test_a_setting_of_groups_that_differ_has_no_single_size() -> None:
    one, other = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    groups = [{"params": one.parameters(), "lr": 0.1}, {"params": other.parameters(), "lr": 0.2}]

    found = of_optimizer(torch.optim.SGD(groups))

    assert (found["optimizer.lr"].size, found["optimizer.lr"].count) == (None, 2)


def test_what_a_restart_writes_otherwise_without_effect_is_left_out() -> None:
    _, optimizer = stepped(lr=0.1)
    before = of_optimizer(optimizer)
    lr_scheduler.StepLR(optimizer, 1)
    optimizer.param_groups[0]["weight_decay"] = 0.0

    assert of_optimizer(optimizer) == before


def test_a_schedule_that_was_moved_on_without_its_steps_is_the_same_schedule() -> None:
    def schedule(last: int) -> Component:
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        made = lr_scheduler.StepLR(optimizer, step_size=10)
        made.last_epoch = last
        return components.schedule_part("schedule", made).component()

    made = schedule(2)
    assert made.size == 2.0
    assert made.digest == schedule(2).digest != schedule(3).digest


def test_wrappers_do_not_change_a_models_digest() -> None:
    model, optimizer = stepped(lr=0.1)
    wrapped = torch.nn.Module()
    wrapped.module = model

    bare = seen(components.model_parts([model], [optimizer], full=True))
    ddp = seen(components.model_parts([wrapped], [optimizer], full=True))

    assert bare == ddp
    assert list(bare) == ["model"]


def test_buffers_count_as_the_model() -> None:
    norm = torch.nn.BatchNorm1d(2)
    before = seen(components.model_parts([norm], [], full=False))
    norm(torch.randn(4, 2, generator=torch.Generator().manual_seed(0)))

    assert seen(components.model_parts([norm], [], full=False)) != before


def test_parameters_of_no_module_are_the_model_or_what_it_does_not_own() -> None:
    model, optimizer = stepped(lr=0.1)
    free = torch.nn.Parameter(torch.ones(2))
    other = torch.optim.SGD([free], lr=0.1)

    assert list(seen(components.model_parts([], [optimizer], full=True))) == ["model"]
    both = seen(components.model_parts([model], [optimizer, other], full=True))
    assert both["model.unowned"].count == 1


def test_declared_parts_are_states_values_and_questions() -> None:
    class Sampler:
        def state_dict(self) -> dict[str, int]:
            return {"epoch": 3}

    named = [("sampler", Sampler()), ("temperature", 0.5), ("cursor", lambda: [1, 2])]
    found = seen(components.declared_parts(named))

    assert set(found) == {"declared.sampler", "declared.temperature", "declared.cursor"}
    assert found["declared.temperature"].size == 0.5
    assert found["declared.cursor"].count == 2


def test_each_generator_is_a_component_that_shows_a_draw() -> None:
    before = seen(components.rng_parts())
    torch.rand(1)
    after = seen(components.rng_parts())

    assert {"rng.torch", "rng.numpy", "rng.python"} <= set(before)
    assert {name for name in before if before[name] != after[name]} == {"rng.torch"}
