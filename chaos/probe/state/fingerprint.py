"""Position-dependent sums of bytes, the same on any device.

Bytes are read as 32-bit words. Each word is multiplied with the odd 64-bit key of
its position, and the products are added modulo 2**64. So every single change shows,
and swapped or sign-flipped elements do not cancel. A tensor on an accelerator is
summed there, and the host does not wait; the sums equal those of the host to the
last bit.
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Words: TypeAlias = npt.NDArray[np.uint32]
Sums: TypeAlias = npt.NDArray[np.uint64]

BLOCK = 1 << 16  # words that share a table of keys: 256 KiB of a tensor, 512 KiB of keys
_SLAB = 256 * BLOCK  # words that an accelerator widens to 64 bits at a time: 128 MiB
_WORD = 4

_host_keys: list[Sums] = []
_device_keys: dict[tuple[str, int], Any] = {}


def build_keys(count: int) -> Sums:
    """Return the keys of the first `count` places: splitmix64 of the place, made odd."""
    if not _host_keys or len(_host_keys[0]) < count:
        size = max(BLOCK, 1 << (count - 1).bit_length())
        _host_keys[:] = [mix_bits(np.arange(1, size + 1, dtype=np.uint64)) | np.uint64(1)]
    return _host_keys[0][:count]


def mix_bits(values: Sums) -> Sums:
    """Return 64-bit numbers whose every bit depends on every bit of `values` (splitmix64)."""
    bits = values * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def host_bytes(tensor: Any) -> npt.NDArray[np.uint8]:  # a torch.Tensor
    """Return a CPU tensor's bytes, in the order of its elements."""
    array = host_array(tensor)
    return array.reshape(-1).view(np.uint8)


def host_array(tensor: Any) -> npt.NDArray[Any]:  # a torch.Tensor
    """Return a CPU tensor's elements of any type, without a copy if they are contiguous."""
    try:
        array: npt.NDArray[Any] = tensor.detach().numpy()
    except TypeError:  # numpy lacks its type, such as bfloat16
        import torch

        shape = (*tensor.shape, tensor.element_size())
        flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        array = flat.numpy().reshape(shape)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def split_words(raw: npt.NDArray[np.uint8]) -> Words:
    """Return bytes as words; the last one is filled with zeros."""
    missing = -len(raw) % _WORD
    return (np.pad(raw, (0, missing)) if missing else raw).view(np.uint32)


def sum_blocks(words: Words) -> Sums:
    """Return one sum per block of words."""
    table = build_keys(BLOCK)
    # A sum for each block, and no single one: one table of keys then serves tensors of any size.
    starts = range(0, len(words), BLOCK)
    blocks = (words[start : start + BLOCK] for start in starts)
    return np.array([np.sum(block * table[: len(block)]) for block in blocks], dtype=np.uint64)


def sum_rows(tensor: Any) -> Sums:  # a torch.Tensor
    """Return one sum per row of a CPU tensor: per entry of its first dimension."""
    array = host_array(tensor)
    count = len(array)
    width = array.nbytes // count if count else 0
    rows = array.reshape(-1).view(np.uint8).reshape(count, width)
    missing = -width % _WORD
    words = (np.pad(rows, ((0, 0), (0, missing))) if missing else rows).view(np.uint32)
    sums: Sums = np.dot(words.astype(np.uint64), build_keys(words.shape[1]))
    return sums


def sum_device_blocks(tensor: Any) -> Any:  # torch.Tensor
    """Return the sums of `sum_blocks`, as int64 on the tensor's device; the host does not wait."""
    import torch

    raw = _align_bytes(tensor.detach().contiguous().reshape(-1).view(torch.uint8))
    words = raw.view(torch.int32)
    table = build_device_keys(tensor.device, BLOCK)
    sums = []
    for start in range(0, len(words), _SLAB):
        # torch has no unsigned words, and a sign would be spread over the upper half. Products and
        # sums of int64 wrap around as uint64 do, so that both devices agree to the last bit.
        slab = words[start : start + _SLAB].to(torch.int64) & 0xFFFFFFFF
        full_length = len(slab) // BLOCK * BLOCK
        if full_length:
            sums.append((slab[:full_length].reshape(-1, BLOCK) * table).sum(dim=1))
        if full_length < len(slab):
            last_words = slab[full_length:]
            sums.append((last_words * table[: len(last_words)]).sum().reshape(1))
    return torch.cat(sums) if sums else words.to(torch.int64)


def sum_device_rows(tensor: Any) -> Any:  # torch.Tensor
    """Return the sums of `sum_rows`, as int64 on the tensor's device."""
    import torch

    rows = tensor.detach().contiguous().reshape(len(tensor), -1).view(torch.uint8)
    missing = -rows.shape[1] % _WORD
    words = _align_bytes(torch.nn.functional.pad(rows, (0, missing))).view(torch.int32)
    wide_words = words.to(torch.int64) & 0xFFFFFFFF
    return (wide_words * build_device_keys(tensor.device, wide_words.shape[1])).sum(dim=1)


def build_device_keys(device: Any, count: int) -> Any:  # a torch.device and a torch.Tensor
    """Return the first keys as int64 on a device, and keep them there."""
    import torch

    size = max(BLOCK, 1 << (count - 1).bit_length())
    device_key = (str(device), size)
    if device_key not in _device_keys:
        _device_keys[device_key] = torch.from_numpy(build_keys(size).view(np.int64)).to(device)
    return _device_keys[device_key][:count]


def _align_bytes(raw: Any) -> Any:  # a torch.Tensor of bytes
    """Return bytes that can be read as words: padded, and beginning at a word's boundary."""
    import torch

    if raw.dim() == 1:
        raw = torch.nn.functional.pad(raw, (0, -len(raw) % _WORD))
    return raw.clone() if raw.storage_offset() % _WORD else raw
