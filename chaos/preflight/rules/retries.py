"""Rules of the retry budgets."""

from chaos.preflight.closed_form import spent_chance
from chaos.preflight.market import loss_interval_s
from chaos.preflight.question import Question
from chaos.preflight.rules.rule import Rule


def _expected(question: Question) -> tuple[float, float] | None:
    """Give the (unannounced, announced) losses to be expected in the shortest training."""
    if question.costs is None:
        return None
    losses = question.work_s / loss_interval_s(question.market, question.job.nodes)
    notice = question.market.notice
    told = notice.reliability if notice.seconds and question.settings.preemption_watcher else 0.0
    return losses * (1 - told), losses * told


def _accepted(question: Question) -> float:
    """Give the share of runs that may fail, by the confidence that was asked for."""
    return 1 - question.goal.confidence


def _no_retry(question: Question) -> str | None:
    expected = _expected(question)
    unannounced = None if expected is None else expected[0]
    if question.settings.max_failures != 0:
        return None
    if unannounced is not None and spent_chance(unannounced, 0) <= _accepted(question):
        return None
    seen = "" if unannounced is None else f"; {unannounced:.1f} unannounced losses are expected"
    return f"max_failures is 0: the first loss without a notice ends the training{seen}"


def _few_retries(question: Question) -> str | None:
    expected, limit = _expected(question), question.settings.max_failures
    if expected is None or limit == 0:
        return None
    return _too_few(question, limit, expected[0], ("max_failures", "unannounced"))


def _few_preemptions(question: Question) -> str | None:
    expected = _expected(question)
    if expected is None:
        return None
    limit = question.settings.max_preemption_failures
    return _too_few(question, limit, expected[1], ("max_preemption_failures", "announced"))


def _too_few(question: Question, limit: int, losses: float, names: tuple[str, str]) -> str | None:
    chance, accepted = spent_chance(losses, limit), _accepted(question)
    if chance <= accepted:
        return None
    name, kind = names
    return (
        f"{name} is {limit}; with {losses:.1f} {kind} losses expected {chance:.0%} of runs use it "
        f"up, and {100 * accepted:.3g}% may"
    )


RULES = (
    Rule(
        id="no-retry",
        weight="stops",
        look=_no_retry,
        reason="Ray's default is no retry at all: one lost worker ends the training.",
        source="Ray 2.60, FailureConfig(max_failures=0)",
        bad={"settings.max_failures": 0},
        good={"settings.max_failures": 10},
    ),
    Rule(
        id="retry-budget",
        weight="stops",
        look=_few_retries,
        reason="Every unannounced loss takes one retry, over the whole run; none is given back.",
        source="Ray 2.60, DefaultFailurePolicy; Poisson count of losses",
        bad={"settings.max_failures": 1, "market.lifetime.mtbf_h": 5.0},
        good={"settings.max_failures": 60, "market.lifetime.mtbf_h": 5.0},
    ),
    Rule(
        id="preemption-budget",
        weight="stops",
        look=_few_preemptions,
        reason="Announced losses have a budget of their own; the default, -1, is no limit.",
        source="Ray 2.60, FailureConfig(max_preemption_failures)",
        bad={"settings.max_preemption_failures": 0},
        good={"settings.max_preemption_failures": 30},
    ),
)
