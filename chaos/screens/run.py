"""The screen of one run."""

from pathlib import Path

from chaos.app.run import RunRequest
from chaos.harness import Harness
from chaos.report.screen import ConsoleAnnouncer
from chaos.run.clock import SystemClock
from chaos.run.ports import Backend


class RunScreen(ConsoleAnnouncer):
    """The listener of a run, on a console."""

    def build_harness(self, request: RunRequest, backend: Backend) -> Harness:
        """Return a harness that shows its runs on the console."""
        return Harness(
            request.reports,
            self._console,
            Path.cwd(),
            backend,
            SystemClock(),
            keep_storage=request.keep_storage,
        )
