"""The launcher of jobs that torchrun starts."""

from collections.abc import Mapping
from typing import Any

from chaos.model.launcher_facts import OF_RAY, OF_SLURM, LauncherWords
from chaos.model.launcher_policy import LauncherPolicy


class TorchrunPolicy(LauncherPolicy):
    """The policy of torchrun's jobs."""

    def open_scripts(self) -> Any:
        from chaos.launch.torchrun.backend import TorchrunBackend

        return TorchrunBackend()

    def why_not_forked(self, env: Mapping[str, str]) -> str | None:
        from chaos.launch.torchrun.backend import TorchrunBackend

        return TorchrunBackend.why_not_forked(env)


LAUNCHER = TorchrunPolicy(
    name="torchrun",
    words=LauncherWords(
        name="torchrun",
        product="torchrun",
        controller="torchrun's agent",
        call="torchrun",
        training_end="the last worker's end",
        driver="torchrun's agent",
        settings_phrase="under torchrun",
        retries="torchrun's --max-restarts",
    ),
    package="torch",
    extra=None,
    features=frozenset({"budget"}),
    budgets=("failures",),
    settings=dict.fromkeys(("failures", "preemptions"), "--max-restarts"),
    counted_by="each agent",
    restarts=("launcher", "command"),
    has_spare_nodes=False,
    sets_worker_count=False,
    default_workers=2,
    leaves_threads="of one rank",  # it sets OMP_NUM_THREADS for several
    cluster_fields=("nodes", "metadata"),
    missing_job_fields=(*OF_RAY, *OF_SLURM),
    audit_fields=("epoch_steps", "nodes"),
    shutdown_s=30.0,
    meeting_s=90.0,
)
