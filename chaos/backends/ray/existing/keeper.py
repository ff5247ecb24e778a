"""Renewal of the leases of a run's agents, for as long as the harness lives."""

import threading
from types import TracebackType
from typing import Any, Self

from chaos.backends.ray.existing.terms import RENEW_S


class LeaseKeeper:
    """A context manager that renews leases in a thread, which ends with the harness's process."""

    def __init__(self, controller: Any) -> None:  # noqa: ANN401 - an actor handle
        self._controller = controller
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the thread."""
        self._is_over.set()
        self._thread.join(RENEW_S)

    def _renew(self) -> None:
        while not self._is_over.wait(RENEW_S):
            self._controller.renew.remote()
