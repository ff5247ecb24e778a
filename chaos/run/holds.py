"""Holds Ray's controller between two polls, while an op needs a report to stay uncommitted."""

import threading
from collections.abc import Callable


class Holds:
    """Who has asked for a hold, and who has it; guarded by the chaos controller's condition.

    Its callers own the condition.
    """

    def __init__(self, changed: threading.Condition, is_over: Callable[[], bool]) -> None:
        self._changed = changed
        self._is_over = is_over
        self._asked: set[int] = set()
        self._granted: set[int] = set()

    def has(self, op: int) -> bool:
        """Return whether Ray's controller is held for an op."""
        return op in self._granted

    def ask(self, op: int, *, within_s: float) -> bool:
        """Wait until Ray's controller is held for an op, and say whether it is."""
        self._asked.add(op)
        self._changed.notify_all()
        self._changed.wait_for(lambda: self._is_over() or self.has(op), timeout=within_s)
        if not self.has(op):
            self.give_up(op)
        return self.has(op)

    def stand(self, *, within_s: float) -> None:
        """Stand still, in Ray's controller, until nobody needs it any longer."""
        if not self._asked:
            return
        self._changed.wait_for(self._need_none, timeout=within_s)
        self.give_up_all()

    def give_up(self, op: int) -> None:
        """Need no hold for an op any longer."""
        self._asked.discard(op)
        self._granted.discard(op)
        self._changed.notify_all()

    def give_up_all(self) -> None:
        """Need no hold at all: whoever asked may be dead now and never come."""
        self._asked.clear()
        self._granted.clear()
        self._changed.notify_all()

    def _need_none(self) -> bool:
        """Grant what was asked for, and say whether polls may go on."""
        if self._asked - self._granted:
            self._granted |= self._asked
            self._changed.notify_all()
        return self._is_over() or not self._asked
