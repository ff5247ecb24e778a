"""Rules of what is made of a notice."""

from chaos.preflight.question import Question
from chaos.preflight.rules.rule import Rule
from chaos.preflight.words import in_s


def _watcher_off(question: Question) -> str | None:
    if question.settings.preemption_watcher or not question.market.notice.seconds:
        return None
    return "the market gives notice, and the preemption watcher is off"


def _poll(question: Question) -> str | None:
    notice_s, poll_s = question.market.notice.seconds, question.settings.preemption_poll_s
    if not notice_s or poll_s <= notice_s / 4:
        return None
    return (
        f"the watcher polls every {in_s(poll_s)}, and a notice comes {in_s(notice_s)} before "
        "the loss"
    )


def worst_save_s(question: Question) -> float | None:
    """Give how long a save on notice takes at worst: poll, step, save, upload. None: not known."""
    costs = question.costs
    if costs is None or not question.market.notice.seconds:
        return None
    return question.settings.preemption_poll_s + costs.step_s + costs.save_s + costs.upload_s


def _too_slow(question: Question) -> str | None:
    need_s, settings = worst_save_s(question), question.settings
    window_s = question.market.notice.seconds
    if settings.relax_collectives_on_preemption:
        window_s += settings.preemption_grace_s
    if need_s is None or not question.job.saves_on_notice or need_s <= window_s:
        return None
    return (
        f"a save on notice takes up to {in_s(need_s)} (poll, step, save, upload), and has "
        f"{in_s(window_s)}"
    )


def _grace_alone(question: Question) -> str | None:
    settings = question.settings
    if not settings.preemption_grace_s or settings.relax_collectives_on_preemption:
        return None
    return "preemption_grace_s is set, relax_collectives_on_preemption is not"


def _unused(question: Question) -> str | None:
    need_s, notice = worst_save_s(question), question.market.notice
    if need_s is None or question.job.saves_on_notice or notice.reliability == 0:
        return None
    if need_s > notice.seconds:
        return None
    return f"a save on notice would take {in_s(need_s)} of {in_s(notice.seconds)}, and is not made"


RULES = (
    Rule(
        id="watcher-off",
        weight="costs",
        look=_watcher_off,
        reason="Without it an announced loss may be charged to max_failures, and no save is made.",
        source="Ray 2.60, RAY_TRAIN_ENABLE_PREEMPTION_WATCHER; seen: charged as a failure",
        bad={"settings.preemption_watcher": False},
        good={"settings.preemption_watcher": True},
    ),
    Rule(
        id="poll-against-notice",
        weight="costs",
        look=_poll,
        reason="Part of every notice passes before anyone knows of it.",
        source="Ray 2.60, RAY_TRAIN_PREEMPTION_POLL_INTERVAL_S (5 s)",
        bad={"settings.preemption_poll_s": 60.0},
        good={"settings.preemption_poll_s": 5.0},
    ),
    Rule(
        id="notice-too-short",
        weight="costs",
        look=_too_slow,
        reason="A save that is not committed at the deadline is lost. Survivors may commit later "
        "with preemption_grace_s and relax_collectives_on_preemption together.",
        source="Ray 2.60, FailureConfig; Ray pull request 66225",
        bad={"costs.upload_s": 200.0},
        good={
            "costs.upload_s": 200.0,
            "settings.preemption_grace_s": 150.0,
            "settings.relax_collectives_on_preemption": True,
        },
    ),
    Rule(
        id="grace-alone",
        weight="costs",
        look=_grace_alone,
        reason="Survivors that wait for lost ranks in a collective gain nothing from more time. "
        "Relaxing does not help where rank 0 itself is lost.",
        source="Ray 2.60, FailureConfig(preemption_grace_s)",
        bad={"settings.preemption_grace_s": 60.0},
        good={
            "settings.preemption_grace_s": 60.0,
            "settings.relax_collectives_on_preemption": True,
        },
    ),
    Rule(
        id="notice-unused",
        weight="advice",
        look=_unused,
        reason="A checkpoint just before the loss leaves almost nothing to do again.",
        source="Ray pull request 65047: 82 % fewer wasted steps",
        bad={"job.saves_on_notice": False},
        good={"job.saves_on_notice": True},
    ),
)
