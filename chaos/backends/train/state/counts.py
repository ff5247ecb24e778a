"""The whole numbers in a saved object, which are the job's own record of its progress."""

from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import Any

COUNTS_MAX = 64
LOOKED_AT_MAX = 4096
_DEPTH_MAX = 4
_LARGEST = 2**63 - 1  # the largest that a journal can hold


def counts_of(saved: Any) -> dict[str, int]:  # noqa: ANN401 - whatever `torch.save` is given
    """Return the whole numbers in nested mappings by dotted name, the shallowest first.

    A name that begins with an underscore is internal to a library, such as
    `_step_count` of torch's schedules, and left out. At most `COUNTS_MAX`, of the
    first `LOOKED_AT_MAX` entries.
    """
    found: dict[str, int] = {}
    waiting = deque([("", saved, 0)])
    looked = 0
    while waiting and len(found) < COUNTS_MAX and looked < LOOKED_AT_MAX:
        prefix, value, depth = waiting.popleft()
        if isinstance(value, int) and not isinstance(value, bool) and prefix:
            if abs(value) <= _LARGEST:
                found[prefix] = value
        elif isinstance(value, Mapping) and depth < _DEPTH_MAX:
            for key, below in islice(value.items(), LOOKED_AT_MAX):
                looked += 1
                name = str(key) if isinstance(key, str | int) else ""
                if name and not name.startswith("_") and isinstance(below, int | Mapping):
                    waiting.append((f"{prefix}.{name}" if prefix else name, below, depth + 1))
    return found
