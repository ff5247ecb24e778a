"""Rules of time-outs: how long nobody does anything, and in which order they fire."""

from chaos.preflight.question import Question
from chaos.preflight.rules.rule import Rule
from chaos.preflight.words import in_s

MANY = 5  # times a restart: waiting longer than that for a silent worker costs more than it saves


def _health(question: Question) -> str | None:
    return _long("health_check_timeout_s", question.settings.health_check_timeout_s, question)


def _collective(question: Question) -> str | None:
    return _long("collective_timeout_s", question.settings.collective_timeout_s, question)


def _long(name: str, timeout_s: float, question: Question) -> str | None:
    if question.costs is None:
        return None
    allowed_s = max(MANY * question.costs.restart_s, 120.0)
    if timeout_s <= allowed_s:
        return None
    return (
        f"{name} is {in_s(timeout_s)}; a restart takes {in_s(question.costs.restart_s)}, so that a "
        "worker that hangs costs more than many that die"
    )


def _order(question: Question) -> str | None:
    settings, costs = question.settings, question.costs
    pairs = [
        (
            *("health_check_interval_s", settings.health_check_interval_s),
            *("health_check_timeout_s", settings.health_check_timeout_s),
        ),
    ]
    if costs is not None:
        collective = ("collective_timeout_s", settings.collective_timeout_s)
        begin = ("schedule_s + start_s", costs.schedule_s + costs.start_s)
        pairs += [
            ("step_s", costs.step_s, *collective),
            ("save_s", costs.save_s, *collective),
            (*begin, "group_start_timeout_s", settings.group_start_timeout_s),
        ]
    wrong = [f"{a} ({in_s(x)}) is not below {b} ({in_s(y)})" for a, x, b, y in pairs if x >= y]
    return "; ".join(wrong) or None


def _throttled(question: Question) -> str | None:
    costs, job = question.costs, question.job
    every = job.reports_every_steps or job.checkpoint_every_steps
    if costs is None or every * costs.step_s >= question.settings.health_check_interval_s:
        return None
    return (
        f"a report every {in_s(every * costs.step_s)}, and one is taken per poll, every "
        f"{in_s(question.settings.health_check_interval_s)}: training waits in report()"
    )


RULES = (
    Rule(
        id="health-check-timeout",
        weight="costs",
        look=_health,
        reason="A worker that hangs without dying is noticed by this time-out alone.",
        source="Ray 2.60, RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S (600 s)",
        bad={"settings.health_check_timeout_s": 600.0},
        good={"settings.health_check_timeout_s": 180.0},
    ),
    Rule(
        id="collective-timeout",
        weight="costs",
        look=_collective,
        reason="Survivors of a silent loss wait in a collective until it times out.",
        source="torch default of 30 min for gloo; pytorch issue 111646",
        bad={"settings.collective_timeout_s": 1800.0},
        good={"settings.collective_timeout_s": 200.0},
    ),
    Rule(
        id="timeout-order",
        weight="stops",
        look=_order,
        reason="Each time-out must be longer than what runs under it, or the outer one fires "
        "while the inner one is at work.",
        source="torchtitan issue 2899",
        bad={"settings.group_start_timeout_s": 20.0},
        good={"settings.group_start_timeout_s": 60.0},
    ),
    Rule(
        id="reports-throttled",
        weight="costs",
        look=_throttled,
        reason="Ray takes one report of each worker per poll; report() returns only then.",
        source="Ray 2.60, RAY_TRAIN_HEALTH_CHECK_INTERVAL_S (2 s)",
        bad={"job.reports_every_steps": 1},
        good={"job.reports_every_steps": 10},
    ),
)
