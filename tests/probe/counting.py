"""Functions of a job, and the census of what they hold."""

import types
from collections import deque
from typing import Any

from chaos.probe.state.census import Census
from chaos.run.clock import SystemClock


def taken(*, frame: types.FrameType | None = None, **named: Any) -> dict[str, str]:
    census = Census(SystemClock().now_ns)
    if frame is not None:
        census.add_frames(frame)
    census.add_values(named.items())
    census.expand_all()
    return {held.path: held.text for held in census.entries}


class Control:
    def __init__(self) -> None:
        self.value, self.window = 0.25, deque([1.0, 2.0])


class Slotted:
    __slots__ = ("count", "unset")

    def __init__(self) -> None:
        self.count = 3
