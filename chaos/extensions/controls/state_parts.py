"""The parts of a job's state as values that can be kept, and set to what they were at the start.

A worker collects them where an order asks for parts of the state; ordinary runs never load this
module. Names are those of `chaos.probe.state.components`.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.model.events.state import SETTINGS
from chaos.probe.state.components import (
    build_name,
    list_model_tensors,
    list_persistent_buffers,
)
from chaos.probe.state.indirect_values import IndirectValue, OptimizerState
from chaos.probe.state.restored_values import STATE_PART, HeldValue
from chaos.probe.state.watch import StateObjects


@dataclass(frozen=True)
class TensorValues(IndirectValue):
    """The values of tensors, which stay the same objects."""

    tensors: Sequence[Any]

    def extract(self) -> list[Any]:
        """Return the tensors without their gradients."""
        return [tensor.detach() for tensor in self.tensors]

    def set(self, content: Sequence[Any]) -> bool:
        """Copy values into the tensors; return whether number and shapes fit."""
        if [tensor.shape for tensor in content] != [tensor.shape for tensor in self.tensors]:
            return False
        for tensor, values in zip(self.tensors, content, strict=True):
            tensor.detach().copy_(values)
        return True


@dataclass(frozen=True)
class GroupSetting(IndirectValue):
    """One setting of an optimizer, such as `lr`, in each of its parameter groups."""

    optimizer: Any
    name: str

    def extract(self) -> list[Any]:
        """Return the setting of each group."""
        return [group.get(self.name) for group in self.optimizer.param_groups]

    def set(self, content: Sequence[Any]) -> bool:
        """Set the setting of each group; return whether there are as many groups."""
        groups = self.optimizer.param_groups
        if len(groups) != len(content):
            return False
        tensor_type = sys.modules["torch"].Tensor
        for group, value in zip(groups, content, strict=True):
            if isinstance(group.get(self.name), tensor_type):
                group[self.name].copy_(value)
            else:
                group[self.name] = value
        return True


@dataclass(frozen=True)
class SavedState(IndirectValue):
    """The state that an object returns as `state_dict()`: a schedule's, a scaler's."""

    owner: Any

    def extract(self) -> dict[str, Any]:
        """Return the state."""
        return dict(self.owner.state_dict())

    def set(self, content: dict[str, Any]) -> bool:
        """Load the state."""
        self.owner.load_state_dict(content)
        return True


def collect_parts(
    roots: Sequence[Any], optimizers: Sequence[Any], state_objects: StateObjects
) -> dict[str, HeldValue]:
    """Return each part of the state that can be set, by its path."""
    values: dict[str, IndirectValue] = {}
    for name, tensors in list_model_tensors(roots, optimizers).items():
        values[name] = TensorValues(tensors)
    for index, root in enumerate(roots):
        if buffers := list_persistent_buffers(root):
            values[build_name("model.buffers", index)] = TensorValues(buffers)
    for index, optimizer in enumerate(optimizers):
        name = build_name("optimizer", index)
        values[name] = OptimizerState(optimizer)
        for setting in _list_settings(optimizer):
            part_name = setting if setting in SETTINGS else f"settings.{setting}"
            values[f"{name}.{part_name}"] = GroupSetting(optimizer, setting)
    values.update(_collect_saved_states(state_objects))
    for index, module in enumerate(state_objects.list_objects("ema")):
        values[build_name("ema", index)] = TensorValues([*module.parameters(), *module.buffers()])
    return {f"{STATE_PART}{name}": HeldValue(value, None, None) for name, value in values.items()}


def _list_settings(optimizer: Any) -> Iterator[str]:  # noqa: ANN401 - torch's
    """Yield the names of the settings that parameter groups have, without the parameters."""
    yield from sorted({name for group in optimizer.param_groups for name in group} - {"params"})


def _collect_saved_states(state_objects: StateObjects) -> dict[str, IndirectValue]:
    """Return the schedules, and the scalers that scale."""
    scalers = [s for s in state_objects.list_objects("scaler") if s.is_enabled()]
    return {
        build_name(kind, index): SavedState(owner)
        for kind, owners in (
            ("schedule", state_objects.list_objects("schedule")),
            ("scaler", scalers),
        )
        for index, owner in enumerate(owners)
    }
