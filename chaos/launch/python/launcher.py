"""The launcher of jobs whose command nothing but chaos starts."""

from collections.abc import Mapping
from typing import Any

from chaos.model.launcher_facts import OF_RAY, OF_SLURM, LauncherWords
from chaos.model.launcher_policy import LauncherPolicy


class PythonPolicy(LauncherPolicy):
    """The policy of a job that is a command of its own."""

    def open_scripts(self) -> Any:
        from chaos.launch.python.backend import PythonBackend

        return PythonBackend()

    def why_not_forked(self, env: Mapping[str, str]) -> str | None:
        from chaos.launch.python.backend import PythonBackend

        return PythonBackend.why_not_forked(env)


LAUNCHER = PythonPolicy(
    name="python",
    words=LauncherWords(
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
    budgets=("failures",),
    settings=dict.fromkeys(("failures", "preemptions"), "max_failures"),
    counted_by="chaos",
    restarts=("command",),
    has_spare_nodes=False,
    sets_worker_count=True,
    default_workers=1,
    leaves_threads="yes",
    cluster_fields=("metadata",),
    missing_job_fields=(*OF_RAY, *OF_SLURM, "min_workers"),
    audit_fields=("epoch_steps",),
    shutdown_s=35.0,
    states_ports=True,
)
