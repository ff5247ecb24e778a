"""The inputs of the model since the last optimizer step, as digests per sample.

A tensor that is the result of trainable computation (`requires_grad`) is no
input: in a job of several models, one is often called with the output of another.
A call that no backward pass went through, such as that of a batch that the job left out
after all, is none of the step's.
Within `torch.func` a tensor is wrapped, once for each transform; the innermost is read.
"""

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from chaos.model.event import Inputs
from chaos.probe.state.fingerprint import Sums, device_row_sums, row_sums
from chaos.probe.state.roots import Owner

# Of one step: eight digits for each are written with every step.
SAMPLES_MAX = 512
# Of mappings and sequences in a call's arguments, in which tensors are looked for.
_NESTED_MAX = 6
_HALF = np.uint64(32)  # every word affects the upper half of a sum
_NEXT = np.uint64(0x9E3779B97F4A7C15)


class _Arguments(NamedTuple):
    """Those of a call: for each tensor a number of its place, dtype and shape, a sum per row."""

    columns: Sequence[tuple[np.uint64, Any]]  # the sums may be int64 tensors on an accelerator
    has_samples: bool


@dataclass(frozen=True)
class Given:
    """The inputs for one step."""

    calls: Sequence[_Arguments]

    @property
    def is_late(self) -> bool:
        return any(not isinstance(rows, np.ndarray) for c in self.calls for _, rows in c.columns)

    def read(self) -> Inputs | None:
        """Return the digests; waits for the accelerator. None: there were no tensors."""
        if not self.calls:
            return None
        joined = [_joined(call) for call in self.calls]
        rows = joined[0] if len(joined) == 1 else np.concatenate(joined)
        has_samples = all(call.has_samples for call in self.calls)
        few = has_samples and len(rows) <= SAMPLES_MAX
        calls = [len(own) for own in joined]
        content = hashlib.blake2b(f"{has_samples}{calls}".encode(), digest_size=8)
        content.update(rows.tobytes())
        return Inputs(
            count=len(rows) if has_samples else 0,
            digest=content.hexdigest(),
            samples=(rows >> _HALF).astype(">u4").tobytes().hex() if few else None,
        )


class Call:
    """A call of a root module, until it is counted for a step.

    The nodes of its outputs hold it, and it holds none of them: once a step has passed it by, a
    call that no backward pass reaches goes with its graph.
    """

    def __init__(
        self, number: int, arguments: _Arguments, owner: Owner, reached: list["Call"]
    ) -> None:
        self.number, self.arguments, self.owner = number, arguments, owner
        self._reached = reached
        # The error that the job handles as it calls, by its id: it would hold the job's frames.
        self._handled = id(sys.exc_info()[1])
        self.is_running = True
        self.has_nodes = self.is_over = False

    def returned(self, outputs: Any) -> None:
        """Watch for a backward pass through the outputs from now on."""
        self.is_running = False
        if self.is_over:  # a step within the call has counted it
            return
        if outputs is None and id(sys.exc_info()[1]) != self._handled:
            self.is_over = True  # it raised; a batch may be too large, or broken
        elif not _is_in_transform():
            for node in set(_nodes(outputs)):
                node.register_prehook(self._reach)
                self.has_nodes = True

    def _reach(self, _: Any) -> None:
        if not self.is_over:
            self._reached.append(self)


class InputWindow:
    """The calls of root modules, gathered until a step closes the window.

    A call is counted once, for the step before which a backward pass goes through it: in a
    pipeline that may be a later one.
    """

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._reached: list[Call] = []
        self._number = 0
        self._salts: dict[tuple[Any, ...], np.uint64] = {}

    def called(self, args: tuple[Any, ...], kwargs: dict[str, Any], owner: Owner) -> Call | None:
        """Take the arguments of a root module's call at once: the caller may overwrite them."""
        with outside_of_transforms():
            arguments = self._arguments(args, kwargs)
        if arguments is None:
            return None
        self._number += 1
        self._calls.append(Call(self._number, arguments, owner, self._reached))
        return self._calls[-1]

    def close(self, optimizers: Callable[[], Iterable[Any]] = list, epoch: int = 0) -> Given:
        """Return the calls of this step, and begin anew."""
        calls = self._of_step(optimizers, epoch)
        for call in calls:
            call.is_over = True
        self._calls = []
        self._reached.clear()
        return Given([call.arguments for call in calls])

    def given(self, optimizers: Callable[[], Iterable[Any]] = list, epoch: int = 0) -> Given:
        """Return the calls of the coming step, as far as they are gathered."""
        return Given([call.arguments for call in self._of_step(optimizers, epoch)])

    def drop(self) -> None:
        """Drop all calls but those that a backward pass is still to go through."""
        self._calls = [call for call in self._calls if call.is_running]
        self._reached.clear()

    def _of_step(self, optimizers: Callable[[], Iterable[Any]], epoch: int) -> Sequence[Call]:
        """Return the calls that a backward pass went through, in their order.

        Calls of modules of which no optimizer has a parameter are left out, unless all are of such:
        an optimizer may have copies of the parameters, as for half precision. Where no call has
        been reached, gradients are made by other means, and all are of the step.
        """
        reached = set(self._reached)
        gathered = [call for call in reached.union(self._calls) if not call.is_over]
        gathered.sort(key=lambda call: call.number)
        unknown = {o for c in gathered if not (o := c.owner).is_trained or o.epoch != epoch}
        if unknown:
            groups = (group for optimizer in optimizers() for group in optimizer.param_groups)
            trained = {id(parameter) for group in groups for parameter in group["params"]}
            for owner in unknown:
                owner.look(trained, epoch)
        gathered = [call for call in gathered if call.owner.is_trained] or gathered
        if reached.isdisjoint(gathered):
            return gathered
        return [call for call in gathered if call in reached or not call.has_nodes]

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Arguments | None:
        tensors = _of_one(args) if len(args) == 1 and not kwargs else None
        if tensors is None:
            tensors = list(_tensors((args, kwargs), ()))
        if not tensors:
            return None
        lengths = {tensor.shape[0] for _, tensor in tensors if tensor.shape}
        has_samples = len(lengths) == 1
        if has_samples:
            rows = [(path, tensor) for path, tensor in tensors if tensor.shape]
        else:
            rows = [(path, tensor.detach().reshape(1, -1)) for path, tensor in tensors]
        return _Arguments([self._column(*column) for column in rows], has_samples)

    def _column(self, path: tuple[Any, ...], tensor: Any) -> tuple[np.uint64, Any]:
        key = (path, tensor.dtype, tensor.shape[1:])
        salt = self._salts.get(key)
        if salt is None:
            raw = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
            salt = self._salts[key] = np.uint64(int.from_bytes(raw, "little"))
        on_host = tensor.device.type == "cpu"
        return salt, row_sums(tensor) if on_host else device_row_sums(tensor)


def _joined(call: _Arguments) -> Sums:
    """Return one number per sample, from all tensors of a call."""
    total: Sums | None = None
    for salt, found in call.columns:
        rows = found if isinstance(found, np.ndarray) else found.cpu().numpy().view(np.uint64)
        total = rows + salt if total is None else total * _NEXT + rows + salt
    assert total is not None
    return total


def _of_one(args: tuple[Any, ...]) -> list[tuple[tuple[Any, ...], Any]] | None:
    """Return the result of `_tensors` for the usual call, with a single tensor; otherwise None."""
    value = _unwrapped(args[0])
    torch = sys.modules["torch"]
    is_input = isinstance(value, torch.Tensor) and not value.requires_grad
    return [((0, 0), value)] if is_input and value.layout is torch.strided else None


def _tensors(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        value = _unwrapped(value)
        if not value.requires_grad and value.layout is torch.strided:
            yield path, value
    elif len(path) <= _NESTED_MAX:
        for key, inner in _members(value):
            yield from _tensors(inner, (*path, key))


def _nodes(value: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the nodes of the graph that made a call's outputs."""
    if isinstance(value, sys.modules["torch"].Tensor):
        # A view that is changed in place has a new node, which does not lead to its old one.
        made = (value, value._base) if value._is_view() else (value,)  # noqa: SLF001 - torch has no public name
        yield from (node for tensor in made if (node := tensor.grad_fn) is not None)
    elif depth <= _NESTED_MAX:
        for _, inner in _members(value):
            yield from _nodes(inner, depth + 1)


def _is_in_transform() -> bool:
    functorch = sys.modules["torch"]._C._functorch  # noqa: SLF001 - there is no public name
    return functorch.peek_interpreter_stack() is not None


def outside_of_transforms() -> AbstractContextManager[Any]:
    """Return a context outside of `torch.func`, within which a tensor's bytes cannot be read."""
    if not _is_in_transform():
        return nullcontext()
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

    outside: AbstractContextManager[Any] = temporarily_clear_interpreter_stack()
    return outside


def _unwrapped(value: Any) -> Any:
    """Return the tensor inside the wrappers of `torch.func` (torch 2.13), which have no bytes.

    A tensor that is differentiated is returned as it is: it is no input.
    """
    functorch = sys.modules["torch"]._C._functorch  # noqa: SLF001 - there is no public name
    while isinstance(value, sys.modules["torch"].Tensor) and (
        functorch.is_functorch_wrapped_tensor(value) and not value.requires_grad
    ):
        value = functorch.get_unwrapped(value)
    return value


def _members(value: Any) -> list[tuple[Any, Any]]:
    """Return the members of a container, with their names; a library's batch is a mapping."""
    if isinstance(value, Mapping):
        return sorted(value.items(), key=lambda item: str(item[0]))
    if isinstance(value, list | tuple):
        return list(enumerate(value))
    if is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in fields(value)]
    return []
