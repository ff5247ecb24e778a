"""The orders to a worker, to be carried out by itself at the place where it is held.

The answer to a worker's arrival carries the order. The worker reports that it has begun, by the
order's token.
"""

from typing import Literal, TypeAlias
from uuid import uuid4

import msgspec


def _token() -> str:
    return uuid4().hex


class Raise(msgspec.Struct, frozen=True, tag=True):
    """Raise `InjectedError` out of the call that stands at the place."""

    message: str
    token: str = msgspec.field(default_factory=_token)


class Slow(msgspec.Struct, frozen=True, tag=True):
    """Delay each of the next `steps` steps, or all of them if that is None.

    By `delay_s` seconds, or so that a step takes `factor` times as long.
    """

    delay_s: float | None
    factor: float | None
    steps: int | None
    token: str = msgspec.field(default_factory=_token)


class Hang(msgspec.Struct, frozen=True, tag=True):
    """Go no further: in Python, or in native code that waits for a peer."""

    where: Literal["python", "collective"]
    token: str = msgspec.field(default_factory=_token)


class Exhaust(msgspec.Struct, frozen=True, tag=True):
    """Take so many bytes of memory, and go no further."""

    bytes: int
    token: str = msgspec.field(default_factory=_token)


class FailWrite(msgspec.Struct, frozen=True, tag=True):
    """Raise `OSError` out of the call that stands at the place, as a write to a full disk does."""

    token: str = msgspec.field(default_factory=_token)


class Corrupt(msgspec.Struct, frozen=True, tag=True):
    """Change a number of a tensor as the next optimizer step begins, or each further one.

    `bit` counts from the lowest; None: the highest of a 32-bit number's mantissa.
    """

    tensor: Literal["weight", "gradient", "optimizer"]
    how: Literal["bit", "sign", "nan"]
    bit: int | None
    is_lasting: bool
    token: str = msgspec.field(default_factory=_token)


Order: TypeAlias = Raise | FailWrite | Slow | Hang | Exhaust | Corrupt
