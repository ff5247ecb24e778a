"""Slurm as a launcher of scripts for `sbatch`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaos.extensions.sbatch_header import count_nodes, is_sbatch_script
from chaos.model.launcher_facts import OF_RAY, LauncherWords
from chaos.model.launcher_policy import LauncherPolicy


class SlurmPolicy(LauncherPolicy):
    """The policy of jobs that wait in a queue, and come back into it."""

    @property
    def ending_fault(self) -> str:
        return "requeue_job"

    def open_scripts(self) -> Any:
        from chaos.extensions.slurm.backend import SlurmBackend

        return SlurmBackend()

    def why_not_forked(self, env: Mapping[str, str]) -> str | None:
        del env
        return "Slurm starts the workers of a script for sbatch itself"

    def find_cluster_nodes(self, address: str) -> list[Any]:
        from chaos.extensions.slurm.existing import find_cluster_nodes

        return find_cluster_nodes(address)

    def recognizes_script(self, script: Path) -> bool:
        return is_sbatch_script(script)

    def count_script_nodes(self, script: Path) -> int | None:
        if not script.is_file():
            return None
        return count_nodes(script.read_text(encoding="utf-8", errors="replace"))


LAUNCHER = SlurmPolicy(
    name="slurm",
    words=LauncherWords(
        name="Slurm",
        product="torch",
        controller="slurmctld",
        call="the job",
        training_end="the job's end",
        driver="the job",
        settings_phrase="under Slurm",
        retries="how often Slurm requeues the job",
        failure_verb="ended as",
        script_kind="for sbatch",
        script_evidence="it has options for sbatch",
        script_hint="`chaos audit` takes it, and `chaos run` a scenario with `job: {launcher: "
        "slurm, script: …, workers: …}`; `chaos preflight` reads it as it is.",
    ),
    package="torch",
    extra=None,
    features=frozenset({"queue"}),
    budgets=(),
    settings=dict.fromkeys(("failures", "preemptions"), "--requeue"),
    counted_by="controller",
    restarts=("launcher",),
    has_spare_nodes=False,
    sets_worker_count=True,
    default_workers=2,
    cluster_fields=("nodes", "address", "preempt_mode"),
    missing_job_fields=(*OF_RAY, "failure", "module"),
    audit_fields=("epoch_steps", "grace"),
    shutdown_s=30.0,
    meeting_s=60.0,
    returns_preempted=True,
    restarts_by_requeue=True,
    requeue_s=7.0,
    states_ports=True,
)
