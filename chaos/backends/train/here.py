"""Which rank of which attempt this process is, for what is not told: storage is one for all."""

from dataclasses import dataclass


@dataclass
class Here:
    """`rank` is None in Ray's controller; `upload` counts the uploads that this process began."""

    attempt: int = 0
    rank: int | None = None
    upload: int = 0


HERE = Here()
