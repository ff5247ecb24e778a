"""A launcher as its jobs' policy: what depends on the launcher is answered by the launcher.

The defaults are those of a command whose workers know nothing of Ray.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaos.errors import UsageError
from chaos.model.launcher_facts import LauncherFacts


class LauncherPolicy(LauncherFacts):
    """The facts of a launcher, and what the rest of chaos leaves to it.

    A subclass is in the launcher's own folder, with one instance. It imports what starts processes
    only when it is called: each process of a job asks for the facts.
    """

    @property
    def ending_fault(self) -> str:
        """The fault that ends an attempt so that another follows by itself."""
        return "kill_worker"

    # -- How its jobs are started ------------------------------------------------------------------

    def open_scripts(self) -> Any:  # noqa: ANN401 - a `ScriptBackend`, which is made above
        """Return the backend that executes plans of its jobs, a `ScriptBackend`."""
        raise NotImplementedError

    def why_not_forked(self, env: Mapping[str, str]) -> str | None:
        """Return why workers cannot be forked in this environment, None if they can."""
        raise NotImplementedError

    def find_cluster_nodes(self, address: str) -> list[Any]:
        """Return the nodes of a running cluster, as `NodeFacts`."""
        raise UsageError(
            f"{self.name} has no cluster at {address}", "Leave the address of a cluster out."
        )

    # -- Which scripts are its own -----------------------------------------------------------------

    def recognizes_script(self, script: Path) -> bool:
        """Return whether a file can only be a script for this launcher; raises `OSError`."""
        del script
        return False

    def count_script_nodes(self, script: Path) -> int | None:
        """Return the number of nodes that a script itself asks for; None if it does not say."""
        del script
        return None
