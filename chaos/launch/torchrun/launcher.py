"""The launcher of jobs that torchrun starts."""

from collections.abc import Iterator

from chaos.model import launcher_facts as facts
from chaos.model.launcher_policy import LauncherPolicy


class TorchrunPolicy(LauncherPolicy):
    """The policy of torchrun's jobs."""

    backend = "chaos.launch.torchrun.backend:TorchrunBackend"

    def describe_untried_sites(
        self, node_categories: tuple[str, ...], *, has_remote_ranks: bool
    ) -> Iterator[str]:
        if has_remote_ranks and not self.replaces_lost_nodes:
            yield (
                "no fault takes the node that hosts the rendezvous, that of rank 0: torchelastic "
                "does not survive its loss, whatever the job does; nor is one injected at the last "
                "step of training, for no agent whose workers have ended starts them again"
            )
        hint = (
            "--nodes 2 gives it two, and with --restart command its command is started again on "
            "another"
        )
        for sentence in super().describe_untried_sites(
            node_categories, has_remote_ranks=has_remote_ranks
        ):
            yield f"{sentence}; {hint}"


LAUNCHER = TorchrunPolicy(
    name="torchrun",
    words=facts.LauncherWords(
        name="torchrun",
        product="torchrun",
        controller="torchrun's agent",
        call="torchrun",
        training_end="the last worker's end",
        driver="torchrun's agent",
        settings_phrase="under torchrun",
        retries="torchrun's --max-restarts",
        worker_failure="a worker ended",
    ),
    package="torch",
    extra=None,
    features=frozenset({"budget"}),
    restarts=("launcher", "command"),
    retries=facts.RetryRules(
        budgets=("failures",),
        settings=dict.fromkeys(("failures", "preemptions"), "--max-restarts"),
        counted_by="each agent",
    ),
    workers=facts.WorkerRules(script_sets_count=False, default_count=2),
    fields=facts.FieldRules(
        cluster=("nodes", "metadata"),
        missing_job=(*facts.OF_RAY, *facts.OF_SLURM),
        audit=("epoch_steps", "nodes"),
    ),
    times=facts.TimeRules(shutdown_s=30.0, meeting_s=90.0),
    script=facts.ScriptRules(leaves_threads="of one rank"),  # it sets OMP_NUM_THREADS for several
)
