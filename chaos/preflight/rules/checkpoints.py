"""Rules of how often a checkpoint is made, and which are kept."""

import math

from chaos.preflight.closed_form import efficiency, exact
from chaos.preflight.market import loss_interval_s
from chaos.preflight.question import Question
from chaos.preflight.rules.notices import worst_save_s
from chaos.preflight.rules.rule import Rule
from chaos.preflight.words import in_s

_SELDOM = 0.01
FLAT = 0.02  # of goodput: closer to the best than this is as good


def _far_from_best(question: Question) -> str | None:
    costs = question.costs
    if costs is None or costs.save_s == 0:
        return None
    every_s = unsaved_every_s(question)
    best_s = min(question.work_s, exact(costs.save_s, every_s).seconds)  # one save, at the end
    here, there = (
        efficiency(s, save_s=costs.save_s, loss_every_s=every_s, restart_s=costs.restart_s)
        for s in (question.interval_s, best_s)
    )
    if there - here <= FLAT:
        return None
    side = "too long" if question.interval_s > best_s else "too short"
    return (
        f"an interval of {in_s(question.interval_s)} is {side}: by Daly's equation, which knows "
        f"no waiting, {in_s(best_s)} gives {100 * (there - here):.0f} pt more goodput"
    )


def unsaved_every_s(question: Question) -> float:
    """Give the mean time between losses that a save on notice does not soften."""
    return _loss_s(question) / max(1e-3, 1 - _softened(question))


def _softened(question: Question) -> float:
    """Give the share of losses before which a save on notice surely commits.

    Beyond the notice it commits only where relaxed survivors have rank 0 among them.
    """
    need_s, notice, settings = worst_save_s(question), question.market.notice, question.settings
    if need_s is None or not (question.job.saves_on_notice and settings.preemption_watcher):
        return 0.0
    if need_s <= notice.seconds:
        return notice.reliability
    grace_s = settings.preemption_grace_s if settings.relax_collectives_on_preemption else 0.0
    if need_s > notice.seconds + grace_s:
        return 0.0
    return notice.reliability * (1 - 1 / question.job.nodes)


def _longer_than_losses(question: Question) -> str | None:
    if question.costs is None:
        return None
    every_s = unsaved_every_s(question)
    cycle_s = question.interval_s + question.costs.save_s + question.costs.upload_s
    if cycle_s < every_s:
        return None
    kind = "a loss" if every_s == _loss_s(question) else "a loss without a save on notice"
    return (
        f"a checkpoint is committed {in_s(cycle_s)} after training began, {kind} comes every "
        f"{in_s(every_s)}: {_share(math.exp(-cycle_s / every_s))} of attempts live to commit one"
    )


def _loss_s(question: Question) -> float:
    return loss_interval_s(question.market, question.job.nodes)


def _share(share: float) -> str:
    return f"{share:.0%}" if share >= _SELDOM else f"less than {_SELDOM:.0%}"


def _upload_behind(question: Question) -> str | None:
    if question.costs is None or question.costs.upload_s <= question.interval_s:
        return None
    return (
        f"an upload of {in_s(question.costs.upload_s)} is not done when the next begins after "
        f"{in_s(question.interval_s)}"
    )


def _by_score(question: Question) -> str | None:
    name = question.settings.checkpoint_score_attribute
    return None if name is None else f"checkpoints are kept by {name}; a resume needs the latest"


def _one_kept(question: Question) -> str | None:
    if question.settings.num_to_keep != 1:
        return None
    return "num_to_keep is 1: where the newest checkpoint is damaged there is none to go back to"


RULES = (
    Rule(
        id="interval",
        weight="costs",
        look=_far_from_best,
        reason="Too seldom throws work away at every loss, too often stands still for saves.",
        source="Daly 2006, equation for the wall time; exact for memoryless losses",
        bad={"job.checkpoint_every_steps": 9000, "job.saves_on_notice": False},
        good={"job.checkpoint_every_steps": 700},
    ),
    Rule(
        id="interval-above-losses",
        weight="costs",
        look=_longer_than_losses,
        reason="What is struck before it commits is done again, over and over. How long that "
        "takes, and whether it ever ends, the simulation says; the share is that of memoryless "
        "losses.",
        source="pytorch/elastic issue 97; P(no loss within t) = e^(-t/M)",
        bad={
            "job.checkpoint_every_steps": 39_000,
            "job.saves_on_notice": False,
            "market.lifetime.mtbf_h": 50.0,
        },
        good={"job.checkpoint_every_steps": 39_000, "market.lifetime.mtbf_h": 50.0},
    ),
    Rule(
        id="upload-behind-interval",
        weight="costs",
        look=_upload_behind,
        reason="Uploads pile up, or training waits for them; what is committed falls behind.",
        source="Ray 2.60, checkpoint upload threads",
        bad={"costs.upload_s": 1000.0},
        good={"costs.upload_s": 100.0},
    ),
    Rule(
        id="kept-by-score",
        weight="advice",
        look=_by_score,
        reason="Ray 2.60 keeps the latest beside the best; a job that looks for the best itself, "
        "or an older Ray, resumes from an old one.",
        source="Ray 2.60, CheckpointManager.register_checkpoint",
        bad={"settings.checkpoint_score_attribute": "accuracy"},
        good={"settings.checkpoint_score_attribute": None},
    ),
    Rule(
        id="one-checkpoint-kept",
        weight="advice",
        look=_one_kept,
        reason="A torn checkpoint is loaded again by every retry until the retries are spent.",
        source="seen with Ray 2.60: a truncated file, no fallback",
        bad={"settings.num_to_keep": 1},
        good={"settings.num_to_keep": 2},
    ),
)
