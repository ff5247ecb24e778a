"""Rules on the restarts of torchrun, and on those of the platform that starts its command."""

from functools import partial

from chaos.preflight.estimate import in_hours
from chaos.preflight.question import Question
from chaos.preflight.rules import rule
from chaos.preflight.rules.losses import ended_by
from chaos.preflight.rules.rule import Predictions
from chaos.preflight.settings import TorchrunSettings

stops = partial(rule.stops, of=TorchrunSettings)
_ELASTIC_AGENT = "torch 2.13, torch/distributed/elastic/agent/server/api.py"


def _bears_none(question: Question) -> bool:
    return question.torchrun.limits[0] == 0


def _no_restart_foretold(question: Question, predictions: Predictions) -> str | None:
    ended = ended_by(question, predictions, "max_restarts") if _bears_none(question) else None
    return ended and f"max_restarts and job_retries are 0: the first loss ends {ended}"


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
    if not _bears_none(question):
        return None
    return "max_restarts and job_retries are 0: the first loss ends the training"


@stops(
    "restart-budget",
    by="simulated",
    reason="Every loss takes one of --max-restarts of the agents that are left, which none gives "
    "back; each start of the command has all of them again.",
    source=f"{_ELASTIC_AGENT}; docs/torchrun-nodes.md",
    bad={"settings.max_restarts": 1, "settings.job_retries": 0, "market.lifetime.mtbf_h": 5.0},
    good={"settings.max_restarts": 60, "settings.job_retries": 60, "market.lifetime.mtbf_h": 5.0},
)
def _few_restarts(question: Question, predictions: Predictions) -> str | None:
    ended = None if _bears_none(question) else ended_by(question, predictions, "max_restarts")
    restarts, retries = question.torchrun.max_restarts, question.torchrun.job_retries
    return ended and (
        f"max_restarts is {restarts} in each of {retries + 1} starts, and using them up ends "
        f"{ended}"
    )


@stops(
    "rendezvous-on-spot",
    reason="The agents of all nodes end with the one that hosts the c10d rendezvous, restarts left "
    "or not: RendezvousConnectionError. Only a new start of the command goes on.",
    source="torch 2.13, seen in real runs: docs/torchrun-nodes.md; pytorch issue 182221",
    bad={"job.on_demand_nodes": 0, "settings.job_retries": 0},
    good={"job.on_demand_nodes": 1, "settings.job_retries": 0},
)
def _host_on_spot(question: Question) -> str | None:
    job = question.job
    if job.nodes == 1 or job.on_demand_nodes or question.torchrun.job_retries:
        return None
    return (
        f"one of {job.nodes} nodes hosts the rendezvous, on the spot market: its loss ends the "
        "job, and nothing starts the command again"
    )


@stops(
    "lost-while-meeting",
    reason="Agents that have met tell each other their ranks. One that was lost before it did is "
    "waited for 60 s, and then the agent that hosts the store raises DistStoreError, restarts left "
    "or not, and all others end with it. Only a new start of the command goes on.",
    source="torch 2.13, seen in five of 60 runs: docs/validation.md",
    bad={"settings.job_retries": 0},
    good={"settings.job_retries": -1},
)
def _lost_while_meeting(question: Question) -> str | None:
    if question.job.nodes == 1 or question.torchrun.job_retries:
        return None
    return (
        "job_retries is 0: a node that is lost just as the agents meet ends the job, and nothing "
        "starts the command again"
    )


def _few_starts(question: Question, predictions: Predictions) -> str | None:
    for budget in ("job_retries", "join_timeout_s"):
        ended = ended_by(question, predictions, budget)
        if ended is not None:
            why = "a lost host of the rendezvous" if budget == "job_retries" else "a wait in vain"
            return f"job_retries is {question.torchrun.job_retries}, and {why} ends {ended}"
    return _one_wait_too_long(question)


@stops(
    "join-timeout",
    simulated=_few_starts,
    reason="Agents that wait for a node longer than join_timeout fail: RendezvousTimeoutError. "
    "Only a new start of the command goes on.",
    source="torch 2.13, DynamicRendezvousHandler; docs/torchrun-nodes.md",
    bad={"settings.job_retries": 0, "job.min_nodes": None, "job.spare_nodes": 0},
    good={"settings.job_retries": -1, "job.min_nodes": None, "job.spare_nodes": 0},
)
def _one_wait_too_long(question: Question) -> str | None:
    settings, market, job = question.torchrun, question.market, question.job
    away_s = market.away_h * 3600
    if settings.job_retries or job.spare_nodes or job.min_nodes is not None or market.is_shared:
        return None
    if settings.join_timeout_s > away_s:
        return None
    return (
        f"join_timeout is {in_hours(settings.join_timeout_s / 3600)}, a lost node is away for "
        f"{in_hours(market.away_h)} on average, and nothing starts the command again"
    )
