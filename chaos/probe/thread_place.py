"""The place of training when a thread was given its work: a file that it writes is of that place.

Checkpoints are often written beside training, in a thread started for one of them, or in a
thread of an executor. When it writes, training may already be at a later place.
"""

import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from chaos.model.places import Place

_MARK = "_chaos_given_at"


class ThreadPlaces:
    """The places at which the training thread, which `trains_here` names, gave work to others."""

    def __init__(self, now: Callable[[], Place]) -> None:
        self._now = now
        self._trainer: int | None = None
        self._here = threading.local()

    def trains_here(self) -> None:
        self._trainer = threading.get_ident()

    def place(self) -> Place:
        """Return the place of training when this thread was given its work; otherwise the present.

        A thread that lives on may be given more work later, in a way that is not seen: the
        recorded place holds only for the epoch in which the thread first asks.
        """
        now = self._now()
        given = getattr(self._here, "place", None)
        if given is not None:
            return given  # type: ignore[no-any-return]
        thread = threading.current_thread()
        given = vars(thread).get(_MARK)
        if given is None:
            return now
        first = vars(thread).setdefault(f"{_MARK}_used", now.epoch)
        return given if first == now.epoch else now

    def is_beside(self, thread: int | None = None) -> bool:
        """Return whether another thread than this one, or than the given one, trains."""
        return self._trainer not in (None, thread or threading.get_ident())

    def watch(self) -> None:
        """Mark threads as they are started, and work as it is submitted."""
        thread_class: Any = threading.Thread
        executor_class: Any = ThreadPoolExecutor
        start, submit = thread_class.start, executor_class.submit

        @functools.wraps(start)
        def started(thread: threading.Thread) -> None:
            if self._is_training():
                # Before it starts, for a thread may write before `start()` has returned.
                vars(thread)[_MARK] = self._now()
            start(thread)

        @functools.wraps(submit)
        def submitted(
            executor: ThreadPoolExecutor,
            work: Callable[..., Any],
            /,
            *args: Any,  # as the executor's own
            **kwargs: Any,
        ) -> Any:
            if not self._is_training():
                return submit(executor, work, *args, **kwargs)
            return submit(executor, self._given(work, self._now()), *args, **kwargs)

        thread_class.start, executor_class.submit = started, submitted

    def _is_training(self) -> bool:
        return threading.get_ident() == self._trainer

    def _given(self, work: Callable[..., Any], place: Place) -> Callable[..., Any]:
        @functools.wraps(work)
        def done(*args: Any, **kwargs: Any) -> Any:
            self._here.place = place
            try:
                return work(*args, **kwargs)
            finally:
                self._here.place = None

        return done
