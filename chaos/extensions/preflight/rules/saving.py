"""Rules on checkpoints: their interval, their upload, and whether a start finds them."""

import math
import re

from chaos.extensions.preflight.estimate import format_seconds
from chaos.extensions.preflight.intervals import efficiency, find_exact_interval
from chaos.extensions.preflight.market import loss_interval_s
from chaos.extensions.preflight.question import Question
from chaos.extensions.preflight.rules.losses import worst_save_s
from chaos.extensions.preflight.rules.rule import Predictions, advises, stops, wastes

_SELDOM = 0.01
FLAT = 0.02  # of goodput: within this of the best is as good
_VOLATILE = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/scratch", "/local", "/mnt/local")  # noqa: S108
_CHANGES = re.compile(r"\{(time|now|date|uuid|random|pid)\b|\$\(|`")


# -- the interval ------------------------------------------------------------------------------


def _far_from_best_simulated(question: Question, predictions: Predictions) -> str | None:
    if predictions.curve is None:
        return None
    best, current_point = (
        predictions.curve.best,
        predictions.curve.find_point(question.job.checkpoint_every_steps),
    )
    gain = best.simulated - current_point.simulated
    if gain <= FLAT:
        return None
    side = "too long" if current_point.steps > best.steps else "too short"
    return (
        f"an interval of {format_seconds(current_point.seconds)} is {side}: "
        f"{format_seconds(best.seconds)} gives "
        f"{100 * gain:.0f} pt more goodput in the simulation"
    )


@wastes(
    "interval",
    of=None,
    simulated=_far_from_best_simulated,
    reason="Too seldom throws work away at every loss, too often stands still for saves.",
    source="Daly 2006, equation for the wall time; exact for memoryless losses",
    bad={"job.checkpoint_every_steps": 9000, "job.saves_on_notice": False},
    good={"job.checkpoint_every_steps": 700},
)
def _far_from_best(question: Question) -> str | None:
    costs = question.costs
    if costs is None or question.stop_s == 0:
        return None
    every_s, still_s = unsaved_every_s(question), question.stop_s
    best_s = min(
        question.work_s, find_exact_interval(still_s, every_s).seconds
    )  # one save, at the end
    current_share, best_share = (
        efficiency(s, save_s=still_s, loss_every_s=every_s, restart_s=costs.restart_s)
        for s in (question.interval_s, best_s)
    )
    if best_share - current_share <= FLAT:
        return None
    side = "too long" if question.interval_s > best_s else "too short"
    return (
        f"an interval of {format_seconds(question.interval_s)} is {side}: by Daly's equation, "
        "which knows "
        f"no waiting, {format_seconds(best_s)} gives {100 * (best_share - current_share):.0f} pt "
        "more goodput"
    )


def unsaved_every_s(question: Question) -> float:
    """Return the mean time between losses without a save on notice."""
    return _loss_s(question) / max(1e-3, 1 - _rescued_share(question))


def _rescued_share(question: Question) -> float:
    """Return the share of losses before which a save on notice is surely committed.

    After the notice it is committed only if rank 0 is among relaxed survivors.
    """
    need_s, notice, settings = worst_save_s(question), question.market.notice, question.settings
    if need_s is None or not (question.job.saves_on_notice and settings.hears_notices):
        return 0.0
    if need_s <= notice.seconds:
        return notice.reliability
    if need_s > notice.seconds + settings.relaxed_s:
        return 0.0
    return notice.reliability * (1 - 1 / question.job.nodes)


@wastes(
    "interval-above-losses",
    of=None,
    reason="What is lost before it commits is done again, over and over. How long that "
    "takes, and whether it ever ends, the simulation says; the share is that of memoryless "
    "losses.",
    source="pytorch/elastic issue 97; P(no loss within t) = e^(-t/M)",
    bad={
        "job.checkpoint_every_steps": 39_000,
        "job.saves_on_notice": False,
        "market.lifetime.mtbf_h": 50.0,
    },
    good={"job.checkpoint_every_steps": 39_000, "market.lifetime.mtbf_h": 50.0},
)
def _longer_than_losses(question: Question) -> str | None:
    if question.costs is None:
        return None
    every_s = unsaved_every_s(question)
    cycle_s = question.interval_s + question.costs.save_s + question.costs.upload_s
    if cycle_s < every_s:
        return None
    kind = "a loss" if every_s == _loss_s(question) else "a loss without a save on notice"
    return (
        f"a checkpoint is committed {format_seconds(cycle_s)} after training began, {kind} comes "
        "every "
        f"{format_seconds(every_s)}: {_share(math.exp(-cycle_s / every_s))} of attempts live to "
        "commit one"
    )


def _loss_s(question: Question) -> float:
    return loss_interval_s(question.market, question.job.losable_nodes)


def _share(share: float) -> str:
    return f"{share:.0%}" if share >= _SELDOM else f"less than {_SELDOM:.0%}"


# -- uploads -----------------------------------------------------------------------------------


@stops(
    "upload-behind-interval",
    reason="Ray uploads one checkpoint at a time. What waits its turn is lost with the group, "
    "so that a loss throws away ever more, in the end all of an attempt.",
    source="Ray 2.60, execution/context.py: MAX_CHECKPOINT_UPLOAD_THREADS = 1",
    bad={"costs.upload_s": 1000.0},
    good={"costs.upload_s": 100.0},
)
def _upload_too_slow(question: Question) -> str | None:
    costs = question.costs
    if costs is None or question.settings.checkpoint_upload_mode != "async":
        return None
    cycle_s = question.interval_s + costs.save_s
    if costs.upload_s <= cycle_s:
        return None
    return (
        f"an upload takes {format_seconds(costs.upload_s)}, and a checkpoint is made every "
        f"{format_seconds(cycle_s)}: "
        "each is committed later than the one before"
    )


@wastes(
    "upload-mode",
    reason="report() returns once the checkpoint is uploaded; with ASYNC training goes on "
    "meanwhile, for one upload at a time.",
    source="Ray 2.60, ray.train.report(checkpoint_upload_mode=CheckpointUploadMode.SYNC)",
    bad={"settings.checkpoint_upload_mode": "sync", "costs.upload_s": 100.0},
    good={"settings.checkpoint_upload_mode": "async", "costs.upload_s": 100.0},
)
def _upload_blocks(question: Question) -> str | None:
    costs = question.costs
    if costs is None or question.settings.checkpoint_upload_mode != "sync":
        return None
    if costs.upload_s <= FLAT * (question.interval_s + costs.save_s + costs.upload_s):
        return None
    return (
        f"training stands still for the upload of {format_seconds(costs.upload_s)} after every "
        f"{format_seconds(question.interval_s)}: checkpoint_upload_mode is sync, Ray's default"
    )


@advises(
    "upload-not-retried",
    in_figures=False,
    reason="What Ray retries are the error texts of AWS. Any other that the store's own "
    "client does not mend is raised in report() or by the next poll: one failure, charged to "
    "max_failures.",
    source="Ray 2.60, AWS_RETRYABLE_TOKENS; TrainContext._upload_checkpoint",
    bad={"settings.storage_path": "gs://bucket/runs"},
    good={"settings.storage_path": "s3://bucket/runs"},
)
def _upload_once(question: Question) -> str | None:
    path = question.settings.storage_path or ""
    scheme, sign, _ = path.partition("://")
    is_uploaded = question.settings.checkpoint_upload_mode != "no_upload"
    if not (is_uploaded and sign) or scheme in ("s3", "file"):
        return None
    return f"Ray tries an upload to S3 up to three times, and one to {scheme}:// once"


# -- retention and storage -----------------------------------------------------------------------


@advises(
    "kept-by-score",
    in_figures=False,
    reason="Ray 2.60 keeps the latest beside the best; a job that looks for the best itself, "
    "or an older Ray, resumes from an old one.",
    source="Ray 2.60, CheckpointManager.register_checkpoint",
    bad={"settings.checkpoint_score_attribute": "accuracy"},
    good={"settings.checkpoint_score_attribute": None},
)
def _keeps_best_score(question: Question) -> str | None:
    name = question.ray.checkpoint_score_attribute
    return None if name is None else f"checkpoints are kept by {name}; a resume needs the latest"


@advises(
    "one-checkpoint-kept",
    in_figures=False,
    reason="A torn checkpoint is loaded again by every retry until the retries are spent.",
    source="seen with Ray 2.60: a truncated file, no fallback",
    bad={"settings.num_to_keep": 1},
    good={"settings.num_to_keep": 2},
)
def _keeps_single_checkpoint(question: Question) -> str | None:
    if question.ray.num_to_keep != 1:
        return None
    return "num_to_keep is 1: where the newest checkpoint is damaged there is none to go back to"


@stops(
    "no-storage-path",
    in_figures=False,
    reason="Several nodes need one place that all of them see and that outlives each of them.",
    source="Ray Train user guide, persistent storage",
    bad={"settings.storage_path": None},
    good={"settings.storage_path": "s3://other/runs"},
)
def _no_storage_path(question: Question) -> str | None:
    if question.settings.storage_path is not None:
        return None
    return "there is no storage_path: checkpoints go to ~/ray_results of whichever node runs"


@stops(
    "storage-not-shared",
    in_figures=False,
    of=None,
    reason="A checkpoint on one node's disk cannot be loaded on another. Where the folder is a "
    "network mount, say so: settings.storage_is_shared.",
    source="Ray Train user guide, persistent storage",
    bad={"settings.storage_path": "/home/me/runs"},
    good={"settings.storage_path": "/nfs/runs", "settings.storage_is_shared": True},
)
def _storage_not_shared(question: Question) -> str | None:
    path, is_shared = question.settings.storage_path, question.settings.storage_is_shared
    if path is None or is_shared or question.job.nodes == 1:
        return None
    if "://" in path and not path.startswith("file://") and is_shared is None:
        return None
    return f"{path} looks like a folder of one node, and {question.job.nodes} nodes write"


@stops(
    "storage-not-durable",
    in_figures=False,
    of=None,
    reason="What a lost node takes with it cannot be resumed from.",
    source="file-hierarchy conventions; cloud instance stores",
    bad={"settings.storage_path": "/tmp/runs", "settings.storage_is_shared": True},  # noqa: S108
    good={"settings.storage_path": "/nfs/tmp/runs", "settings.storage_is_shared": True},
)
def _storage_not_durable(question: Question) -> str | None:
    path = (question.settings.storage_path or "").removeprefix("file://")
    if not any(path == root or path.startswith(f"{root}/") for root in _VOLATILE):
        return None
    return f"{path} is gone when its node is"


@wastes(
    "run-name-changes",
    in_figures=False,
    reason="A driver that starts again (a lost head; a RayJob's retry makes a new cluster) "
    "resumes only under the same storage_path and name; else it begins at step 0.",
    source="Ray 2.60 resumes by storage_path and name; kuberay pull request 2192",
    bad={"settings.run_name": "run-{time}"},
    good={"settings.run_name": "big-run"},
)
def _name_changes(question: Question) -> str | None:
    name = question.ray.run_name
    if name is None:
        return "there is no run name: Ray makes one from the time, another at every start"
    if _CHANGES.search(name):
        return f"the run name {name} is another at every start"
    return None
