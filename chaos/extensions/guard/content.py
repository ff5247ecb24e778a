"""The tensors of a file that is saved or read, by hashes of samples of them.

A sample of a tensor tells which save a file is of. The digest of all of it, taken from the model
and the optimizer themselves, shows whether it came back whole.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAMPLE = 256  # elements of a tensor
DEPTH_MAX = 8
HASHED_MAX = 4096  # tensors of a file


@dataclass(frozen=True)
class TensorContent:
    """The tensors of an object, and whether an optimizer's state is among them."""

    tensors: tuple[Any, ...]
    has_optimizer: bool

    @property
    def element_count(self) -> int:
        return sum(tensor.numel() for tensor in self.tensors)


def collect_tensors(
    value: Any,
) -> TensorContent:  # whatever `torch.save` is given, or `torch.load` returns
    """Return the tensors in nested mappings, sequences and modules."""
    import torch

    tensors: dict[int, Any] = {}
    has_optimizer = False
    stack: list[tuple[Any, int]] = [(value, 0)]
    while stack and len(tensors) <= HASHED_MAX:
        item, depth = stack.pop()
        if isinstance(item, torch.Tensor):
            tensors[id(item)] = item
        elif depth <= DEPTH_MAX:
            members = _members(item)
            has_optimizer |= isinstance(item, Mapping) and {"state", "param_groups"} <= set(item)
            stack.extend((member, depth + 1) for member in members)
    return TensorContent(tuple(tensors.values()), has_optimizer)


def _members(value: Any) -> Iterable[Any]:
    import torch

    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, torch.nn.Module):
        # Not its `state_dict()`, which may call code of the job, or wait for other ranks.
        return [*value.parameters(), *value.buffers()]
    return ()


def hash_tensors(tensors: Iterable[Any], dtypes: Iterable[Any] = ()) -> Iterator[tuple[int, str]]:
    """Yield a tensor's number and hash, once as it is and once in each other float type."""
    for number, tensor in enumerate(tensors):
        yield number, _hash(tensor, None)
        if tensor.is_floating_point():
            for dtype in dtypes:
                if dtype != tensor.dtype:
                    yield number, _hash(tensor, dtype)


def _hash(tensor: Any, dtype: Any) -> str:  # a dense torch.Tensor, and a torch.dtype or None
    import torch

    flat = tensor.detach().reshape(-1)
    sample = flat[:: max(1, len(flat) // SAMPLE)][:SAMPLE]
    if dtype is not None:
        sample = sample.to(dtype)
    raw = sample.contiguous().cpu().view(torch.uint8).numpy().tobytes()
    head = f"{sample.dtype}{tuple(tensor.shape)}".encode()
    return hashlib.blake2b(head + raw, digest_size=6).hexdigest()


def is_dense(tensor: Any) -> bool:  # a torch.Tensor
    """Return whether a tensor's numbers are all here."""
    is_strided = str(tensor.layout) == "torch.strided"
    return is_strided and not hasattr(tensor, "placements") and not tensor.is_meta


def load_safetensors(path: Path) -> Any:  # its tensors by name, which are not read yet
    """Return the content of a file of safetensors; None of any other file."""
    if path.suffix != ".safetensors":
        return None
    from safetensors import safe_open

    open_file = getattr(safe_open, "__wrapped__", safe_open)
    with open_file(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping


def match_tensors(content: TensorContent, trained: Iterable[Any]) -> dict[int, str]:
    """Return the hashes by which an object holds trained tensors, by the number of each.

    They may be there in another float type.
    """
    dense_tensors = [tensor for tensor in content.tensors if is_dense(tensor)]
    trained_tensors = list(trained)
    hash_by_number: dict[int, str] = {}
    if not all(map(is_dense, trained_tensors)) or {t.shape for t in trained_tensors}.isdisjoint(
        t.shape for t in dense_tensors
    ):
        return hash_by_number
    saved_hashes = {digest for _, digest in hash_tensors(dense_tensors)}
    float_types = {tensor.dtype for tensor in dense_tensors if tensor.is_floating_point()}
    for number, digest in hash_tensors(trained_tensors, float_types):
        if digest in saved_hashes:
            hash_by_number.setdefault(number, digest)
    return hash_by_number
