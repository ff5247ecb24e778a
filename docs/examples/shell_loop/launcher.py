"""The facts and the policy of the loop's jobs."""

from collections.abc import Mapping

from chaos.model import launcher_facts as facts
from chaos.model.launcher_policy import LauncherPolicy


class ShellLoopPolicy(LauncherPolicy):
    """The policy of a job that a loop starts again."""

    backend = "shell_loop.backend:ShellLoopBackend"

    def why_not_forked(self, env: Mapping[str, str]) -> str | None:
        del env
        return "a shell starts the script"


LAUNCHER = ShellLoopPolicy(
    name="shell_loop",
    words=facts.LauncherWords(
        name="the loop",
        product="torch",
        controller="the loop",
        call="the loop",
        training_end="the loop's end",
        driver="the shell",
        settings_phrase="as the loop is started",
        retries="how often the loop starts the script again",
    ),
    package="torch",
    extra=None,
    features=frozenset({"budget"}),
    restarts=("launcher",),
    retries=facts.RetryRules(
        budgets=("failures",),
        settings=dict.fromkeys(("failures", "preemptions"), "max_failures"),
        counted_by="controller",
    ),
    workers=facts.WorkerRules(script_sets_count=True, default_count=1),
    fields=facts.FieldRules(
        cluster=(),
        missing_job=(*facts.OF_RAY, *facts.OF_SLURM, "min_workers"),
        audit=("epoch_steps",),
    ),
    times=facts.TimeRules(shutdown_s=35.0),
    script=facts.ScriptRules(leaves_threads="yes", states_ports=True),
)
