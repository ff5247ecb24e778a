"""The inputs of the model since the last optimizer step, as digests per sample.

A tensor that is the result of trainable computation (`requires_grad`) is no
input: in a job of several models, one is often called with the output of another.
A call that no backward pass went through, such as that of a batch that the job left out
after all, is none of the step's.
Within `torch.func` a tensor is wrapped, once for each transform; the innermost is read.
"""

import hashlib
import sys
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from chaos.model.event import Inputs
from chaos.probe.state.fingerprint import Sums, sum_device_rows, sum_rows

# Of one step: eight digits for each are written with every step.
SAMPLES_MAX = 512
# Of mappings and sequences in a call's arguments, in which tensors are looked for.
_NESTED_MAX = 6
_HALF = np.uint64(32)  # every word affects the upper half of a sum
_NEXT = np.uint64(0x9E3779B97F4A7C15)


class _CallArguments(NamedTuple):
    """Those of a call: for each tensor a number of its place, dtype and shape, a sum per row."""

    columns: Sequence[tuple[np.uint64, Any]]  # the sums may be int64 tensors on an accelerator
    has_samples: bool


@dataclass(frozen=True)
class StepInputs:
    """The inputs for one step."""

    calls: Sequence[_CallArguments]

    @property
    def is_on_accelerator(self) -> bool:
        return any(
            not isinstance(rows, np.ndarray) for call in self.calls for _, rows in call.columns
        )

    def load_inputs(self) -> Inputs | None:
        """Return the digests; waits for the accelerator. None: there were no tensors."""
        if not self.calls:
            return None
        rows_by_call = [_join_columns(call) for call in self.calls]
        rows = rows_by_call[0] if len(rows_by_call) == 1 else np.concatenate(rows_by_call)
        has_samples = all(call.has_samples for call in self.calls)
        is_small = has_samples and len(rows) <= SAMPLES_MAX
        row_counts = [len(call_rows) for call_rows in rows_by_call]
        content = hashlib.blake2b(f"{has_samples}{row_counts}".encode(), digest_size=8)
        content.update(rows.tobytes())
        return Inputs(
            count=len(rows) if has_samples else 0,
            digest=content.hexdigest(),
            samples=(rows >> _HALF).astype(">u4").tobytes().hex() if is_small else None,
        )


class Owner:
    """A root by its parameters: whether an optimizer has any of them.

    A learning rate's range test, or a search among candidates, calls copies of the model that are
    then thrown away: their inputs are none of training.
    """

    def __init__(self, module: Any) -> None:  # a module of torch
        # Frozen ones as well: which are frozen changes, and not at the same step in a resumed job.
        self._parameters = [weakref.ref(parameter) for parameter in module.parameters()]
        self.is_trained = False
        self.epoch: int | None = None

    def update_trained(self, trained_ids: Collection[int], epoch: int) -> None:
        """Determine it for an epoch, by the ids of the parameters that optimizers have now."""
        self.epoch = epoch
        parameters = (parameter for ref in self._parameters if (parameter := ref()) is not None)
        self.is_trained = any(id(parameter) in trained_ids for parameter in parameters)


class ModuleCall:
    """A call of a root module, until it is counted for a step.

    The nodes of its outputs hold it, and it holds none of them: once a step has passed it by, a
    call that no backward pass reaches goes with its graph.
    """

    def __init__(
        self,
        number: int,
        arguments: _CallArguments,
        owner: Owner,
        reached_calls: list["ModuleCall"],
    ) -> None:
        self.number, self.arguments, self.owner = number, arguments, owner
        self._reached_calls = reached_calls
        # The error that the job handles as it calls, by its id: it would hold the job's frames.
        self._handled_error = id(sys.exc_info()[1])
        self.is_running = True
        self.has_nodes = self.is_counted = False

    def record_return(self, outputs: Any) -> None:
        """Watch for a backward pass through the outputs from now on."""
        self.is_running = False
        if self.is_counted:  # a step within the call has counted it
            return
        if outputs is None and id(sys.exc_info()[1]) != self._handled_error:
            self.is_counted = True  # it raised; a batch may be too large, or broken
        elif not _is_in_transform():
            for node in set(_iterate_nodes(outputs)):
                node.register_prehook(self._mark_reached)
                self.has_nodes = True

    def _mark_reached(self, _: Any) -> None:
        if not self.is_counted:
            self._reached_calls.append(self)


class InputWindow:
    """The calls of root modules, gathered until a step closes the window.

    A call is counted once, for the step before which a backward pass goes through it: in a
    pipeline that may be a later one.
    """

    def __init__(self) -> None:
        self._calls: list[ModuleCall] = []
        self._reached_calls: list[ModuleCall] = []
        self._call_count = 0
        self._salts: dict[tuple[Any, ...], np.uint64] = {}

    def add_call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], owner: Owner
    ) -> ModuleCall | None:
        """Take the arguments of a root module's call at once: the caller may overwrite them."""
        with leave_transforms():
            arguments = self._extract_arguments(args, kwargs)
        if arguments is None:
            return None
        self._call_count += 1
        self._calls.append(ModuleCall(self._call_count, arguments, owner, self._reached_calls))
        return self._calls[-1]

    def close_window(
        self, optimizers: Callable[[], Iterable[Any]] = list, epoch: int = 0
    ) -> StepInputs:
        """Return the calls of this step, and begin anew."""
        calls = self._select_calls(optimizers, epoch)
        for call in calls:
            call.is_counted = True
        self._calls = []
        self._reached_calls.clear()
        return StepInputs([call.arguments for call in calls])

    def gather_inputs(
        self, optimizers: Callable[[], Iterable[Any]] = list, epoch: int = 0
    ) -> StepInputs:
        """Return the calls of the coming step, as far as they are gathered."""
        return StepInputs([call.arguments for call in self._select_calls(optimizers, epoch)])

    def drop_calls(self) -> None:
        """Drop all calls but those that a backward pass is still to go through."""
        self._calls = [call for call in self._calls if call.is_running]
        self._reached_calls.clear()

    def _select_calls(
        self, optimizers: Callable[[], Iterable[Any]], epoch: int
    ) -> Sequence[ModuleCall]:
        """Return the calls that a backward pass went through, in their order.

        Calls of modules of which no optimizer has a parameter are left out, unless all are of such:
        an optimizer may have copies of the parameters, as for half precision. Where no call has
        been reached, gradients are made by other means, and all are of the step.
        """
        reached_calls = set(self._reached_calls)
        candidates = [call for call in reached_calls.union(self._calls) if not call.is_counted]
        candidates.sort(key=lambda call: call.number)
        unknown_owners = {
            candidate_owner
            for candidate in candidates
            if not (candidate_owner := candidate.owner).is_trained or candidate_owner.epoch != epoch
        }
        if unknown_owners:
            groups = (group for optimizer in optimizers() for group in optimizer.param_groups)
            trained_ids = {id(parameter) for group in groups for parameter in group["params"]}
            for owner in unknown_owners:
                owner.update_trained(trained_ids, epoch)
        candidates = [call for call in candidates if call.owner.is_trained] or candidates
        if reached_calls.isdisjoint(candidates):
            return candidates
        return [call for call in candidates if call in reached_calls or not call.has_nodes]

    def _extract_arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> _CallArguments | None:
        tensors = _find_single_tensor(args) if len(args) == 1 and not kwargs else None
        if tensors is None:
            tensors = list(_iterate_tensors((args, kwargs), ()))
        if not tensors:
            return None
        lengths = {tensor.shape[0] for _, tensor in tensors if tensor.shape}
        has_samples = len(lengths) == 1
        if has_samples:
            rows = [(path, tensor) for path, tensor in tensors if tensor.shape]
        else:
            rows = [(path, tensor.detach().reshape(1, -1)) for path, tensor in tensors]
        return _CallArguments([self._sum_column(*column) for column in rows], has_samples)

    def _sum_column(self, path: tuple[Any, ...], tensor: Any) -> tuple[np.uint64, Any]:
        key = (path, tensor.dtype, tensor.shape[1:])
        salt = self._salts.get(key)
        if salt is None:
            raw = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
            salt = self._salts[key] = np.uint64(int.from_bytes(raw, "little"))
        on_host = tensor.device.type == "cpu"
        return salt, sum_rows(tensor) if on_host else sum_device_rows(tensor)


def _join_columns(call: _CallArguments) -> Sums:
    """Return one number per sample, from all tensors of a call."""
    total: Sums | None = None
    for salt, column_rows in call.columns:
        rows = (
            column_rows
            if isinstance(column_rows, np.ndarray)
            else column_rows.cpu().numpy().view(np.uint64)
        )
        total = rows + salt if total is None else total * _NEXT + rows + salt
    assert total is not None
    return total


def _find_single_tensor(args: tuple[Any, ...]) -> list[tuple[tuple[Any, ...], Any]] | None:
    """Return the result of `_iterate_tensors` for the usual call, of one tensor; otherwise None."""
    value = _unwrap_tensor(args[0])
    torch = sys.modules["torch"]
    is_input = isinstance(value, torch.Tensor) and not value.requires_grad
    return [((0, 0), value)] if is_input and value.layout is torch.strided else None


def _iterate_tensors(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        value = _unwrap_tensor(value)
        if not value.requires_grad and value.layout is torch.strided:
            yield path, value
    elif len(path) <= _NESTED_MAX:
        for key, inner in _list_members(value):
            yield from _iterate_tensors(inner, (*path, key))


def _iterate_nodes(value: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the nodes of the graph that made a call's outputs."""
    if isinstance(value, sys.modules["torch"].Tensor):
        # A view that is changed in place has a new node, which does not lead to its old one.
        output_tensors = (value, value._base) if value._is_view() else (value,)  # noqa: SLF001 - torch has no public name
        yield from (node for tensor in output_tensors if (node := tensor.grad_fn) is not None)
    elif depth <= _NESTED_MAX:
        for _, inner in _list_members(value):
            yield from _iterate_nodes(inner, depth + 1)


def _is_in_transform() -> bool:
    functorch = sys.modules["torch"]._C._functorch  # noqa: SLF001 - there is no public name
    return functorch.peek_interpreter_stack() is not None


def leave_transforms() -> AbstractContextManager[Any]:
    """Return a context outside of `torch.func`, within which a tensor's bytes cannot be read."""
    if not _is_in_transform():
        return nullcontext()
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

    context: AbstractContextManager[Any] = temporarily_clear_interpreter_stack()
    return context


def _unwrap_tensor(value: Any) -> Any:
    """Return the tensor inside the wrappers of `torch.func` (torch 2.13), which have no bytes.

    A tensor that is differentiated is returned as it is: it is no input.
    """
    functorch = sys.modules["torch"]._C._functorch  # noqa: SLF001 - there is no public name
    while isinstance(value, sys.modules["torch"].Tensor) and (
        functorch.is_functorch_wrapped_tensor(value) and not value.requires_grad
    ):
        value = functorch.get_unwrapped(value)
    return value


def _list_members(value: Any) -> list[tuple[Any, Any]]:
    """Return the members of a container, with their names; a library's batch is a mapping."""
    if isinstance(value, Mapping):
        return sorted(value.items(), key=lambda item: str(item[0]))
    if isinstance(value, list | tuple):
        return list(enumerate(value))
    if is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in fields(value)]
    return []
