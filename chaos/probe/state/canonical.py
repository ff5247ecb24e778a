"""Values as canonical bytes, which are equal if and only if the values are equal to the last bit.

Floats are compared by their bits: -0.0 differs from 0.0, and a NaN equals only
itself. Mappings are read in the order of their keys, sets in that of their members.
A list equals a tuple of the same members, since files lose the difference. A
number of Python equals the same number of numpy.
"""

import functools
import hashlib
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from chaos.probe.state.fingerprint import host_bytes, split_words, sum_blocks, sum_device_blocks

Piece: TypeAlias = Any  # bytes, or an int64 torch.Tensor that still is on an accelerator

_SMALL = 4096  # bytes up to which a tensor is hashed as it is
_DEPTH_MAX = 32
# Modules and the like; torch's and numpy's old generators; Python's.
_ACCOUNTS = ("state_dict", "get_state", "getstate")
_DIGEST_BYTES = 8


class Encoding:
    """The content of a component, as pieces that are joined when its digest is asked for.

    `leaf_kinds` are the kinds of values in it, by the first letter of a piece: `f` and `c` for
    floats, `i` for whole numbers. Tensors and arrays count as the numbers that they hold.
    `originals` are its tensors as they were given, sharded ones too, each with its entry's name.
    """

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.tensors: list[Any] = []
        self.numbers: list[float] = []
        self.leaf_kinds: set[bytes] = set()
        self.labelled_tensors: list[tuple[str, Any]] = []
        self._entry = ""

    @property
    def is_on_accelerator(self) -> bool:
        return any(not isinstance(piece, bytes) for piece in self.pieces)

    def digest(self) -> str:
        """Return 16 hexadecimal digits; waits for what is on an accelerator."""
        return hashlib.blake2b(self.join_pieces(), digest_size=_DIGEST_BYTES).hexdigest()

    def join_pieces(self) -> bytes:
        """Return all pieces as one; waits for what is on an accelerator."""
        read = (
            piece if isinstance(piece, bytes) else piece.cpu().numpy().tobytes()
            for piece in self.pieces
        )
        return b"".join(read)

    def add(self, value: Any, depth: int = 0) -> None:  # any value
        # A structure may contain itself. What lies deeper is left out on both sides, and equal.
        if depth > _DEPTH_MAX:
            self.pieces.append(b"...")
            return
        if _is_tensor(value):
            self.add_tensor(value)
            return
        plain = _encode_plain(value)
        if plain is not None:
            self.pieces.append(plain)
            self.leaf_kinds.add(plain[:1])
            if isinstance(value, int | float) and not isinstance(value, bool):
                self.numbers.append(value)
        elif isinstance(value, Mapping):
            self._add_mapping(value, depth)
        elif isinstance(value, list | tuple):
            self._add_all(b"l", value, depth)
        elif isinstance(value, set | frozenset):
            self.pieces += [b"s%d;" % len(value), *sorted(encode_value(item) for item in value)]
        else:
            self._add_object(value, depth)

    def add_entry(self, name: str, value: Any) -> None:  # any value
        self._entry = name
        self.pieces.append(name.encode() + b"=")
        self.add(value)

    def add_tensor(self, tensor: Any) -> None:  # a torch.Tensor
        self.labelled_tensors.append((self._entry, tensor))
        tensor = _make_readable(tensor)
        self.leaf_kinds.add(b"f" if tensor.is_floating_point() or tensor.is_complex() else b"i")
        self.pieces.append(_encode_heading(tensor.dtype, tensor.shape))
        if tensor.is_meta:  # no numbers: such as a skeleton for `functional_call`
            return
        self.tensors.append(tensor)
        if tensor.device.type != "cpu":
            self.pieces.append(sum_device_blocks(tensor))
            return
        # A large tensor is summed and not hashed: that costs an eighth here, and an accelerator can
        # make the same sums, so that a job that moves between the two has one digest.
        raw = host_bytes(tensor)
        small = len(raw) <= _SMALL
        self.pieces.append(raw.tobytes() if small else sum_blocks(split_words(raw)).tobytes())

    # -- inside ------------------------------------------------------------------------------

    def _add_all(self, tag: bytes, values: Iterable[Any], depth: int) -> None:
        members = list(values)
        self.pieces.append(tag + b"%d;" % len(members))
        for member in members:
            self.add(member, depth + 1)

    def _add_mapping(self, value: Mapping[Any, Any], depth: int) -> None:
        self.pieces.append(b"m%d;" % len(value))
        for key, name in sorted(
            ((encode_value(key), key) for key in value), key=lambda pair: pair[0]
        ):
            self.pieces.append(key)
            self.add(value[name], depth + 1)

    def _add_object(self, value: Any, depth: int) -> None:
        kind, inner = _unpack_object(value)
        self.leaf_kinds.add(_find_leaf_kind(value))
        self.pieces.append(b"o" + _encode_text(kind))
        self.add(inner, depth + 1)


class UnorderedTensors:
    """Tensors in any order: two are equal if they hold the same tensors."""

    def __init__(self, tensors: Iterable[Any]) -> None:
        self._encodings = []
        for tensor in tensors:
            encoding = Encoding()
            encoding.add_tensor(tensor)
            self._encodings.append(encoding)

    @property
    def tensors(self) -> list[Any]:
        """The tensors, in a form that can be read."""
        return [tensor for encoding in self._encodings for tensor in encoding.tensors]

    @property
    def labelled_tensors(self) -> list[tuple[str, Any]]:
        """The tensors as they were given, without names."""
        return [original for encoding in self._encodings for original in encoding.labelled_tensors]

    @property
    def is_on_accelerator(self) -> bool:
        return any(encoding.is_on_accelerator for encoding in self._encodings)

    def digest(self) -> str:
        """Return 16 hexadecimal digits; waits for what is on an accelerator."""
        joined = b"".join(sorted(encoding.join_pieces() for encoding in self._encodings))
        return hashlib.blake2b(joined, digest_size=_DIGEST_BYTES).hexdigest()


def digest_structure(tensors: Iterable[Any], kind: str = "") -> str:
    """Return a digest of a kind and of the tensors' dtypes and shapes, in any order."""
    headings = b"".join(sorted(_encode_heading(tensor.dtype, tensor.shape) for tensor in tensors))
    return hashlib.blake2b(kind.encode() + headings, digest_size=_DIGEST_BYTES).hexdigest()


def encode_value(value: Any) -> bytes:  # any value on the host
    """Return a value's canonical bytes."""
    encoding = Encoding()
    encoding.add(value)
    return encoding.join_pieces()


def begin_norm(tensors: Iterable[Any]) -> Callable[[], float | None]:
    """Begin to compute the L2 norm of all floating tensors; return a function that waits for it."""
    from torch.nn.utils import get_total_norm

    floating = [t for t in tensors if t.is_floating_point() or t.is_complex()]
    norm = get_total_norm(floating) if floating else None
    return lambda: None if norm is None else abs(norm.item())


def _encode_plain(value: Any) -> bytes | None:
    """Return the bytes of a value without parts; None for any other."""
    for kind, encode in _PLAIN:
        if isinstance(value, kind):
            return encode(value)
    item = getattr(value, "item", None)  # one of numpy's scalars
    if item is not None and type(value).__module__ == "numpy" and not hasattr(value, "__len__"):
        return _encode_plain(item())
    return None


@functools.cache
def _encode_heading(dtype: Any, shape: Any) -> bytes:  # a torch.dtype and a torch.Size
    return f"t{dtype}{tuple(shape)};".encode()


def _encode_text(value: str) -> bytes:
    raw = value.encode("utf-8", "surrogatepass")
    return b"%d:" % len(raw) + raw


_PLAIN: tuple[tuple[type | tuple[type, ...], Callable[[Any], bytes]], ...] = (
    (type(None), lambda _: b"N"),
    (bool, lambda v: b"T" if v else b"F"),
    (float, lambda v: b"f" + struct.pack("<d", v)),
    (int, lambda v: b"i%d;" % v),
    (str, lambda v: b"u" + _encode_text(v)),
    ((bytes, bytearray), lambda v: b"b%d:" % len(v) + bytes(v)),
    (complex, lambda v: b"c" + struct.pack("<dd", v.real, v.imag)),
)


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _make_readable(tensor: Any) -> Any:  # a torch.Tensor
    """Return a tensor whose bytes can be read: the local part of a DTensor, dense, resolved."""
    import torch

    local = getattr(tensor, "to_local", None)  # a DTensor
    if local is not None:
        tensor = local()
    tensor = tensor.detach()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_conj() or tensor.is_neg():
        return tensor.resolve_conj().resolve_neg()
    return tensor


def _unpack_object(value: Any) -> tuple[str, Any]:
    """Return an object's kind and content: its `state_dict` or the like, else its attributes."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    for method_name in _ACCOUNTS:
        method = getattr(value, method_name, None)
        if callable(method) and not isinstance(value, type):
            return name, method()
    storage = _find_storage(value)
    if storage is not None:  # its `repr` has a line for each byte
        return name, storage
    if hasattr(value, "dtype") and hasattr(value, "tobytes"):  # an array
        content = value.tolist() if value.dtype.hasobject else value.tobytes()
        return f"{value.dtype}{value.shape}", content
    if hasattr(value, "__qualname__"):
        return "named", f"{value.__module__}.{value.__qualname__}"
    return name, getattr(value, "__dict__", None) or _describe_object(value)


def _find_storage(value: Any) -> Any:  # any object
    """Return the bytes of a tensor's storage, as a tensor; None of any other object."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    if isinstance(value, torch.TypedStorage):
        value = value._untyped_storage  # noqa: SLF001 (torch 2.13: `untyped()` warns)
    if not isinstance(value, torch.UntypedStorage):
        return None
    return torch.empty(0, dtype=torch.uint8, device=value.device).set_(value)


def _describe_object(value: Any) -> Any:
    """Return the `repr` of an object without attributes, the state of a generator."""
    if hasattr(value, "bit_generator"):
        return value.bit_generator.state
    # An address is another one in each process, and no state.
    text = repr(value)
    return None if " at 0x" in text else text


def _find_leaf_kind(value: Any) -> bytes:
    """Return the kind of an array's values; `o` for any other object."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind in ("f", "c"):
        return b"f"
    return b"i" if kind in ("i", "u") else b"o"
