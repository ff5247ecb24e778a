"""The facts of each launcher in one table: a row that changes shows here what a user has or lacks.

Whatever is not named here, every launcher's job can have.
"""

import pytest

from chaos.audit.site_category import SITE_CATEGORIES, list_site_categories
from chaos.check.judge import CHECKS, NEEDS
from chaos.faults.base import Fault
from chaos.model.fault_entry import OWN_FAULTS
from chaos.model.launcher import DEFAULT_LAUNCHER, LAUNCHER_FACTS, Launcher, find_launcher
from chaos.model.launcher_policy import LauncherPolicy
from chaos.model.scenario import ClusterShape
from chaos.plan.draw import DRAWN, can_be_drawn
from tests.needs import needs_extension

LACKS: dict[Launcher, dict[str, str]] = {
    "ray": {
        "faults": "reach_time_limit requeue_job restart_slurmctld signal_job suspend_job",
        "drawn on one node": "",
        "checks": "",
        "groups": "before the first save; preempted at once",
        "job": "array_task epoch_steps then",
        "cluster": "preempt_mode",
        "fields of an audit": "epoch_steps grace nodes",
    },
    "torchrun": {
        "faults": "corrupt_snapshot delayed_visibility disk_full evict_node fail_upload "
        "kill_controller kill_driver kill_gcs partition_node reach_time_limit requeue_job "
        "restart_slurmctld signal_job slow_upload start_second_driver suspend_job torn_checkpoint "
        "withhold_capacity",
        "drawn on one node": "disk_full fail_upload freeze_node kill_node preempt_node slow_upload "
        "torn_checkpoint",
        "checks": "ack bystanders drain metrics retention selection",
        "groups": "after report, before commit; before the first commit; just after commit; "
        "preempted at once; upload begins; upload ends",
        "job": "array_task checkpoint epoch_metric fit needs_backend then train_loop trial",
        "cluster": "address cpus_per_node preempt_mode reclaim_by storage",
        "fields of an audit": "address fit grace storage",
    },
    "python": {
        "faults": "corrupt_snapshot delayed_visibility disk_full evict_node fail_upload "
        "kill_controller kill_gcs partition_node reach_time_limit requeue_job restart_slurmctld "
        "signal_job slow_upload start_second_driver suspend_job torn_checkpoint withhold_capacity",
        "drawn on one node": "disk_full fail_upload freeze_node kill_node preempt_node slow_upload "
        "torn_checkpoint",
        "checks": "ack bystanders drain metrics retention selection",
        "groups": "after report, before commit; before the first commit; just after commit; "
        "preempted at once; upload begins; upload ends",
        "job": "array_task checkpoint epoch_metric fit min_workers needs_backend then train_loop "
        "trial",
        "cluster": "address cpus_per_node nodes preempt_mode reclaim_by storage",
        "fields of an audit": "address fit grace nodes storage",
    },
    "slurm": {
        "faults": "corrupt_snapshot delayed_visibility disk_full evict_node fail_upload "
        "kill_controller kill_driver kill_gcs partition_node slow_upload start_second_driver "
        "torn_checkpoint withhold_capacity",
        "drawn on one node": "disk_full fail_upload freeze_node kill_node preempt_node slow_upload "
        "torn_checkpoint",
        "checks": "ack bystanders drain metrics retention retry-budget selection",
        "groups": "after report, before commit; before the first commit; just after commit; "
        "upload begins; upload ends",
        "job": "checkpoint epoch_metric failure fit module needs_backend train_loop trial",
        "cluster": "cpus_per_node metadata reclaim_by storage",
        "fields of an audit": "address fit nodes storage",
    },
}


def lacks(facts: LauncherPolicy) -> dict[str, str]:
    """Return by kind, in order, what a launcher's jobs cannot have."""
    groups = {
        g
        for g in SITE_CATEGORIES
        if g not in list_site_categories(facts) or g in facts.sites.unavailable
    }
    audit_fields = {name for each in LAUNCHER_FACTS.values() for name in each.fields.audit} - {
        *facts.fields.audit
    }
    found = {
        "faults": {n for n, f in OWN_FAULTS.items() if facts.explain_missing(plainest(f).needs)},
        "drawn on one node": {variant[0] for variant in DRAWN if not can_be_drawn(variant, facts)},
        "checks": {check.NAME for check in CHECKS if facts.explain_missing(NEEDS.get(check.NAME))},
        "job": set(facts.fields.missing_job),
        "cluster": set(ClusterShape.model_fields) - set(facts.fields.cluster),
        "fields of an audit": audit_fields,
    }
    return {"groups": "; ".join(sorted(groups))} | {
        kind: " ".join(sorted(names)) for kind, names in found.items()
    }


def plainest(fault: type[Fault]) -> Fault:
    """Return a fault with its defaults alone."""
    return fault.model_construct()


@needs_extension("slurm")
@pytest.mark.parametrize("facts", LAUNCHER_FACTS.values(), ids=LAUNCHER_FACTS)
def test_a_launchers_jobs_can_have_all_but_this(facts: LauncherPolicy) -> None:
    assert lacks(facts) == LACKS[facts.name]


def test_a_command_names_itself_and_any_other_trainer_is_rays() -> None:
    assert find_launcher("torchrun") == "torchrun"
    assert find_launcher("TorchTrainer") == find_launcher(None) == DEFAULT_LAUNCHER
