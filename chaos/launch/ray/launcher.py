"""Ray Train as a launcher: the script calls it itself, by `trainer.fit()`."""

from collections.abc import Mapping
from typing import Any

from chaos.model.launcher_facts import OF_SLURM, LauncherWords
from chaos.model.launcher_policy import LauncherPolicy


class RayPolicy(LauncherPolicy):
    """The policy of Ray Train's jobs."""

    def open_scripts(self) -> Any:
        from chaos.launch.forked.backend import ForkBackend

        return ForkBackend()

    def why_not_forked(self, env: Mapping[str, str]) -> str | None:
        del env
        return None

    def find_cluster_nodes(self, address: str) -> list[Any]:
        from chaos.launch.backends import require_ray
        from chaos.launch.cluster_extension import load_cluster_extension

        require_ray("--address")
        return load_cluster_extension("--address").find_nodes(address)


LAUNCHER = RayPolicy(
    name="ray",
    words=LauncherWords(
        name="Ray",
        product="Ray",
        controller="Ray's controller",
        call="fit()",
        training_end="fit()",
        driver="the script",
        settings_phrase="at trainer.fit()",
        retries="the retries that Ray Train may use; a script's own are replaced",
        save="commit",
        saved_verb="committed",
        complete_saves="what was committed",
        epoch_ended_verb="committed",
        end_of_epoch="the report of epoch",
        save_action="report",
    ),
    package="ray",
    extra="ray",
    features=frozenset({"reports", "cluster", "call", "driver", "budget"}),
    budgets=("failures", "preemptions"),
    settings={"failures": "max_failures", "preemptions": "max_preemption_failures"},
    counted_by="controller",
    restarts=("launcher", "command"),
    has_spare_nodes=True,
    sets_worker_count=True,
    default_workers=2,
    cluster_fields=("nodes", "cpus_per_node", "address", "storage", "reclaim_by", "metadata"),
    missing_job_fields=("epoch_steps", *OF_SLURM),
    audit_fields=("address", "storage", "fit"),
    keeps_spelling=False,
)
