"""The launcher of jobs whose command nothing but chaos starts."""

from chaos.model import launcher_facts as facts
from chaos.model.launcher_policy import LauncherPolicy


class PythonPolicy(LauncherPolicy):
    """The policy of a job that is a command of its own."""

    backend = "chaos.launch.python.backend:PythonBackend"


LAUNCHER = PythonPolicy(
    name="python",
    words=facts.LauncherWords(
        name="the command",
        product="torch",
        controller="chaos",
        call="the command",
        training_end="the command's end",
        driver="the command",
        settings_phrase="as the command is started",
        retries="how often the command is started again",
    ),
    package="torch",
    extra=None,
    features=frozenset({"driver", "budget"}),
    restarts=("command",),
    retries=facts.RetryRules(
        budgets=("failures",),
        settings=dict.fromkeys(("failures", "preemptions"), "max_failures"),
        counted_by="chaos",
    ),
    workers=facts.WorkerRules(script_sets_count=True, default_count=1),
    fields=facts.FieldRules(
        cluster=("metadata",),
        missing_job=(*facts.OF_RAY, *facts.OF_SLURM, "min_workers"),
        audit=("epoch_steps",),
    ),
    times=facts.TimeRules(shutdown_s=35.0),
    script=facts.ScriptRules(leaves_threads="yes", states_ports=True),
)
