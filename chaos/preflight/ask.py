"""A question from what there is: a question's file, or runs that were recorded."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.check.trial import Trial
from chaos.errors import UsageError
from chaos.preflight.change import changed
from chaos.preflight.fit import fit, replayed
from chaos.preflight.market import Exponential, Market, Notice
from chaos.preflight.measured import Measured, measured
from chaos.preflight.presets import preset
from chaos.preflight.question import JobShape, Question, RaySettings
from chaos.preflight.traces import read_advisor, read_trace
from chaos.words import plural

UNNAMED = "calm-500h"


@dataclass(frozen=True)
class MarketChoice:
    """Where the market is from: a preset's name, a trace, or Spot Advisor's table."""

    name: str | None = None
    trace: Path | None = None
    replay: bool = False
    advisor: str | None = None

    @property
    def is_given(self) -> bool:
        """Whether anything was chosen."""
        return any((self.name, self.trace, self.advisor))


def chosen_market(choice: MarketChoice) -> tuple[Market, tuple[str, ...]]:
    """Return the market that was chosen, with what must be known of it.

    Traces and the table tell nothing of notices; two minutes in 95 of 100
    cases, as AWS promises at best, are taken, and said to be.
    """
    if sum(map(bool, (choice.name, choice.trace, choice.advisor))) > 1:
        problem = "more than one market is given"
        raise UsageError(problem, "Choose one of --market, --trace and --advisor.")
    assumed = Notice(seconds=120, reliability=0.95)
    said = "notice of 120 s in 95 % of losses and a price of 0.35 are assumed, not in the source"
    if choice.trace is not None:
        trace = read_trace(choice.trace)
        seen = fit(trace, notice=assumed, price_ratio=0.35)
        span = (
            f"{plural(seen.drops, 'loss', 'losses')}: {seen.mtbf_h.value:.2f} h per node "
            f"(95 %: {seen.mtbf_h.low:.2f} {_up_to(seen.mtbf_h.high)}), "
            f"{seen.together.value:.0%} take more than one node"
        )
        market = seen.market
        if choice.replay:
            market = replayed(trace, notice=assumed, price_ratio=0.35)
        return market, (span, *seen.notes, said)
    if choice.advisor is not None:
        return _advised(choice.advisor, assumed)
    return preset(choice.name or UNNAMED), ()


def _up_to(high: float) -> str:
    return f"to {high:.2f}" if math.isfinite(high) else "or more"


def _advised(words: str, notice: Notice) -> tuple[Market, tuple[str, ...]]:
    path, _, rest = words.rpartition(":")
    file, _, region = path.rpartition(":")
    if not file or not region or not rest:
        raise UsageError(f"--advisor is FILE:REGION:TYPE, got {words}")
    row = read_advisor(Path(file), region, rest)
    worst_h, _ = row.mtbf_h()
    market = Market(
        name=f"{row.type} in {row.region}",
        lifetime=Exponential(mtbf_h=worst_h),
        away_h=0.1,
        notice=notice,
        price_ratio=round(1 - row.savings, 4),
        source="AWS Spot Advisor, the bucket's worse end as a monthly hazard",
    )
    note = (
        "Spot Advisor says how often whole months end in an interruption; traces of sought-after "
        "GPUs show losses a hundred times as often. Take this as the best case"
    )
    return market, (note, "replacement within 6 min and 120 s of notice are assumed")


def question_of_runs(trials: Sequence[Trial], *, source: str, market: Market) -> Question:
    """Return the question that runs pose: one worker per node, as long as the clean run."""
    seen: Measured = measured(trials, source=f"measured in {source}")
    return Question(
        preflight=f"the job of {source}",
        job=JobShape(
            nodes=seen.workers,
            min_nodes=seen.min_workers,
            steps=seen.steps,
            checkpoint_every_steps=min(seen.steps, seen.checkpoint_every_steps),
        ),
        settings=RaySettings(**seen.settings),
        costs=seen.costs,
        market=market,
    )


def with_costs_of(question: Question, trials: Sequence[Trial], *, source: str) -> Question:
    """Return a question with its costs taken from recorded runs; its price stays."""
    seen = measured(trials, source=f"measured in {source}")
    costs = seen.costs.model_dump(mode="json")
    if question.costs is not None:
        own = question.costs
        costs |= {"price_per_node_hour": own.price_per_node_hour, "currency": own.currency}
    mode = {"settings.checkpoint_upload_mode": seen.settings["checkpoint_upload_mode"]}
    return changed(question, {"costs": costs, **mode})


def settled(question: Question, values: dict[str, Any]) -> Question:
    """Return the question with values from the command line."""
    return changed(question, values) if values else question
