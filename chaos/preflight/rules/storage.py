"""Rules of where checkpoints lie, and whether a new start finds them."""

import re

from chaos.preflight.question import Question
from chaos.preflight.rules.rule import Rule

_VOLATILE = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/scratch", "/local", "/mnt/local")  # noqa: S108
_CHANGES = re.compile(r"\{(time|now|date|uuid|random|pid)\b|\$\(|`")


def _none(question: Question) -> str | None:
    if question.settings.storage_path is not None:
        return None
    return "there is no storage_path: checkpoints go to ~/ray_results of whichever node runs"


def _local(question: Question) -> str | None:
    path, is_shared = question.settings.storage_path, question.settings.storage_is_shared
    if path is None or is_shared or question.job.nodes == 1:
        return None
    if "://" in path and not path.startswith("file://") and is_shared is None:
        return None
    return f"{path} looks like a folder of one node, and {question.job.nodes} nodes write"


def _volatile(question: Question) -> str | None:
    path = (question.settings.storage_path or "").removeprefix("file://")
    if not any(path == root or path.startswith(f"{root}/") for root in _VOLATILE):
        return None
    return f"{path} is gone when its node is"


def _name_changes(question: Question) -> str | None:
    name = question.settings.run_name
    if name is None:
        return "there is no run name: Ray makes one from the time, another at every start"
    if _CHANGES.search(name):
        return f"the run name {name} is another at every start"
    return None


RULES = (
    Rule(
        id="no-storage-path",
        weight="stops",
        look=_none,
        reason="Several nodes need one place that all of them see and that outlives each of them.",
        source="Ray Train user guide, persistent storage",
        bad={"settings.storage_path": None},
        good={"settings.storage_path": "gs://bucket/runs"},
    ),
    Rule(
        id="storage-not-shared",
        weight="stops",
        look=_local,
        reason="A checkpoint on one node's disk cannot be loaded on another. Where the folder is a "
        "network mount, say so: settings.storage_is_shared.",
        source="Ray Train user guide, persistent storage",
        bad={"settings.storage_path": "/home/me/runs"},
        good={"settings.storage_path": "/nfs/runs", "settings.storage_is_shared": True},
    ),
    Rule(
        id="storage-not-durable",
        weight="stops",
        look=_volatile,
        reason="What a lost node takes with it cannot be resumed from.",
        source="file-hierarchy conventions; cloud instance stores",
        bad={"settings.storage_path": "/tmp/runs", "settings.storage_is_shared": True},  # noqa: S108
        good={"settings.storage_path": "/nfs/tmp/runs", "settings.storage_is_shared": True},
    ),
    Rule(
        id="run-name-changes",
        weight="costs",
        look=_name_changes,
        reason="A driver that starts again (a lost head; a RayJob's retry makes a new cluster) "
        "resumes only under the same storage_path and name; else it begins at step 0.",
        source="Ray 2.60 resumes by storage_path and name; kuberay pull request 2192",
        bad={"settings.run_name": "run-{time}"},
        good={"settings.run_name": "big-run"},
    ),
)
