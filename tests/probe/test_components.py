"""The parts of a state by name, and what each of them counts."""

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler

from chaos.model.event import Component
from chaos.model.events.state import find_group
from chaos.probe.state import components
from chaos.probe.state.part import UnreadComponent
from chaos.resume.resume_place import build_state_keys


def seen(parts: Iterable[UnreadComponent]) -> dict[str, Component]:
    return {part.name: part.build_component() for part in parts}


def stepped(kind: Any = torch.optim.SGD, **settings: Any) -> tuple[torch.nn.Module, Any]:
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer = kind(model.parameters(), **settings)
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    return model, optimizer


def of_optimizer(optimizer: Any) -> dict[str, Component]:
    return seen(components.take_optimizer_parts("optimizer", optimizer, full=True))


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
        return components.take_schedule_part("schedule", made).build_component()

    made = schedule(2)
    assert made.size == 2.0
    assert made.digest == schedule(2).digest != schedule(3).digest


def test_wrappers_do_not_change_a_models_digest() -> None:
    model, optimizer = stepped(lr=0.1)
    wrapped = torch.nn.Module()
    wrapped.module = model

    bare = seen(components.take_model_parts([model], [optimizer], full=True))
    ddp = seen(components.take_model_parts([wrapped], [optimizer], full=True))

    assert bare == ddp
    assert list(bare) == ["model"]


def test_running_statistics_are_a_part_of_their_own() -> None:
    norm = torch.nn.BatchNorm1d(2)
    before = seen(components.take_buffer_parts([norm], full=True))
    norm(torch.randn(4, 2, generator=torch.Generator().manual_seed(0)))
    after = seen(components.take_buffer_parts([norm], full=True))

    assert list(before) == ["model.buffers"]
    assert before["model.buffers"].digest != after["model.buffers"].digest
    assert before["model.buffers"].structure == after["model.buffers"].structure


def test_a_buffer_that_no_checkpoint_has_is_no_state() -> None:
    module = torch.nn.Linear(2, 1)
    module.register_buffer("table", torch.arange(4.0), persistent=False)

    assert seen(components.take_buffer_parts([module], full=True)) == {}


def test_parameters_that_no_optimizer_has_are_the_rest_of_their_module() -> None:
    model, optimizer = stepped(lr=0.1)
    whole = torch.nn.Sequential(model, torch.nn.Linear(1, 1).requires_grad_(False))

    alone = seen(components.take_model_parts([], [optimizer], full=True))
    found = seen(components.take_model_parts([whole], [optimizer], full=True))

    assert found["model"] == alone["model"]
    assert found["model.rest"].count == 2
    assert list(seen(components.take_model_parts([whole], [], full=True))) == ["model"]


def test_the_model_is_the_same_whoever_owns_it_and_in_whatever_order() -> None:
    weights = [torch.nn.Parameter(torch.full((2,), float(n))) for n in range(3)]

    def model_of(parameters: list[Any]) -> dict[str, Component]:
        optimizer = torch.optim.SGD(parameters, lr=0.1)
        return seen(components.take_model_parts([], [optimizer], full=False))

    assert model_of(weights) == model_of(weights[::-1])
    with torch.no_grad():
        weights[0][0] = -1.0
    changed = model_of(weights)["model"]
    assert changed.structure == model_of(weights[::-1])["model"].structure
    assert changed.structure != model_of(weights[:2])["model"].structure


def test_an_optimizer_of_some_parameters_of_another_adds_no_part() -> None:
    model, optimizer = stepped(lr=0.1)
    head = torch.optim.SGD([model.bias], lr=0.1)
    other = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)

    found = seen(components.take_model_parts([], [head, optimizer, other], full=True))

    assert {name: part.count for name, part in found.items()} == {"model": 2, "model.1": 1}


def test_gradients_wait_only_where_there_are_any() -> None:
    model, optimizer = stepped(lr=0.1)
    optimizer.zero_grad(set_to_none=False)
    assert components.take_gradient_part([optimizer]) is None

    model.bias.grad += 1.0
    part = components.take_gradient_part([optimizer])
    assert part is not None
    assert part.build_component().count == 1


def test_declared_parts_are_states_values_and_questions() -> None:
    class Sampler:
        def state_dict(self) -> dict[str, int]:
            return {"epoch": 3}

    named = [("sampler", Sampler()), ("temperature", 0.5), ("cursor", lambda: [1, 2])]
    found = seen(components.take_declared_parts(named))

    assert set(found) == {"declared.sampler", "declared.temperature", "declared.cursor"}
    assert found["declared.temperature"].size == 0.5
    assert found["declared.cursor"].count == 2


def test_each_generator_is_a_component_that_shows_a_draw() -> None:
    before = seen(components.take_generator_parts())
    torch.rand(1)
    after = seen(components.take_generator_parts())

    assert {"rng.torch", "rng.numpy", "rng.python"} <= set(before)
    assert {name for name in before if before[name] != after[name]} == {"rng.torch"}


class Own(torch.optim.Optimizer):  # type: ignore[misc]
    """An optimizer outside torch, with names that torch's have on the other side."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr, "k": 2, "exp_avg": 0.5})

    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            group["k"] += 1
            for parameter in group["params"]:
                self.state[parameter]["momentum"] = torch.ones_like(parameter)


OPTIMIZERS = [
    kind
    for kind in [*vars(torch.optim).values(), Own]
    if isinstance(kind, type)
    and issubclass(kind, torch.optim.Optimizer)
    and kind is not torch.optim.Optimizer
]


@pytest.mark.parametrize("kind", OPTIMIZERS, ids=lambda kind: kind.__name__)
def test_each_number_of_a_parameter_group_is_a_setting_and_no_part_of_the_state_is(
    kind: Any,
) -> None:
    weight = torch.nn.Parameter(torch.ones(3, 2))
    optimizer = kind([weight], lr=0.1)
    is_sparse = kind is torch.optim.SparseAdam
    weight.grad = torch.ones(3, 2).to_sparse() if is_sparse else torch.ones(3, 2)
    optimizer.step(lambda: torch.zeros(()))

    of_state = {p.name for p in components.take_optimizer_parts("optimizer", optimizer, full=False)}
    every = {p.name for p in components.take_optimizer_parts("optimizer", optimizer, full=True)}

    assert {find_group(name) for name in of_state} == {"optimizer"}
    assert {find_group(name) for name in every - of_state} == {"optimizer settings"}


def test_a_state_has_the_same_key_whether_its_settings_were_looked_at() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.RMSprop([weight], momentum=0.5)
    weight.sum().backward()
    optimizer.step()

    keys = {
        build_state_keys(
            p.build_component()
            for p in components.take_optimizer_parts("optimizer", optimizer, full=f)
        )
        for f in (True, False)
    }

    assert len(keys) == 1
