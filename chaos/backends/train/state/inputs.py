"""What the model was given since the last optimizer step, as digests per sample.

A tensor that is the result of trainable computation (`requires_grad`) is no
input: in a job of several models, one is often called with what another gave.
"""

import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from chaos.backends.train.state.fingerprint import (
    Sums,
    device_row_sums,
    host_bytes,
    mixed,
    row_sums,
)
from chaos.model.event import Inputs

SAMPLES_MAX = 512
_NESTED_MAX = 6
_NEXT = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class _Column:
    """One tensor of a call: its place, dtype and shape as a number, and a sum per row."""

    salt: np.uint64
    rows: Any  # Sums, or an int64 torch.Tensor on an accelerator


@dataclass(frozen=True)
class _Call:
    columns: tuple[_Column, ...]
    has_samples: bool


@dataclass(frozen=True)
class Given:
    """What was given for one step."""

    calls: tuple[_Call, ...]

    @property
    def is_late(self) -> bool:
        """Whether a part of it still is on an accelerator."""
        return any(not isinstance(c.rows, np.ndarray) for call in self.calls for c in call.columns)

    def read(self) -> Inputs | None:
        """Give the digests; waits for what is on an accelerator. None: no tensors were given."""
        if not self.calls:
            return None
        joined = [_joined(call) for call in self.calls]
        digest = hashlib.blake2b(digest_size=8)
        for call, rows in zip(self.calls, joined, strict=True):
            digest.update(b"%d;" % len(rows) + bytes([call.has_samples]) + rows.tobytes())
        has_samples = all(call.has_samples for call in self.calls)
        rows = np.concatenate(joined)
        few = has_samples and len(rows) <= SAMPLES_MAX
        return Inputs(
            count=len(rows) if has_samples else 0,
            digest=digest.hexdigest(),
            samples="".join(f"{row >> 32:08x}" for row in rows.tolist()) if few else None,
        )


class InputWindow:
    """Gathers calls until a step closes the window."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._salts: dict[tuple[Any, ...], np.uint64] = {}

    def called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Take what a root module is called with, now: the caller may overwrite it later."""
        tensors = list(_tensors((args, kwargs), ()))
        if not tensors:
            return
        lengths = {len(tensor) for _, tensor in tensors if tensor.dim() > 0}
        has_samples = len(lengths) == 1
        batched = [(p, t) for p, t in tensors if t.dim() > 0] if has_samples else tensors
        columns = tuple(self._column(path, t, by_row=has_samples) for path, t in batched)
        self._calls.append(_Call(columns, has_samples))

    def close(self) -> Given:
        """Give what was gathered, and begin anew."""
        calls, self._calls = tuple(self._calls), []
        return Given(calls)

    def _column(self, path: tuple[Any, ...], tensor: Any, *, by_row: bool) -> _Column:  # noqa: ANN401
        if not by_row:
            tensor = tensor.detach().reshape(1, -1)
        shape = tuple(tensor.shape[1:])
        salt = self._salt((path, str(tensor.dtype), shape))
        if tensor.device.type != "cpu":
            return _Column(salt, device_row_sums(tensor))
        raw = host_bytes(tensor)
        width = len(raw) // len(tensor) if len(tensor) else 0
        return _Column(salt, row_sums(raw.reshape(len(tensor), width)))

    def _salt(self, key: tuple[Any, ...]) -> np.uint64:
        known = self._salts.get(key)
        if known is None:
            raw = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
            known = self._salts[key] = np.uint64(int.from_bytes(raw, "little"))
        return known


def _joined(call: _Call) -> Sums:
    """Give one number per sample, from all the tensors that it is made of."""
    total = np.zeros(1, dtype=np.uint64)
    for column in call.columns:
        rows = column.rows
        if not isinstance(rows, np.ndarray):
            rows = rows.cpu().numpy().view(np.uint64)
        total = total * _NEXT + mixed(rows + column.salt)
    return mixed(total)


def _tensors(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:  # noqa: ANN401
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        if not value.requires_grad and value.layout is torch.strided:
            yield path, value
    elif len(path) <= _NESTED_MAX:
        for key, inner in _members(value):
            yield from _tensors(inner, (*path, key))


def _members(value: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401
    """Give what a container holds, each with its name; a batch of a library's is a mapping."""
    if isinstance(value, Mapping):
        return sorted(value.items(), key=lambda item: str(item[0]))
    if isinstance(value, list | tuple):
        return list(enumerate(value))
    if is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in fields(value)]
    return []
