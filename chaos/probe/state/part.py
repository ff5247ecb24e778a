"""One part of a taken state: a component whose digest may still be on an accelerator.

A rank's share of sharded tensors is kept as sums that add up to the same for every sharding.
Each element is multiplied with a key of its tensor and of its place in the whole tensor, and the
products are added modulo 2**64. The sums of all ranks, added, are those of the whole tensors: they
do not depend on the number of ranks, on the axis, or on whether shards are even. Nothing is sent
between ranks. A copy counts once: that of the first rank of a mesh's replicated dimension, and rank
0's of a tensor that is not sharded. Ranks without a common mesh hold more, or less, than the whole,
which the number of elements shows.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Self, TypeAlias

import numpy as np

from chaos.model.event import Component, Share
from chaos.probe.state.canonical import Encoding, UnorderedTensors, begin_norm, digest_structure
from chaos.probe.state.fingerprint import host_array, mix_bits
from chaos.probe.steps import encode_number

LabelledTensor: TypeAlias = tuple[str, Any]  # a tensor, and its name where names matter

_CPU_SLAB_SIZE, _DEVICE_SLAB_SIZE = 1 << 14, 1 << 22  # elements widened to 64 bits at a time
_MASKS = {1: 0xFF, 2: 0xFFFF, 4: 0xFFFFFFFF, 8: -1}


def is_sharded(tensor: Any) -> bool:  # a torch.Tensor
    """Return whether a tensor is a DTensor: part of one that several ranks hold."""
    return hasattr(tensor, "placements") and hasattr(tensor, "device_mesh")


def start_share_sums(tensors: Sequence[LabelledTensor]) -> Callable[[], Share | None]:
    """Begin to sum a rank's share of tensors; return a function that waits for the sums.

    It returns None where none of the tensors is sharded, or if a tensor's placement gives its
    elements no fixed position, such as Partial (a pending reduction).
    """
    if not any(is_sharded(tensor) for _, tensor in tensors):
        return lambda: None
    shards = [_build_shard(tensor) for _, tensor in tensors]
    if any(box is None for box in shards):
        return lambda: None
    tensor_sums = [
        (_build_tensor_key(label, box), *_sum_shard(box))
        for (label, _), box in zip(tensors, shards, strict=True)
        if box is not None and box.is_counted
    ]
    elements = sum(
        counted_box.local.numel()
        for counted_box in shards
        if counted_box is not None and counted_box.is_counted
    )
    whole_elements = sum(
        prod(counted_box.shape) for counted_box in shards if counted_box is not None
    )
    return lambda: Share(
        sum=f"{sum(key * sum(map(int, sums)) for key, sums, _ in tensor_sums) % 2**64:016x}",
        squares=encode_number(sum(sum(map(float, squares)) for *_, squares in tensor_sums)),
        elements=elements,
        whole_elements=whole_elements,
    )


class _LocalShard:
    """The part of a tensor that this rank holds: its elements, and where they lie in the whole."""

    def __init__(
        self,
        local: Any,  # a torch.Tensor
        shape: Sequence[int],
        offsets: Sequence[int],
        *,
        is_counted: bool,
    ) -> None:
        if local.is_complex():  # two numbers each
            import torch

            local, shape, offsets = torch.view_as_real(local), (*shape, 2), (*offsets, 0)
        self.local, self.shape, self.offsets = local, tuple(shape), tuple(offsets)
        self.is_counted = is_counted


def _build_shard(tensor: Any) -> _LocalShard | None:  # a torch.Tensor
    import torch
    import torch.distributed as dist

    if not is_sharded(tensor):
        is_first = not dist.is_initialized() or dist.get_rank() == 0
        return _LocalShard(tensor.detach(), tensor.shape, [0] * tensor.dim(), is_counted=is_first)
    # torch 2.13: private, and what torch.distributed.checkpoint itself goes by. Of shards that are
    # uneven (a dimension that the mesh does not divide) it alone knows the offsets.
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    mesh, placements = tensor.device_mesh, tensor.placements
    coordinates = mesh.get_coordinate()
    local = tensor.to_local().detach()
    if coordinates is None or any(placement.is_partial() for placement in placements):
        return None
    shape, offsets = compute_local_shape_and_global_offset(tensor.shape, mesh, placements)
    if tuple(shape) != tuple(local.shape) or local.layout is not torch.strided:
        return None
    copy_coordinates = (
        coordinate
        for coordinate, placement_kind in zip(coordinates, placements, strict=True)
        if placement_kind.is_replicate()
    )
    return _LocalShard(local, tensor.shape, offsets, is_counted=not any(copy_coordinates))


def _build_tensor_key(label: str, box: _LocalShard) -> int:
    """Return the odd key of a tensor, of 64 bits with a sign: of its name, type and shape."""
    # Of the whole's shape, and not of the share's: all ranks have the same key for a tensor.
    # Without it, two tensors of a part that swapped their contents would have the sum they had
    # before.
    text = f"{label} {box.local.dtype} {box.shape}".encode()
    digest = hashlib.blake2b(text, digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True) | 1


def _sum_shard(box: _LocalShard) -> tuple[list[Any], list[Any]]:
    """Return sums of a box's elements, each times its key, and of their squares, slab by slab.

    A place in the whole tensor has one key per dimension, so that the elements are summed along
    one dimension after the other. Sums are modulo 2**64; on an accelerator they stay there.
    """
    # Equal sums are equal elements at equal places, but for chance. Keys are odd, so that a change
    # of one element alone always shows, and differ by place, so that swapped elements and two
    # changes of opposite sign do not cancel. Addition modulo 2**64 is exact and has no order: how
    # the tensor is cut over ranks, and in which order the sums are added, changes no bit.
    # The squares are no such proof: they are sums of doubles, which depend on the order in their
    # last bits, and serve for the norm alone.
    local = box.local.reshape(1) if box.local.dim() == 0 else box.local
    bits = _view_bits(local)
    row_keys, *other_keys = (
        _build_index_keys(dimension, offset, size, local.device)
        for dimension, (offset, size) in enumerate(
            zip(box.offsets or (0,), local.shape, strict=True)
        )
    )
    sums, squares = list[Any](), list[Any]()
    slab = _CPU_SLAB_SIZE if local.device.type == "cpu" else _DEVICE_SLAB_SIZE
    slab_rows = max(1, slab // max(1, prod(local.shape[1:])))
    for start in range(0, len(bits), slab_rows):
        slab_slice = slice(start, start + slab_rows)
        partial_sums = _widen_bits(bits[slab_slice])
        for keys in reversed(other_keys):
            partial_sums = (partial_sums * keys).sum(axis=-1)
        sums.append((partial_sums * row_keys[slab_slice]).sum())
        if local.is_floating_point():
            squares.append(local[slab_slice].double().square().sum())
    return sums, squares


def _build_index_keys(dimension: int, offset: int, size: int, device: Any) -> Any:
    """Return the odd keys of a range of one dimension, on a device."""
    # Each dimension has a range of its own: with the same keys for rows and columns a matrix would
    # have the sum of its transpose. A dimension has fewer than 2**48 places.
    start_index = (dimension << 48) + offset + 1
    keys = mix_bits(np.arange(start_index, start_index + size, dtype=np.uint64)) | np.uint64(1)
    if device.type == "cpu":
        return keys
    import torch

    return torch.from_numpy(keys.view(np.int64)).to(device)


def _view_bits(local: Any) -> Any:  # a torch.Tensor, or of numpy on the host
    """Return a tensor's elements as whole numbers of their size."""
    size = local.element_size()
    if local.device.type == "cpu":
        return host_array(local).view(f"u{size}").reshape(local.shape)
    import torch

    integer_types = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return local.contiguous().view(integer_types[size])


def _widen_bits(bits: Any) -> Any:  # as of `_view_bits`
    """Return whole numbers of any size as 64-bit ones, without a sign."""
    if isinstance(bits, np.ndarray):
        return bits.astype(np.uint64)
    return bits.long() & _MASKS[bits.element_size()]


@dataclass(frozen=True)
class UnreadComponent:
    """A `Component` that is not read yet."""

    name: str
    encoding: Encoding | UnorderedTensors
    count: int
    size: Callable[[], float | None]
    pending: bool = False
    structure: str = ""
    share: Callable[[], Share | None] = lambda: None

    @classmethod
    def from_value(cls, name: str, value: Any, *, with_size: bool) -> Self:  # any value
        """Take one value: its size is the norm of its tensors, or the value of a single number."""
        encoding = Encoding()
        encoding.add(value)
        count = len(value) if isinstance(value, dict | list | tuple) else 1
        size = _begin_size(encoding) if with_size else _return_none
        return cls(name, encoding, count, size, share=start_share_sums(encoding.labelled_tensors))

    @classmethod
    def from_entries(
        cls, name: str, entries: Sequence[tuple[str, Any]], *, with_size: bool
    ) -> Self:
        """Take named values, in their order."""
        encoding = Encoding()
        for entry_name, value in entries:
            encoding.add_entry(entry_name, value)
        size = _begin_size(encoding) if with_size else _return_none
        return cls(
            name, encoding, len(entries), size, share=start_share_sums(encoding.labelled_tensors)
        )

    @classmethod
    def from_tensors(cls, name: str, tensors: Iterable[Any], *, with_size: bool) -> Self:
        """Take tensors whose names and order do not matter."""
        encoding = UnorderedTensors(tensors)
        return cls(
            name=name,
            encoding=encoding,
            count=len(encoding.tensors),
            size=begin_norm(encoding.tensors) if with_size else _return_none,
            structure=digest_structure(tensor for _, tensor in encoding.labelled_tensors),
            share=start_share_sums(encoding.labelled_tensors),
        )

    @classmethod
    def from_numbers(cls, name: str, values: Sequence[Any]) -> Self:
        """Take a setting with a value per group; its size is the value, if all are equal."""
        encoding = Encoding()
        for value in values:
            encoding.add(value)
        distinct_values = set(encoding.numbers)
        size = distinct_values.pop() if len(distinct_values) == 1 else None
        return cls(name, encoding, len(values), lambda: size)

    def build_component(self) -> Component:
        size = self.size()
        return Component(
            name=self.name,
            digest=self.encoding.digest() if self.count else "",
            size=None if size is None else encode_number(float(size)),
            count=self.count,
            pending=self.pending,
            structure=self.structure,
            share=self.share(),
        )


def _return_none() -> None:
    return None


def _begin_size(encoding: Encoding) -> Callable[[], float | None]:
    if encoding.tensors:
        return begin_norm(encoding.tensors)
    if len(encoding.numbers) == 1:
        number = float(encoding.numbers[0])
        return lambda: number
    return _return_none
