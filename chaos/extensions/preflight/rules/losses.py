"""Rules on losses: retries, notices, missing nodes, the head."""

import math

from chaos.extensions.preflight.capacity import find_up_quantile
from chaos.extensions.preflight.estimate import format_hours, format_seconds
from chaos.extensions.preflight.forecast import MOST_RETRIES
from chaos.extensions.preflight.market import summarize_reading
from chaos.extensions.preflight.question import Question
from chaos.extensions.preflight.rules.rule import Predictions, advises, stops, wastes
from chaos.wording import plural

# Of the time: a job that never shrinks should have its nodes in all but this share of it.
LOW = 0.05
# A node that is back within a minute is no absence that spares are for.
SHORT_H = 1 / 60
_LEEWAY_S = 5.0  # the tolerance of a grace, which is not set to the second


def worst_save_s(question: Question) -> float | None:
    """Return the longest time of a save on notice, None if it is unknown."""
    if question.costs is None or not question.market.notice.seconds:
        return None
    return question.notice_save_s


# -- budgets of retries ------------------------------------------------------------------------


def _no_retry_foretold(question: Question, predictions: Predictions) -> str | None:
    ended = (
        None
        if question.ray.max_failures
        else describe_ended_runs(question, predictions, "max_failures")
    )
    return ended and f"max_failures is 0: the first loss without a notice ends {ended}"


@stops(
    "no-retry",
    simulated=_no_retry_foretold,
    reason="Ray's default is no retry at all: one lost worker ends the training.",
    source="Ray 2.60, FailureConfig(max_failures=0)",
    bad={"settings.max_failures": 0},
    good={"settings.max_failures": 10},
)
def _no_retry(question: Question) -> str | None:
    notice = question.market.notice
    if question.ray.max_failures != 0 or (notice.seconds and notice.reliability == 1):
        return None
    return "max_failures is 0: the first loss without a notice ends the training"


@stops(
    "retry-budget",
    by="simulated",
    reason="Every unannounced loss of a running group takes one retry, over the whole run; "
    "none is given back.",
    source="Ray 2.60, DefaultFailurePolicy",
    bad={"settings.max_failures": 1, "market.lifetime.mtbf_h": 5.0},
    good={"settings.max_failures": 60, "market.lifetime.mtbf_h": 5.0},
)
def _few_retries(question: Question, predictions: Predictions) -> str | None:
    return _used_up(question, predictions, "max_failures") if question.ray.max_failures else None


@stops(
    "preemption-budget",
    by="simulated",
    reason="Announced losses have a budget of their own; the default, -1, is no limit.",
    source="Ray 2.60, FailureConfig(max_preemption_failures)",
    bad={"settings.max_preemption_failures": 0},
    good={"settings.max_preemption_failures": 30},
)
def _few_preemptions(question: Question, predictions: Predictions) -> str | None:
    return _used_up(question, predictions, "max_preemption_failures")


def _few_starts(question: Question, predictions: Predictions) -> str | None:
    ended = _used_up(question, predictions, "controller_failure_limit")
    return ended or _failure_limit_low(question)


def _used_up(question: Question, predictions: Predictions, budget: str) -> str | None:
    ended = describe_ended_runs(question, predictions, budget)
    return (
        ended and f"{budget} is {getattr(question.settings, budget)}, and using it up ends {ended}"
    )


def describe_ended_runs(question: Question, predictions: Predictions, budget: str) -> str | None:
    """Return in words the share of runs that a budget ends, if it is too high."""
    chance, accepted = predictions.forecast.ends[budget], 1 - question.goal.confidence
    if chance.share <= accepted:
        return None
    return f"{chance.share:.1%} of runs ({100 * accepted:.3g}% may)"


@stops(
    "controller-failure-limit",
    simulated=_few_starts,
    reason="A try to place the group that ends after group_start_timeout_s is one failure of "
    "the controller, counted over the whole run. The default, -1, is no limit.",
    source="Ray 2.60, FailureConfig(controller_failure_limit), DefaultFailurePolicy",
    bad={
        "settings.controller_failure_limit": 2,
        "job.min_nodes": None,
        "job.spare_nodes": 0,
    },
    good={"settings.controller_failure_limit": -1, "job.min_nodes": None, "job.spare_nodes": 0},
)
def _failure_limit_low(question: Question) -> str | None:
    settings, market, job = question.ray, question.market, question.job
    limit, away_s = settings.controller_failure_limit, market.away_h * 3600
    lasts_s = (limit + 1) * settings.group_start_timeout_s
    if limit < 0 or job.spare_nodes or job.min_nodes is not None or lasts_s > away_s:
        return None
    if market.is_shared:  # other nodes replace a lost one at once, and `away_h` is no wait
        return None
    return (
        f"controller_failure_limit is {limit}: {format_hours(lasts_s / 3600)} without a place for "
        "the "
        f"group end the training, and a lost node is away for {format_hours(market.away_h)} on "
        "average"
    )


def _endless_by_need(question: Question, predictions: Predictions) -> str | None:
    """Return the finding only where a number that is small would be enough."""
    needed = predictions.forecast.retries["max_failures"]
    return None if needed > MOST_RETRIES else _endless_retries(question)


@advises(
    "endless-retries",
    simulated=_endless_by_need,
    reason="A failure of the script's own is charged as a lost worker is. Where few losses are "
    "expected, a finite number well above them is as safe and ends.",
    source="Ray 2.60, FailureConfig(max_failures=-1), DefaultFailurePolicy",
    bad={"settings.max_failures": -1},
    good={"settings.max_failures": 200},
)
def _endless_retries(question: Question) -> str | None:
    if question.ray.max_failures != -1:
        return None
    return "max_failures is -1: a bug in the script is retried for ever, on nodes that are paid for"


# -- notices -----------------------------------------------------------------------------------


@wastes(
    "watcher-off",
    reason="Without it an announced loss may be charged to max_failures, and no save is made.",
    source="Ray 2.60, RAY_TRAIN_ENABLE_PREEMPTION_WATCHER; seen: charged as a failure",
    bad={"settings.preemption_watcher": False},
    good={"settings.preemption_watcher": True},
)
def _watcher_off(question: Question) -> str | None:
    if question.ray.preemption_watcher or not question.market.notice.seconds:
        return None
    return "the market gives notice, and the preemption watcher is off"


@wastes(
    "poll-against-notice",
    reason="Part of every notice passes before anyone knows of it.",
    source="Ray 2.60, RAY_TRAIN_PREEMPTION_POLL_INTERVAL_S (5 s)",
    bad={"settings.preemption_poll_s": 60.0},
    good={"settings.preemption_poll_s": 5.0},
)
def _slow_poll(question: Question) -> str | None:
    notice_s, poll_s = question.market.notice.seconds, question.ray.preemption_poll_s
    if not notice_s or poll_s <= notice_s / 4:
        return None
    return (
        f"the watcher polls every {format_seconds(poll_s)}, and a notice comes "
        f"{format_seconds(notice_s)} before "
        "the loss"
    )


@wastes(
    "notice-too-short",
    reason="A save that is not committed at the deadline is lost. Survivors may commit later "
    "with preemption_grace_s and relax_collectives_on_preemption together.",
    source="Ray 2.60, FailureConfig; Ray pull request 66225",
    bad={"costs.upload_s": 200.0},
    good={
        "costs.upload_s": 200.0,
        "settings.preemption_grace_s": 96.0,
        "settings.relax_collectives_on_preemption": True,
    },
)
def _notice_too_short(question: Question) -> str | None:
    need_s = worst_save_s(question)
    window_s = question.market.notice.seconds + question.settings.relaxed_s
    if need_s is None or not question.job.saves_on_notice or need_s <= window_s:
        return None
    return (
        f"a save on notice takes up to {format_seconds(need_s)} (poll, step, save, upload), and "
        "has "
        f"{format_seconds(window_s)}"
    )


@wastes(
    "grace-alone",
    reason="Survivors that wait for lost ranks in a collective gain nothing from more time. "
    "Relaxing does not help where rank 0 itself is lost.",
    source="Ray 2.60, FailureConfig(preemption_grace_s)",
    bad={"settings.preemption_grace_s": 60.0},
    good={
        "costs.upload_s": 160.0,
        "settings.preemption_grace_s": 60.0,
        "settings.relax_collectives_on_preemption": True,
    },
)
def _grace_alone(question: Question) -> str | None:
    settings = question.ray
    if not settings.preemption_grace_s or settings.relax_collectives_on_preemption:
        return None
    return "preemption_grace_s is set, relax_collectives_on_preemption is not"


@wastes(
    "grace-too-long",
    reason="Survivors that hang in a collective, as NCCL's do, are ended at the deadline and "
    "the grace, not when the save is done: all of it is a wait.",
    source="Ray 2.60, TrainController._handle_preempting_state",
    bad={
        "settings.preemption_grace_s": 600.0,
        "settings.relax_collectives_on_preemption": True,
    },
    good={
        "costs.upload_s": 200.0,
        "settings.preemption_grace_s": 96.0,
        "settings.relax_collectives_on_preemption": True,
    },
)
def _grace_too_long(question: Question) -> str | None:
    need_s, grace_s = worst_save_s(question), question.ray.preemption_grace_s
    if need_s is None or not question.job.saves_on_notice:
        return None
    late_s = max(0.0, need_s - question.market.notice.seconds)
    if grace_s <= late_s + _LEEWAY_S:
        return None
    return (
        f"preemption_grace_s is {format_seconds(grace_s)}; a save on notice ends "
        f"{format_seconds(late_s)} after the "
        "deadline at worst"
    )


@advises(
    "notice-unused",
    reason="A checkpoint just before the loss leaves almost nothing to do again.",
    source="Ray pull request 65047: 82 % fewer wasted steps",
    bad={"job.saves_on_notice": False},
    good={"job.saves_on_notice": True},
)
def _notice_unused(question: Question) -> str | None:
    need_s, notice = worst_save_s(question), question.market.notice
    if need_s is None or question.job.saves_on_notice or notice.reliability == 0:
        return None
    if need_s > notice.seconds:
        return None
    return (
        f"a save on notice would take {format_seconds(need_s)} of "
        f"{format_seconds(notice.seconds)}, and is not made"
    )


# -- pods ----------------------------------------------------------------------------------------


def _charged_evictions(question: Question) -> str | None:
    """Return in words why an eviction is charged to max_failures, None if it is not."""
    settings = question.ray
    grace_s, drain_s = settings.pod_grace_s, settings.node_drain_s
    if grace_s is None:
        return None
    if settings.hook_drain_s:
        if settings.hook_needs_s < grace_s:
            return None
        return (
            "Ray Train rules on the preStop hook's drain after "
            f"{format_seconds(settings.hook_needs_s)}, and "
            f"the pod is killed {format_seconds(grace_s)} after the hook began"
        )
    if not drain_s:
        return "an evicted pod's node does not drain: it goes unannounced"
    if grace_s < drain_s:
        return (
            f"an evicted pod is killed after {format_seconds(grace_s)}, and its node drains for "
            f"{format_seconds(drain_s)}: it goes before the deadline that it has announced"
        )
    return (
        f"an evicted pod's node is ended at its own deadline, {format_seconds(drain_s)} after "
        "SIGTERM: which "
        "budget pays for it is chance"
    )


@stops(
    "eviction-unretried",
    in_figures=False,
    reason="Ray announces the loss, and charges it to max_failures all the same. A preStop hook, "
    "`ray drain-node` and a sleep that outlives its deadline, makes it a preemption.",
    source="Ray 2.60, Node._drain_node_before_shutdown; seen: design note 23",
    bad={"settings.max_failures": 0, "settings.pod_grace_s": 30.0},
    good={
        "settings.max_failures": 0,
        "settings.pod_grace_s": 30.0,
        "settings.hook_drain_s": 20.0,
    },
)
def _evicted_once(question: Question) -> str | None:
    text = None if question.ray.max_failures else _charged_evictions(question)
    return text and f"{text}; max_failures is 0, and one can end the training"


@wastes(
    "eviction-charged",
    in_figures=False,
    reason="Each eviction takes one of max_failures, which none gives back: a rolling update takes "
    "one for every node. A preStop hook, `ray drain-node` and a sleep, makes them preemptions.",
    source="Ray 2.60, Node._drain_node_before_shutdown; seen: design note 23",
    bad={"settings.pod_grace_s": 30.0},
    good={"settings.pod_grace_s": 30.0, "settings.hook_drain_s": 20.0},
)
def _evicted_often(question: Question) -> str | None:
    return _charged_evictions(question) if question.ray.max_failures else None


# -- nodes -------------------------------------------------------------------------------------


@stops(
    "nodes-above-maximum",
    in_figures=False,
    reason="Ray asks the autoscaler's configuration before it places a group. A group above "
    "its maximum is an error that is not retried; spares above it never come.",
    source="Ray 2.60, WorkerGroup._check_cluster_resources_and_raise_if_insufficient",
    bad={"job.nodes_max": 8},
    good={"job.nodes_max": 9},
)
def _exceeds_maximum(question: Question) -> str | None:
    job = question.job
    if job.nodes_max is None or job.pool <= job.nodes_max:
        return None
    spares = f" and {job.spare_nodes} spare" if job.spare_nodes else ""
    return f"{job.nodes} nodes{spares} are held, and the autoscaler starts {job.nodes_max} at most"


@stops(
    "head-on-spot",
    in_figures=False,
    reason="A lost head is not a restart: the driver, the controller and the record of nodes "
    "are gone, and someone must start the job again.",
    source="kuberay issue 2153; the simulation knows no loss of the head",
    bad={"settings.head_on_spot": True},
    good={"settings.head_on_spot": False},
)
def _head_on_spot(question: Question) -> str | None:
    if not question.ray.head_on_spot:
        return None
    return (
        f"the head stands on the spot market, where a node is lost every "
        f"{format_hours(question.market.mtbf_h)} on average"
    )


@stops(
    "workers-on-head",
    in_figures=False,
    reason="A lost head is not a restart: the driver must be started again, by someone.",
    source="kuberay issue 2153",
    bad={"settings.workers_on_head": True},
    good={"settings.workers_on_head": False},
)
def _workers_on_head(question: Question) -> str | None:
    if not question.ray.workers_on_head:
        return None
    return "workers stand on the head node: its loss ends driver and controller as well"


@wastes(
    "min-nodes-above-market",
    of=None,
    reason="While fewer nodes are there than the job needs it stands still, and the rest is "
    "paid for.",
    source="the market's own low quantile",
    bad={"job.min_nodes": None, "job.spare_nodes": 0, "market.away_h": 10.0},
    good={"job.min_nodes": 4, "market.away_h": 10.0},
)
def _exceeds_market(question: Question) -> str | None:
    min_nodes, job = question.job.min_nodes or question.job.nodes, question.job
    reliable_nodes = job.on_demand_nodes + find_up_quantile(question.market, job.spot_nodes, LOW)
    if min_nodes <= reliable_nodes:
        return None
    return (
        f"the job needs {min_nodes} nodes; of "
        f"{question.job.pool}{summarize_reading(question.market)} the "
        f"market leaves {reliable_nodes} or fewer in {LOW:.0%} of the time"
    )


@wastes(
    "no-spare",
    of=None,
    reason="A spare node or a smaller group turns a wait into a restart.",
    source="discrete-event model; Ray 2.60, ScalingConfig(num_workers=(min, max))",
    bad={"job.min_nodes": None, "job.spare_nodes": 0},
    good={"job.min_nodes": None, "job.spare_nodes": 1},
)
def _no_spare(question: Question) -> str | None:
    job, away_h, replay = question.job, question.market.away_h, question.market.replay
    if job.spare_nodes or job.min_nodes is not None or (replay is None and away_h <= SHORT_H):
        return None
    if question.market.is_shared:
        return (
            "no spare node and not elastic: where the market has fewer than "
            f"{plural(job.nodes, 'node')}{summarize_reading(question.market)}, training waits"
        )
    how_long = "as long as in the trace" if replay else f"{format_hours(away_h)} on average"
    return (
        "no spare node and not elastic: every loss stops training until the node is replaced, "
        f"{how_long}"
    )


@advises(
    "elastic-batch",
    in_figures=False,
    of=None,
    reason="The script is started with fewer ranks, and nothing else changes: batch, learning "
    "rate and the split of the data are the script's. Where it follows, say so: "
    "job.rescales_batch.",
    source="Ray 2.60, ElasticScalingPolicy; torch 2.13, --nnodes MIN:MAX",
    bad={"job.rescales_batch": False},
    good={"job.rescales_batch": True},
)
def _no_batch_plan(question: Question) -> str | None:
    job = question.job
    if job.min_nodes is None or job.rescales_batch:
        return None
    min_percent = math.floor(100 * job.min_nodes / job.nodes)
    return (
        f"with {job.min_nodes} to {job.nodes} nodes a step sees as little as {min_percent}% of the "
        "batch, unless the script makes up for it"
    )
