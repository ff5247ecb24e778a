"""Rules of which nodes there are, and where workers stand."""

from chaos.preflight.availability import held_quantile
from chaos.preflight.question import Question
from chaos.preflight.rules.rule import Rule

LOW = 0.05
SHORT_H = 1 / 60


def _on_head(question: Question) -> str | None:
    if not question.settings.workers_on_head:
        return None
    return "workers stand on the head node: its loss ends driver and controller as well"


def _above_market(question: Question) -> str | None:
    least = question.job.min_nodes or question.job.nodes
    held = held_quantile(question.market, question.job.pool, LOW)
    if least <= held:
        return None
    return (
        f"the job needs {least} nodes; of {question.job.pool} the market leaves {held} or fewer "
        f"in {LOW:.0%} of the time"
    )


def _no_spare(question: Question) -> str | None:
    job, away_h, replay = question.job, question.market.away_h, question.market.replay
    if job.spare_nodes or job.min_nodes is not None or (replay is None and away_h <= SHORT_H):
        return None
    how_long = "as long as in the trace" if replay else f"{away_h * 60:.0f} min on average"
    return (
        "no spare node and not elastic: every loss stops training until the node is replaced, "
        f"{how_long}"
    )


RULES = (
    Rule(
        id="workers-on-head",
        weight="stops",
        look=_on_head,
        reason="A lost head is not a restart: the driver must be started again, by someone.",
        source="kuberay issue 2153",
        bad={"settings.workers_on_head": True},
        good={"settings.workers_on_head": False},
    ),
    Rule(
        id="min-nodes-above-market",
        weight="costs",
        look=_above_market,
        reason="While fewer nodes are there than the job needs it stands still, and the rest is "
        "paid for.",
        source="the market's own low quantile",
        bad={"job.min_nodes": None, "job.spare_nodes": 0, "market.away_h": 10.0},
        good={"job.min_nodes": 4, "market.away_h": 10.0},
    ),
    Rule(
        id="no-spare",
        weight="costs",
        look=_no_spare,
        reason="A spare node or a smaller group turns a wait into a restart.",
        source="discrete-event model; Ray 2.60, ScalingConfig(num_workers=(min, max))",
        bad={"job.min_nodes": None, "job.spare_nodes": 0},
        good={"job.min_nodes": None, "job.spare_nodes": 1},
    ),
)
