"""Ray Train as a launcher: the script calls it itself, by `trainer.fit()`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chaos.model import launcher_facts as facts
from chaos.model.launcher_policy import LauncherPolicy

if TYPE_CHECKING:
    from chaos.model.scenario import Scenario


class RayPolicy(LauncherPolicy):
    """The policy of Ray Train's jobs."""

    backend = "chaos.launch.forked.backend:ForkBackend"

    def why_not_forked(self, env: Mapping[str, str]) -> str | None:
        del env
        return None

    def find_cluster_nodes(self, address: str) -> list[Any]:
        from chaos.launch.backends import require_ray
        from chaos.launch.cluster_extension import load_cluster_extension

        require_ray("--address")
        return load_cluster_extension("--address").find_nodes(address)

    def starts_by_helper(self, *, has_run: bool) -> bool:
        # Without a run it is the command of one of Ray's workers, and not the driver's.
        return not has_run

    def select_settings(
        self, settings: Mapping[str, Any], worker_count: int | None
    ) -> Mapping[str, Any]:
        del worker_count
        return settings

    def check_scenario(self, scenario: "Scenario") -> None:
        from chaos.model import launcher_rules as rules

        rules.check_cluster_fields(self, scenario)
        rules.check_faults(self, scenario, lambda _: None)

    def describe_clock_epochs(self, epochs: str, epoch_steps: int | None) -> tuple[str, str]:
        del epoch_steps
        return "reports", (
            "faults are injected where every run comes by, which is among its first " + epochs
        )

    def describe_saves_outside(self, paths: str) -> tuple[str, bool]:
        return (
            f"the job saves by absolute paths: {paths}. What it made there was removed after each "
            "run; give it a path of the run's, or two trainings overwrite each other's files"
        ), True


LAUNCHER = RayPolicy(
    name="ray",
    words=facts.LauncherWords(
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
        return_text="{call} returned; its checkpoint: {checkpoint}",
        without_save=" without a checkpoint",
        save_scope=", for Ray or with `torch.save`",
        before_call=" before any fit()",
        forked_start="",
        own_saves_remark="the job reports no checkpoint to Ray, and keeps files of its own: what a "
        "fault costs depends on what it reads back from them",
        untried_cluster="not tried on a Ray cluster: the command starts one on this machine",
        incident_comment="# Saves are taken for reports.",
        need="needs Ray Train",
        need_condition="if the script does call trainer.fit()",
    ),
    package="ray",
    extra="ray",
    features=frozenset({"reports", "cluster", "call", "driver", "budget"}),
    restarts=("launcher", "command"),
    retries=facts.RetryRules(
        budgets=("failures", "preemptions"),
        settings={"failures": "max_failures", "preemptions": "max_preemption_failures"},
        counted_by="controller",
        source=None,
    ),
    workers=facts.WorkerRules(script_sets_count=True, default_count=2),
    fields=facts.FieldRules(
        cluster=("nodes", "cpus_per_node", "address", "storage", "reclaim_by", "metadata"),
        missing_job=("epoch_steps", *facts.OF_SLURM),
        audit=("address", "storage", "fit"),
    ),
    nodes=facts.NodeRules(has_spares=True),
    script=facts.ScriptRules(
        keeps_spelling=False, restart_args_wait=False, quick_options=("--backend", "fork")
    ),
    sites=facts.SiteRules(
        initial="before the first commit",
        unavailable=facts.OF_A_QUEUE,
        moments=("reported", "committed"),
    ),
)
