"""What a census reads through an object: groups of parameters, flags, hooks, named tuples."""

import pickle
from collections import deque, namedtuple
from typing import Any

import pytest
import torch
from torch import nn

from chaos.model.events.state import (
    HOOKS,
    IS_PARAM_GROUPS,
    OPTIMIZER_STATE,
    SHARED_STATE,
    TRAINING_FLAGS,
)
from chaos.probe.state.census import Census
from chaos.probe.state.restored_values import _extract_content, set_value
from chaos.run.clock import SystemClock

Transition = namedtuple("Transition", "state reward")  # noqa: PYI024 (as jobs have them)


class OwnSchedule:
    """A schedule as jobs write them: it keeps the optimizer's groups."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.groups, self.group = optimizer.param_groups, optimizer.param_groups[0]


def build_optimizer() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def take(*optimizers: torch.optim.Optimizer, **named: Any) -> Census:
    census = Census(SystemClock().now_ns, wants_all=True, optimizers=optimizers)
    census.add_values(named.items())
    census.expand_all()
    return census


def read_texts(census: Census) -> dict[str, str]:
    return {entry.path: entry.text for entry in census.entries}


def test_groups_are_no_longer_the_optimizers_own_once_it_has_loaded_a_state() -> None:
    _, optimizer = build_optimizer()
    schedule, path = OwnSchedule(optimizer), f"schedule.groups{IS_PARAM_GROUPS}"
    before = take(optimizer, schedule=schedule)
    kept = pickle.dumps(_extract_content(before.wanted_values[path].value))

    optimizer.load_state_dict(optimizer.state_dict())
    after = take(optimizer, schedule=schedule)

    assert (read_texts(before)[path], read_texts(after)[path]) == ("True", "False")
    assert read_texts(after)[f"schedule.group{IS_PARAM_GROUPS}"] == "False"
    assert set_value(after.wanted_values[path], pickle.loads(kept))
    assert schedule.groups is optimizer.param_groups


def test_a_list_that_was_no_optimizers_own_is_given_nothing() -> None:
    _, optimizer = build_optimizer()
    schedule = OwnSchedule(optimizer)
    optimizer.load_state_dict(optimizer.state_dict())

    census = take(optimizer, schedule=schedule)

    assert not set_value(census.wanted_values[f"schedule.groups{IS_PARAM_GROUPS}"], None)


def test_a_module_gets_the_flags_of_another_moment() -> None:
    model, _ = build_optimizer()
    path = f"model{TRAINING_FLAGS}"
    thawed = take(model=model)
    kept = pickle.dumps(_extract_content(thawed.wanted_values[path].value))

    next(model.children()).requires_grad_(False)
    frozen = take(model=model)

    assert read_texts(thawed)[path] == "4 of 4 True"
    assert read_texts(frozen)[path] == "2 of 4 True"
    assert [p for p in read_texts(frozen) if p.endswith(TRAINING_FLAGS)] == [path]
    assert set_value(frozen.wanted_values[path], pickle.loads(kept))
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_hooks_of_the_job_are_named() -> None:
    _, optimizer = build_optimizer()

    def balance(*_: Any) -> None:
        """Do what a job does before each step."""

    assert read_texts(take(optimizer=optimizer))[f"optimizer{HOOKS}"] == "none"
    optimizer.register_step_pre_hook(torch.no_grad()(balance))

    assert read_texts(take(optimizer=optimizer))[f"optimizer{HOOKS}"] == "balance"


def test_tensors_of_two_optimizers_states_are_one_again() -> None:
    """`load_state_dict` copies no tensor whose type fits (torch 2.13): both train with it."""
    (first_model, first), (second_model, second) = build_optimizer(), build_optimizer()
    for optimizer, model in ((first, first_model), (second, second_model)):
        for group in optimizer.param_groups:
            group["momentum"] = 0.9
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    apart = take(first, second, first=first, second=second)
    second.load_state_dict(first.state_dict())
    shared = take(first, second, first=first, second=second)

    path = f"second{SHARED_STATE}"
    assert (read_texts(apart)[path], read_texts(shared)[path]) == ("0 tensors", "4 tensors")
    links = _extract_content(shared.wanted_values[path].value)
    for state in second.state.values():
        state["momentum_buffer"] = state["momentum_buffer"].clone()
    later = take(first, second, first=first, second=second)
    assert read_texts(later)[path] == "0 tensors"
    assert set_value(later.wanted_values[path], pickle.loads(pickle.dumps(links)))
    assert read_texts(take(first, second, first=first, second=second))[path] == "4 tensors"


def test_each_of_two_optimizers_has_its_state_back_in_tensors_of_its_own() -> None:
    (first_model, first), (second_model, second) = build_optimizer(), build_optimizer()
    for optimizer, model in ((first, first_model), (second, second_model)):
        for group in optimizer.param_groups:
            group["momentum"] = 0.9
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    path = f"second{OPTIMIZER_STATE}"
    apart = take(first, second, first=first, second=second)
    kept = pickle.dumps(_extract_content(apart.wanted_values[path].value))
    digest = {entry.path: entry.digest for entry in apart.entries}[path]

    for state in first.state.values():
        state["momentum_buffer"] = state["momentum_buffer"] + 1
    second.load_state_dict(first.state_dict())  # copies no tensor whose type fits (torch 2.13)
    shared = take(first, second, first=first, second=second)
    assert set_value(shared.wanted_values[path], pickle.loads(kept))

    later = take(first, second, first=first, second=second)
    assert {entry.path: entry.digest for entry in later.entries}[path] == digest
    assert read_texts(later)[f"second{SHARED_STATE}"] == "0 tensors"
    assert not [p for p in read_texts(take(first, first=first)) if p.endswith(OPTIMIZER_STATE)]


@pytest.mark.parametrize("bound", [None, 2])
def test_a_queue_of_named_tuples_is_one_value_with_its_bound(bound: int | None) -> None:
    queue = deque([Transition([0.5], 1.0), Transition([0.25], 0.0)], maxlen=bound)
    other = deque(queue, maxlen=3)

    values = {e.path: e.digest for e in take(queue=queue, other=other).entries}

    assert set(values) == {"queue", "other"}
    assert values["queue"] != values["other"]
