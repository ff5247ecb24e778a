"""A launcher as its jobs' policy: what depends on the launcher is answered by the launcher.

The defaults are those of a command whose workers know nothing of Ray.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar

from chaos.errors import UsageError
from chaos.faults.world import WHO_HAS, LauncherFeature
from chaos.model.launcher_facts import LauncherFacts
from chaos.model.machine import LauncherPrograms

if TYPE_CHECKING:
    from chaos.model.scenario import Job, Scenario


class LauncherPolicy(LauncherFacts):
    """The facts of a launcher, and what the rest of chaos leaves to it.

    A subclass is in the launcher's own folder, with one instance. It imports what starts processes
    only when it is called: each process of a job asks for the facts.
    """

    # -- How its jobs are started ------------------------------------------------------------------

    #: `package.module:Class` of the `ScriptBackend` that executes plans of its jobs.
    backend: ClassVar[str]

    def open_scripts(self) -> Any:  # noqa: ANN401 - a `ScriptBackend`, which is made above
        """Return the backend that executes plans of its jobs."""
        return resolve_name(self.backend)()

    def why_not_forked(self, env: Mapping[str, str]) -> str | None:
        """Return why workers cannot be forked in this environment, None if they can."""
        reason: str | None = resolve_name(self.backend).why_not_forked(env)
        return reason

    def list_programs(self) -> LauncherPrograms | None:
        """Return the programs that it needs, for `chaos doctor`; None if Python has all."""

    def find_cluster_nodes(self, address: str) -> list[Any]:
        """Return the nodes of a running cluster, as `NodeFacts`."""
        raise UsageError(
            f"{self.name} has no cluster at {address}", "Leave the address of a cluster out."
        )

    # -- Which scripts and commands are its own ----------------------------------------------------

    def recognizes_script(self, script: Path) -> bool:
        """Return whether a file can only be a script for this launcher; raises `OSError`."""
        del script
        return False

    def count_script_nodes(self, script: Path) -> int | None:
        """Return the number of nodes that a script itself asks for; None if it does not say."""
        del script
        return None

    def starts_by_helper(self, *, has_run: bool) -> bool:
        """Return whether a worker's command is not that of the script.

        `has_run`: it is known which run of the launcher the worker belongs to.
        """
        del has_run
        return False

    def select_settings(
        self, settings: Mapping[str, Any], worker_count: int | None
    ) -> Mapping[str, Any]:
        """Return the settings that are the job's own: of a command, its number of workers."""
        return {"num_workers": settings.get("num_workers") or worker_count}

    # -- What a scenario of its jobs may have ------------------------------------------------------

    def explain_missing(self, part: LauncherFeature | None) -> str | None:
        """Return why it does not have a part that a fault or a check needs; None if it has it."""
        if part is None or part in self.features:
            return None
        owner = "a launcher that counts restarts" if part == "budget" else WHO_HAS.get(part)
        return f"needs {owner or 'Ray Train'}"

    def can_have_fault(
        self, family: str, needed_part: LauncherFeature | None, *, nodes: int
    ) -> bool:
        """Return whether such a fault can be drawn for its jobs, on so many nodes."""
        has_room = self.nodes.has_spares or nodes > 1 or family not in {"node", "capacity"}
        return has_room and self.explain_missing(needed_part) is None

    def check_job(self, job: "Job") -> None:
        """Raise `ValueError` for a field of `job` that its jobs cannot have."""
        from chaos.model.launcher_rules import check_job_fields  # noqa: PLC0415 - it needs pydantic

        check_job_fields(self, job)

    def check_scenario(self, scenario: "Scenario") -> None:
        """Raise `ValueError` for what a scenario of its jobs cannot have."""
        from chaos.model import launcher_rules as rules  # noqa: PLC0415 - it needs pydantic

        rules.check_agent_nodes(self, scenario)
        rules.check_cluster_fields(self, scenario)
        rules.check_watch(self, scenario)
        rules.check_faults(self, scenario, rules.describe_missing_place)

    def waits_in_queue(self, address: str | None) -> bool:
        """Return whether jobs wait for nodes in a queue with others' jobs, which may take long."""
        del address
        return False

    # -- What is said of its jobs ------------------------------------------------------------

    def describe_starts(self, analysis: Any) -> Iterable[str]:  # noqa: ANN401 - `RunAnalysis`
        """Return notes on the starts of a job, as the launcher accounts for them."""
        del analysis
        return ()

    def explain_missing_node(
        self, category: str, *, needs_node: bool, has_remote_ranks: bool
    ) -> str | None:
        """Return why a job has no site of a category that takes a node; None for any other."""
        is_elastic = category == "fewer workers after it"
        if is_elastic and self.nodes.restarts_elsewhere:
            return "each start of the command has as many ranks"
        takes_nodes = "nodes" in self.fields.audit
        if needs_node and not (has_remote_ranks or self.replaces_lost_nodes):
            hint = "; --nodes 2 gives it two" if takes_nodes else ""
            return f"the job has one node{hint}"
        if is_elastic and not self.replaces_lost_nodes:
            hint = "; --nodes 1:2 lets it go on with one" if takes_nodes else ""
            return f"the job has a fixed number of nodes{hint}"
        return None

    def describe_untried_sites(
        self, node_categories: tuple[str, ...], *, has_remote_ranks: bool
    ) -> Iterator[str]:
        """Yield sentences on the sites that no audit of its jobs has."""
        if not self.replaces_lost_nodes and not has_remote_ranks:
            yield f"not tried, since the job has one node: {'; '.join(node_categories)}"

    def describe_clock_epochs(self, epochs: str, epoch_steps: int | None) -> tuple[str, str]:
        """Return what a job does by the clock, and what follows for its epochs.

        `epochs`: the epochs that all runs share, in words.
        """
        del epochs
        length = f"{epoch_steps} each (--epoch-steps {epoch_steps})" if epoch_steps else None
        return "saves", f"its epochs are counted by steps, {length or 'as the job declares'}"

    def describe_saves_outside(self, paths: str) -> tuple[str, bool]:
        """Return a sentence on a job that saves outside of its run; whether it is a warning."""
        removal = "What it made there was removed after each run, so that the next begins anew"
        return f"the job saves {paths}. {removal}", False
