"""Rules of how often a checkpoint is made, and which are kept."""

from chaos.preflight.closed_form import efficiency, exact
from chaos.preflight.market import loss_interval_s
from chaos.preflight.question import Question
from chaos.preflight.rules.notices import worst_save_s
from chaos.preflight.rules.rule import Rule
from chaos.preflight.words import in_s

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
    every_s = loss_interval_s(question.market, question.job.nodes)
    need_s, notice = worst_save_s(question), question.market.notice
    if not question.job.saves_on_notice or need_s is None or need_s > notice.seconds:
        return every_s
    return every_s / max(1e-3, 1 - notice.reliability)


def _longer_than_losses(question: Question) -> str | None:
    if question.costs is None:
        return None
    every_s = loss_interval_s(question.market, question.job.nodes)
    if question.interval_s + question.costs.save_s < every_s:
        return None
    return (
        f"a checkpoint every {in_s(question.interval_s)}, a loss every {in_s(every_s)}: "
        "most attempts end before they have committed anything"
    )


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
        weight="stops",
        look=_longer_than_losses,
        reason="Training that is struck before each commit does the same steps for ever.",
        source="pytorch/elastic issue 97",
        bad={"job.checkpoint_every_steps": 39_000, "market.lifetime.mtbf_h": 50.0},
        good={"job.checkpoint_every_steps": 700, "market.lifetime.mtbf_h": 50.0},
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
