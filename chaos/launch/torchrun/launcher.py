"""The launcher of jobs that torchrun starts."""

from chaos.model import launcher_facts as facts
from chaos.model.launcher_policy import LauncherPolicy


class TorchrunPolicy(LauncherPolicy):
    """The policy of torchrun's jobs."""

    backend = "chaos.launch.torchrun.backend:TorchrunBackend"


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
