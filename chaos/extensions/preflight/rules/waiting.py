"""Rules on time-outs: their idle time, and the order in which they end."""

from typing import Any

from chaos.extensions.preflight.estimate import format_seconds
from chaos.extensions.preflight.question import Costs, Question
from chaos.extensions.preflight.rules.rule import advises, stops, wastes

MANY = 5  # times a restart: a longer wait for a hang costs more than many losses
CONFIRMED_S = 600.0  # RAY_TRAIN_NCCL_RAS_CONFIRM_DURATION_S: before it the detector does nothing


@wastes(
    "health-check-timeout",
    in_figures=False,
    reason="A worker process that is stopped or frozen answers no poll, and this time-out "
    "ends it. A train function that hangs answers polls: its collective's time-out ends it, "
    "or nothing.",
    source="Ray 2.60, WorkerGroup._poll_workers_and_collect_errors; "
    "RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S (600 s)",
    bad={"settings.health_check_timeout_s": 600.0},
    good={"settings.health_check_timeout_s": 180.0},
)
def _health(question: Question) -> str | None:
    return _describe_long_timeout(
        question, "health_check_timeout_s", "a worker process that is frozen"
    )


@wastes(
    "collective-timeout",
    in_figures=False,
    reason="Where one rank hangs in the train function, the others wait for it in a collective "
    "until this ends them. A lost node is another matter: once Ray declares it dead it ends "
    "the survivors itself.",
    source="Ray 2.60, TorchConfig(timeout_s=1800); pytorch issue 111646",
    bad={"settings.collective_timeout_s": 1800.0},
    good={"settings.collective_timeout_s": 200.0},
)
def _collective(question: Question) -> str | None:
    return _describe_long_timeout(
        question, "collective_timeout_s", "a rank that hangs in the train function"
    )


def _describe_long_timeout(question: Question, name: str, cause: str) -> str | None:
    costs, timeout_s = question.costs, getattr(question.ray, name)
    if costs is None or timeout_s <= max(MANY * costs.restart_s, 120.0):
        return None
    return (
        f"{name} is {format_seconds(timeout_s)}; a restart takes "
        f"{format_seconds(costs.restart_s)}, so that "
        f"{cause} costs more than many losses"
    )


@advises(
    "report-timeout",
    in_figures=False,
    reason="report() and get_preemption_info() return once every rank has called them, and "
    "Ray's own default is to wait without end. With a limit it is one failure, charged to "
    "max_failures.",
    source="Ray 2.60, constants.py: DEFAULT_COLLECTIVE_TIMEOUT_S = None; SynchronizationActor",
    bad={"settings.report_timeout_s": None},
    good={"settings.report_timeout_s": 1800.0},
)
def _endless_report(question: Question) -> str | None:
    if question.ray.report_timeout_s is not None or question.job.nodes == 1:
        return None
    return (
        "RAY_TRAIN_COLLECTIVE_TIMEOUT_S is not set: a rank that never calls report() holds all "
        "others there for ever"
    )


@advises(
    "nccl-hang-observed",
    in_figures=False,
    reason="RAY_TRAIN_NCCL_RAS_ACTION is `observe` unless it is set: a hang is logged, with "
    "stacks, and nothing ends it. `fail` makes it a failure that is retried.",
    source="Ray 2.60, callbacks/nccl_ras.py: DEFAULT_NCCL_RAS_ACTION",
    bad={"settings.nccl_hang_detector": "observe", "settings.collective_timeout_s": 900.0},
    good={"settings.nccl_hang_detector": "fail", "settings.collective_timeout_s": 900.0},
)
def _only_observes(question: Question) -> str | None:
    settings = question.ray
    if settings.torch_backend != "nccl" or settings.nccl_hang_detector != "observe":
        return None
    if settings.collective_timeout_s <= CONFIRMED_S:
        return None
    return (
        "the hang detector of NCCL only observes: a hang that it confirms after "
        f"{format_seconds(CONFIRMED_S)} goes on until collective_timeout_s, "
        f"{format_seconds(settings.collective_timeout_s)}"
    )


@wastes(
    "detection-below-ray",
    in_figures=False,
    reason="A process that dies closes its connections, and is missed within a second; so are "
    "all nodes of a calibration on one machine. A host that freezes or drops off the network "
    "closes nothing, and Ray's health checks must run out. Where yours are set shorter, say "
    "so: settings.node_death_s.",
    source="Ray 2.60, RAY_health_check_period_ms, _timeout_ms, _failure_threshold; seen: 63 s",
    bad={"costs.detect_s": 0.05},
    good={"costs.detect_s": 4.0},
)
def _faster_than_ray(question: Question) -> str | None:
    costs, notice = question.costs, question.market.notice
    if costs is None or (notice.seconds and notice.reliability == 1):
        return None
    # If the detection is not stated by itself, it is a part of the restart.
    known_s, death_s = costs.detect_s or costs.restart_s, question.ray.node_death_s
    if known_s >= death_s:
        return None
    name = "detect_s" if costs.detect_s else "a whole restart"
    return (
        f"{name} is {format_seconds(known_s)}, and Ray declares a node that falls silent dead "
        "after "
        f"{format_seconds(death_s)}"
    )


@wastes(
    "group-start-timeout",
    reason="It bounds the wait for places alone, not the start of workers. A try that ends is "
    "a failure of the controller, retried without limit unless controller_failure_limit is "
    "set, and the next asks again. An elastic job that asks for nodes that are gone waits it "
    "out, so no longer than places take.",
    source="Ray 2.60, WorkerGroup._start_impl; Ray pull request 60376",
    bad={"settings.group_start_timeout_s": 10.0},
    good={"settings.group_start_timeout_s": 20.0},
)
def _slow_places(question: Question) -> str | None:
    costs, timeout_s = question.costs, question.ray.group_start_timeout_s
    if costs is None or costs.schedule_s < timeout_s:
        return None
    return (
        f"places for the group take {format_seconds(costs.schedule_s)} (schedule_s), and each try "
        "to get "
        f"them ends after {format_seconds(timeout_s)} (group_start_timeout_s)"
    )


_WITHIN = (  # what runs, and the time-out that it runs under
    ("health_check_interval_s", "health_check_timeout_s"),
    ("step_s", "collective_timeout_s"),
    ("save_s", "collective_timeout_s"),
    ("step_s", "report_timeout_s"),
)


@stops(
    "timeout-order",
    in_figures=False,
    reason="Each time-out must be longer than what runs under it, or the outer one fires "
    "while the inner one is at work.",
    source="torchtitan issue 2899",
    bad={"settings.collective_timeout_s": 8.0},
    good={"settings.collective_timeout_s": 60.0},
)
def _timeout_order(question: Question) -> str | None:
    durations: dict[str, Any] = {
        name: getattr(question.costs if name in Costs.model_fields else question.ray, name, None)
        for name in dict.fromkeys(name for pair in _WITHIN for name in pair)
    }
    pairs = ((inner, outer) for inner, outer in _WITHIN if durations[inner] and durations[outer])
    wrong = (
        f"{inner} ({format_seconds(durations[inner])}) is not below {outer} "
        f"({format_seconds(durations[outer])})"
        for inner, outer in pairs
        if durations[inner] >= durations[outer]
    )
    return "; ".join(wrong) or None


@wastes(
    "reports-throttled",
    in_figures=False,
    reason="Ray takes one report of each worker per poll; report() returns only then.",
    source="Ray 2.60, RAY_TRAIN_HEALTH_CHECK_INTERVAL_S (2 s)",
    bad={"job.reports_every_steps": 1},
    good={"job.reports_every_steps": 10},
)
def _reports_throttled(question: Question) -> str | None:
    costs, job = question.costs, question.job
    report_steps = job.reports_every_steps or job.checkpoint_every_steps
    if costs is None or report_steps * costs.step_s >= question.ray.health_check_interval_s:
        return None
    return (
        f"a report every {format_seconds(report_steps * costs.step_s)}, and one is taken per "
        "poll, every "
        f"{format_seconds(question.ray.health_check_interval_s)}: training waits in report()"
    )
