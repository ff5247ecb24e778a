"""Slurm as a launcher of scripts for `sbatch`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from chaos.extensions.sbatch_header import count_nodes, is_sbatch_script
from chaos.model import launcher_facts as facts
from chaos.model.launcher_policy import LauncherPolicy
from chaos.model.machine import LauncherPrograms

# The fault alone ends no attempt, or ends it just as an ordinary exception in the job would; Slurm
# does not restart that.
_UNRESTARTED = ("loader process lost", "save fails beside training", "answer of a put lost")
_NODE_LOST = "node lost"
_NO_RESTART = "Slurm starts no failed job again"
_SITE_REASONS = {
    **dict.fromkeys(_UNRESTARTED, _NO_RESTART),
    "notice before the loss": "no grace is given: --grace names the partition's GraceTime",
    "fewer workers after it": "each start of the job has as many nodes",
    _NODE_LOST: "the script asks for one node",
}


class SlurmPolicy(LauncherPolicy):
    """The policy of jobs that wait in a queue, and come back into it."""

    backend = "chaos.extensions.slurm.backend:SlurmBackend"

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

    def starts_by_helper(self, *, has_run: bool) -> bool:
        del has_run
        return True

    def list_programs(self) -> LauncherPrograms:
        from chaos.extensions.slurm.programs import find_missing_slurm

        return LauncherPrograms("Slurm", find_missing_slurm(), "for scripts for sbatch")

    def describe_starts(self, analysis: Any) -> Iterator[str]:
        from chaos.extensions.slurm.accounts import describe_job_starts

        return describe_job_starts(analysis)

    def waits_in_queue(self, address: str | None) -> bool:
        return address is not None

    def explain_missing_node(
        self, category: str, *, needs_node: bool, has_remote_ranks: bool
    ) -> str | None:
        del needs_node, has_remote_ranks
        return _SITE_REASONS.get(category)

    def describe_untried_sites(
        self, node_categories: tuple[str, ...], *, has_remote_ranks: bool
    ) -> Iterator[str]:
        del node_categories
        if not has_remote_ranks:
            yield f"not tried, since the script asks for one node: {_NODE_LOST}"
        yield f"not tried, since {_NO_RESTART}: {'; '.join(_UNRESTARTED)}"


LAUNCHER = SlurmPolicy(
    name="slurm",
    words=facts.LauncherWords(
        name="Slurm",
        product="torch",
        controller="slurmctld",
        call="the job",
        training_end="the job's end",
        driver="the job",
        settings_phrase="under Slurm",
        retries="how often Slurm requeues the job",
        failure_verb="ended as",
        worker_failure="a worker ended",
        interrupted_save="the job was requeued where a rank",
        missing_grace="it is preempted without a grace, as in a partition that has no GraceTime; "
        "--grace 30s tries one that has: Slurm then requeues no job that ends within it",
        script_kind="for sbatch",
        script_evidence="it has options for sbatch",
        script_hint="`chaos audit` takes it, and `chaos run` a scenario with `job: {launcher: "
        "slurm, script: …, workers: …}`; `chaos preflight` reads it as it is.",
    ),
    package="torch",
    extra=None,
    features=frozenset({"queue"}),
    restarts=("launcher",),
    retries=facts.RetryRules(
        budgets=(),
        settings=dict.fromkeys(("failures", "preemptions"), "--requeue"),
        counted_by="controller",
        source="queue",
    ),
    workers=facts.WorkerRules(script_sets_count=True, default_count=2),
    fields=facts.FieldRules(
        cluster=("nodes", "address", "preempt_mode"),
        missing_job=(*facts.OF_RAY, "failure", "module"),
        job_problems={"module": "job.launcher slurm starts a script for sbatch: write job.script"},
        audit=("epoch_steps", "grace"),
        restart_refusal="a script for sbatch is started again by Slurm, if it was requeued",
        restart_hint="Leave it out: the script's own lines say how it begins again.",
    ),
    nodes=facts.NodeRules(
        returns_preempted=True,
        restarts_ended_workers=True,
        cpus=128,  # as many as a script may ask for; it is not held to them
        shared_loss_refusal="its nodes are not a user's to take",
    ),
    times=facts.TimeRules(
        shutdown_s=30.0,
        meeting_s=60.0,
        requeue_s=7.0,
        audit_s=300.0,  # a cluster starts for each run, and a requeue takes seconds
    ),
    script=facts.ScriptRules(states_ports=True),
    sites=facts.SiteRules(
        unavailable=facts.OF_REPORTS,
        unrestarted=_UNRESTARTED,
        kinds={
            "worker killed": "job requeued",
            "killed in a recovery": "requeued in a recovery",
            "killed inside a load": "requeued inside a load",
            "killed in a save or upload": "requeued in a save",
        },
        ending_fault="requeue_job",
    ),
)
