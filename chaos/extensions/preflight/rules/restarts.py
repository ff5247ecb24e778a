"""Rules on the restarts of torchrun, and on those of the platform that starts its command."""

from functools import partial

from chaos.extensions.preflight.estimate import format_hours, format_seconds
from chaos.extensions.preflight.question import Question
from chaos.extensions.preflight.rules import rule
from chaos.extensions.preflight.rules.losses import describe_ended_runs
from chaos.extensions.preflight.rules.rule import Predictions
from chaos.extensions.preflight.settings import TorchrunSettings
from chaos.extensions.preflight.start_limit import (
    explain_impossible_starts,
    explain_start_limit,
)
from chaos.wording import plural

stops = partial(rule.stops, of=TorchrunSettings)
advises = partial(rule.advises, of=TorchrunSettings)
_ELASTIC_AGENT = "torch 2.13, torch/distributed/elastic/agent/server/api.py"


def _tolerates_no_loss(question: Question) -> bool:
    return question.torchrun.limits[0] == 0


def _no_restart_foretold(question: Question, predictions: Predictions) -> str | None:
    budget = "max_restarts" if question.torchrun.agents else "job_retries"
    ended = (
        describe_ended_runs(question, predictions, budget) if _tolerates_no_loss(question) else None
    )
    return ended and f"{_describe_zero_budget(question)}: the first loss ends {ended}"


def _describe_zero_budget(question: Question) -> str:
    agents = question.torchrun.agents
    return "max_restarts and job_retries are 0" if agents else "job_retries is 0"


@stops(
    "no-restart",
    simulated=_no_restart_foretold,
    reason="torchrun's --max-restarts is 0 by default: one lost worker ends the job, and nothing "
    "starts the command again.",
    source=f"torch 2.13, torch/distributed/run.py; {_ELASTIC_AGENT}",
    bad={"settings.max_restarts": 0, "settings.job_retries": 0},
    good={"settings.max_restarts": 10},
)
def _no_restart(question: Question) -> str | None:
    if not _tolerates_no_loss(question):
        return None
    return f"{_describe_zero_budget(question)}: the first loss ends the training"


@stops(
    "restart-budget",
    by="simulated",
    reason="Every loss takes one of --max-restarts of the agents that are left, which none gives "
    "back; each start of the command has all of them again.",
    source=f"{_ELASTIC_AGENT}; docs/launcher-reference.md",
    bad={"settings.max_restarts": 1, "settings.job_retries": 0, "market.lifetime.mtbf_h": 5.0},
    good={"settings.max_restarts": 60, "settings.job_retries": 60, "market.lifetime.mtbf_h": 5.0},
)
def _few_restarts(question: Question, predictions: Predictions) -> str | None:
    is_other = _tolerates_no_loss(question) or not question.torchrun.agents
    ended = None if is_other else describe_ended_runs(question, predictions, "max_restarts")
    restarts, retries = question.torchrun.max_restarts, question.torchrun.job_retries
    starts = plural(retries + 1, "start")
    return ended and f"max_restarts is {restarts}, of {starts}, and using them up ends {ended}"


@stops(
    "rendezvous-on-spot",
    reason="The agents of all nodes end with the one that hosts the c10d rendezvous, restarts left "
    "or not: RendezvousConnectionError. Only a new start of the command goes on.",
    source="torch 2.13, seen in real runs: docs/launcher-reference.md; pytorch issue 182221",
    bad={"job.on_demand_nodes": 0, "settings.job_retries": 0},
    good={"job.on_demand_nodes": 1, "settings.job_retries": 0},
)
def _host_on_spot(question: Question) -> str | None:
    job, settings = question.job, question.torchrun
    if job.nodes == 1 or job.on_demand_nodes or settings.job_retries or not settings.agents:
        return None
    return (
        f"one of {job.nodes} nodes hosts the rendezvous, on the spot market: its loss ends the "
        "job, and job_retries is 0"
    )


@advises(
    "lost-while-meeting",
    in_figures=False,
    reason="Agents that have met tell each other their ranks. One that was lost before it did is "
    "waited for 60 s, and then the agent that hosts the store raises DistStoreError, restarts left "
    "or not, and all others end with it. Only a new start of the command goes on. It takes two "
    "losses, or a loss and a start, within seconds.",
    source="torch 2.13, seen in five of 60 runs: docs/validation.md",
    bad={"settings.job_retries": 0},
    good={"settings.job_retries": -1},
)
def _loss_during_rendezvous(question: Question) -> str | None:
    settings = question.torchrun
    if question.job.nodes == 1 or settings.job_retries or not settings.agents:
        return None
    return "job_retries is 0: a node that is lost just as the agents meet ends the job"


@stops(
    "starts-used-up",
    by="simulated",
    reason="A start of the command is used up by the loss of the node that hosts the rendezvous, "
    "by more losses than it has restarts, and by a wait in vain.",
    source="docs/launcher-reference.md",
    bad={
        "job.on_demand_nodes": 0,
        "settings.job_retries": 1,
        "market.lifetime.mtbf_h": 5.0,
    },
    good={
        "job.on_demand_nodes": 0,
        "settings.job_retries": 200,
        "market.lifetime.mtbf_h": 5.0,
    },
)
def _few_starts(question: Question, predictions: Predictions) -> str | None:
    retries = question.torchrun.job_retries
    ended = describe_ended_runs(question, predictions, "job_retries") if retries else None
    return ended and f"job_retries is {retries}, and starts that are used up end {ended}"


def _waits_in_vain(question: Question, predictions: Predictions) -> str | None:
    ended = describe_ended_runs(question, predictions, "join_timeout_s")
    retries = question.torchrun.job_retries
    reason = ended and f"job_retries is {retries}, and starts that wait in vain end {ended}"
    return reason or _join_timeout_short(question)


@stops(
    "join-timeout",
    simulated=_waits_in_vain,
    reason="Agents that wait for a node longer than join_timeout fail: RendezvousTimeoutError. "
    "Only a new start of the command goes on.",
    source="torch 2.13, DynamicRendezvousHandler; docs/launcher-reference.md",
    bad={"settings.job_retries": 0, "job.min_nodes": None, "job.spare_nodes": 0},
    good={"settings.job_retries": -1, "job.min_nodes": None, "job.spare_nodes": 0},
)
def _join_timeout_short(question: Question) -> str | None:
    settings, market, job = question.torchrun, question.market, question.job
    away_s = market.away_h * 3600
    if settings.job_retries or job.spare_nodes or job.min_nodes is not None or market.is_shared:
        return None
    if settings.join_timeout_s > away_s or not settings.agents:
        return None
    return (
        f"join_timeout is {format_hours(settings.join_timeout_s / 3600)}, a lost node is away for "
        f"{format_hours(market.away_h)} on average, and job_retries is 0"
    )


@stops(
    "start-limit",
    reason="A job of Slurm's that reaches its --time is TIMEOUT, and not requeued for it: only a "
    "script that queues itself again before then goes on (settings.limit_requeues), and only from "
    "what a start has saved.",
    source="Slurm 22.05, sbatch(1): --time, --requeue",
    bad={"settings.start_limit_h": 0.1, "settings.limit_requeues": -1},
    good={
        "settings.start_limit_h": 0.1,
        "settings.limit_requeues": -1,
        "settings.limit_signal_s": 200.0,
        "job.saves_on_notice": True,
    },
)
def _longer_than_its_starts(question: Question) -> str | None:
    return None if question.costs is None else explain_impossible_starts(question)


@advises(
    "start-limit-without-losses",
    reason="A start that a loss used up is followed by one with all of its time. A job that is "
    "longer than its starts ends only if losses come often enough for that.",
    source="Slurm 22.05, sbatch(1): --time, --requeue",
    bad={"settings.start_limit_h": 2.0},
    good={"settings.start_limit_h": 2.0, "settings.limit_requeues": 20},
)
def _longer_without_losses(question: Question) -> str | None:
    if question.costs is None or explain_impossible_starts(question) is not None:
        return None
    return explain_start_limit(question)


@advises(
    "signal-before-save",
    reason="Slurm ends the job when its time limit is over, whether or not what the signal began "
    "is done. It may send the signal up to a minute earlier, and no later.",
    source="Slurm 22.05, sbatch(1): --signal",
    bad={
        "settings.start_limit_h": 200.0,
        "settings.limit_signal_s": 1.0,
        "costs.save_s": 30.0,
    },
    good={
        "settings.start_limit_h": 200.0,
        "settings.limit_signal_s": 120.0,
        "costs.save_s": 30.0,
    },
)
def _signal_too_late(question: Question) -> str | None:
    before_s, costs = question.torchrun.limit_signal_s, question.costs
    if before_s is None or question.torchrun.start_limit_h is None or costs is None:
        return None
    needs_s = costs.step_s + costs.save_s + costs.upload_s
    if needs_s <= before_s:
        return None
    return (
        f"--signal comes {format_seconds(before_s)} before --time is over, and the end of a step "
        "and a save "
        f"take {format_seconds(needs_s)}: a save that begins on it is cut off"
    )
