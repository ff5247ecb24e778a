"""The content of a file, if it can be read without executing anything in it."""

import codecs
import csv
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Of a file that is read whole to be looked into, while the job waits.
READ_MAX = 64 << 20
TABLE_MAX = 4 << 20  # read line by line, each time that it is written
_START = 4096
_PREFIX = 8  # of a file of safetensors: the length of its heading
_UNREADABLE = (
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    struct.error,
    csv.Error,
    zipfile.BadZipFile,
)


def load_content(path: Path) -> Any:  # whatever is in it
    """Return the content of a file of JSON, CSV, numpy or safetensors; None of any other.

    Arrays are known by how the file begins as well: what is renamed once it is whole has no such
    name before.
    """
    if path.stat().st_size > READ_MAX:
        return None
    try:
        reader = _READERS.get(path.suffix) or _find_reader(path)
        return None if reader is None else reader(path)
    except _UNREADABLE:  # its content does not fit its name, or is cut off
        return None


def _find_reader(path: Path) -> Callable[[Path], Any] | None:
    """Return what reads a file of arrays, by its first bytes."""
    with path.open("rb") as file:
        start = file.read(_PREFIX + 1)
    if start.startswith(b"PK\x03\x04"):  # a zip archive, as `torch.save` writes as well
        with zipfile.ZipFile(path) as archive:
            return (
                _load_numpy if all(name.endswith(".npy") for name in archive.namelist()) else None
            )
    if start.startswith(b"\x93NUMPY"):
        return _load_numpy
    return _load_safetensors if start.endswith(b"{") and len(start) > _PREFIX else None


def is_text(path: Path) -> bool:
    """Return whether a file begins as text does: the audit event lacks the mode of `open`."""
    with path.open("rb") as file:
        start = file.read(_START)
    decoder = codecs.getincrementaldecoder("utf-8")()  # which may be cut within a character
    try:
        return "\0" not in decoder.decode(start)
    except UnicodeDecodeError:
        return False


def _load_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _load_table(path: Path) -> dict[str, list[Any]] | None:
    """Return the columns of a table with a line of names; a column of numbers only as numbers."""
    if path.stat().st_size > TABLE_MAX:
        return None
    with path.open(encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file)
    if not names or len(set(names)) < len(names) or any(map(_is_number, names)):
        return None
    columns = zip(*rows, strict=True) if rows else [() for _ in names]  # of one length each
    return {name: _convert_column(values) for name, values in zip(names, columns, strict=True)}


def _convert_column(values: tuple[str, ...]) -> list[Any]:
    if all(value.lstrip("+-").isdigit() for value in values):
        return [int(value) for value in values]
    return [float(value) for value in values] if all(map(_is_number, values)) else list(values)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _load_numpy(path: Path) -> Any:
    import numpy as np

    with path.open("rb") as file:
        arrays = np.load(file, allow_pickle=False)
        if isinstance(arrays, np.ndarray):
            return _convert_array(arrays)
        return {name: _convert_array(arrays[name]) for name in arrays.files}


def _load_safetensors(path: Path) -> Any:
    import numpy as np

    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:_PREFIX])
    heading = json.loads(raw[_PREFIX : _PREFIX + length])
    data = raw[_PREFIX + length :]
    array_by_name: dict[str, Any] = {"metadata": heading.pop("__metadata__", None)}
    for name, entry in heading.items():
        start, end = entry["data_offsets"]
        array = np.frombuffer(data[start:end], dtype=_DTYPES.get(entry["dtype"], "u1"))
        if entry["dtype"] == "BF16":  # the upper half of a float
            array = (array.astype("u4") << 16).view("f4")
        array_by_name[name] = _convert_array(array)
    return array_by_name


def _convert_array(array: Any) -> Any:  # a numpy array
    """Return an array of no dimension as a number, one of numbers as a tensor, which has a norm."""
    if array.ndim == 0:
        return array.item()
    if array.dtype.kind not in "fi":
        return array
    import torch

    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=True))


_DTYPES = {
    "F64": "f8",
    "F32": "f4",
    "F16": "f2",
    "BF16": "u2",
    "I64": "i8",
    "I32": "i4",
    "I16": "i2",
    "I8": "i1",
}

_READERS: dict[str, Callable[[Path], Any]] = {
    ".csv": _load_table,
    ".json": _load_json,
    ".npy": _load_numpy,
    ".npz": _load_numpy,
    ".safetensors": _load_safetensors,
}
