"""The place of training when a thread was given its work: a file that it writes is of that place.

Checkpoints are often written beside training, in a thread started for one of them, or in a
thread of an executor. When it writes, training may already be at a later place.
"""

import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from chaos.model.places import TrainingPlace
from chaos.probe.cursor import Cursor

_MARK = "_chaos_given_at"


class ThreadPlaces:
    """The places where the training thread (see `mark_training_thread`) gave work to others."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._training_thread: int | None = None
        self._thread_state = threading.local()

    def mark_training_thread(self) -> None:
        self._training_thread = threading.get_ident()

    def find_work_place(self) -> TrainingPlace:
        """Return the place of training when this thread was given its work; otherwise the present.

        A thread that lives on may be given more work later, in a way that is not seen: the
        recorded place holds only for the epoch in which the thread first asks.
        """
        current_place = self._cursor.training_place
        work_place = getattr(self._thread_state, "place", None)
        if work_place is not None:
            return work_place  # type: ignore[no-any-return]
        thread = threading.current_thread()
        work_place = vars(thread).get(_MARK)
        if work_place is None:
            return current_place
        first_epoch = vars(thread).setdefault(f"{_MARK}_used", current_place.epoch)
        return work_place if first_epoch == current_place.epoch else current_place

    def is_background(self, thread: int | None = None) -> bool:
        """Return whether another thread than this one, or than the given one, trains."""
        return self._training_thread not in (None, thread or threading.get_ident())

    def watch(self) -> None:
        """Mark threads as they are started, and work as it is submitted."""
        thread_class: Any = threading.Thread
        executor_class: Any = ThreadPoolExecutor
        start, submit = thread_class.start, executor_class.submit

        @functools.wraps(start)
        def start_thread(thread: threading.Thread) -> None:
            if self._is_training():
                # Before it starts, for a thread may write before `start()` has returned.
                vars(thread)[_MARK] = self._cursor.training_place
            start(thread)

        @functools.wraps(submit)
        def submit_work(
            executor: ThreadPoolExecutor,
            work: Callable[..., Any],
            /,
            *args: Any,  # as the executor's own
            **kwargs: Any,
        ) -> Any:
            if not self._is_training():
                return submit(executor, work, *args, **kwargs)
            return submit(
                executor, self._bind_place(work, self._cursor.training_place), *args, **kwargs
            )

        thread_class.start, executor_class.submit = start_thread, submit_work

    def _is_training(self) -> bool:
        return threading.get_ident() == self._training_thread

    def _bind_place(self, work: Callable[..., Any], place: TrainingPlace) -> Callable[..., Any]:
        @functools.wraps(work)
        def run_work(*args: Any, **kwargs: Any) -> Any:
            self._thread_state.place = place
            try:
                return work(*args, **kwargs)
            finally:
                self._thread_state.place = None

        return run_work
