"""A question from a file, or from recorded runs and a chosen market."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from chaos.check.analysis import RunAnalysis
from chaos.errors import UsageError
from chaos.preflight.fit import fit, replayed
from chaos.preflight.market import MARKETS, Exponential, Market, Notice, preset
from chaos.preflight.measured import Measured, measured
from chaos.preflight.question import JobShape, Question, RaySettings, changed
from chaos.preflight.trace_files import read_advisor, read_trace
from chaos.record import Record
from chaos.scenario_file.messages import nearest, quoted
from chaos.scenario_file.yaml_lines import (
    Lines,
    Problem,
    Source,
    read_source,
    read_text,
    scenario_error,
)
from chaos.words import plural

SUFFIX = ".preflight.yaml"
_KINDS = {"exponential", "weibull", "bathtub"}
_MEANS_NOTHING = {  # keys that an earlier version accepted without effect
    "workers_per_node": "Leave it out: nodes are lost whole, however many workers they hold.",
    "launched_by": "Leave it out: who starts the job changes nothing in a forecast.",
}


def load_question(path: Path, *, market: dict[str, Any] | None = None) -> Question:
    """Read one question; `market` replaces the file's own, which may then be missing.

    Raises `ScenarioError` with all mistakes, each with its line.
    """
    source = read_source(read_text(path, "question"))
    if source.problems:
        raise scenario_error(path, source.problems)
    value = source.value
    if not isinstance(value, dict):
        text = f"a question must be a mapping, got {quoted(value)}"
        raise scenario_error(path, [Problem(1, text, "Begin with `preflight:` and `job:`.")])
    wrong: list[Problem] = []
    if market is not None:
        value["market"] = market
    elif isinstance(value.get("market"), str):
        value["market"], wrong = _named(source)
    try:
        question = Question.model_validate_json(json.dumps(value))
    except ValidationError as error:
        errors = error.errors(include_url=False)
        raise scenario_error(path, [*wrong, *_problems(errors, source.lines)]) from None
    if wrong:
        raise scenario_error(path, wrong)
    return question


def _named(source: Source) -> tuple[dict[str, Any], list[Problem]]:
    """Return the market of that name; without one, any, so that the rest is still checked."""
    try:
        return preset(str(source.value["market"])).model_dump(mode="json"), []
    except UsageError as error:
        line = source.lines.value(("market",))
        wrong = Problem(line, error.problem, error.hint, ("market",))
        return MARKETS[0].model_dump(mode="json"), [wrong]


def _problems(errors: list[ErrorDetails], lines: Lines) -> Iterator[Problem]:
    unknown = [_place(error) for error in errors if error["type"] == "extra_forbidden"]
    meant = {(*loc[:-1], nearest(str(loc[-1]), _keys_beside(loc))) for loc in unknown}
    for error in errors:
        loc = _place(error)
        if error["type"] == "missing" and loc in meant:
            continue  # a misspelt key is not also a missing one
        name = ".".join(str(part) for part in loc) or "the question"
        match error["type"]:
            case "extra_forbidden":
                near = nearest(str(loc[-1]), _keys_beside(loc))
                hint = _MEANS_NOTHING.get(str(loc[-1])) or (f"Did you mean {near}?" if near else "")
                yield Problem(lines.key(loc), f"unknown key {name!r}", hint, loc)
            case "missing":
                yield Problem(lines.value(loc[:-1]), f"{name} is missing", "", loc)
            case "value_error":
                text = error["msg"].removeprefix("Value error, ")
                yield Problem(lines.value(loc), text, "", loc)
            case _:
                text = f"{name}: {error['msg'][:1].lower()}{error['msg'][1:]}"
                yield Problem(lines.value(loc), f"{text}, got {quoted(error['input'])}", "", loc)


def _place(error: ErrorDetails) -> tuple[str | int, ...]:
    return tuple(part for part in error["loc"] if part not in _KINDS)


def _keys_beside(loc: tuple[str | int, ...]) -> list[str]:
    """Return the keys that are allowed at the place of `loc`."""
    kind: Any = Question
    for part in loc[:-1]:
        field = kind.model_fields.get(part)
        kind = next((k for k in _records(field.annotation) if k), None) if field else None
        if kind is None:
            return []
    return [*kind.model_fields, *getattr(kind, "ALSO", ())]


def _records(annotation: Any) -> Iterator[type[Record]]:  # noqa: ANN401 (a type, or a union)
    for one in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(one, type) and issubclass(one, Record):
            yield one


# -- questions of recorded runs -----------------------------------------------------------------

UNNAMED = "calm-500h"


@dataclass(frozen=True)
class MarketChoice:
    """The source of a market: a preset's name, a trace, or Spot Advisor's table."""

    name: str | None = None
    trace: Path | None = None
    replay: bool = False
    advisor: str | None = None

    @property
    def is_given(self) -> bool:
        """Whether a market was chosen."""
        return any((self.name, self.trace, self.advisor))


def chosen_market(choice: MarketChoice) -> tuple[Market, tuple[str, ...]]:
    """Return the chosen market, with notes on it.

    Traces and the table have no notices. Two minutes in 95 of 100 cases, which
    AWS promises at best, are assumed, with a note.
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


def question_of_runs(analyses: Sequence[RunAnalysis], *, source: str, market: Market) -> Question:
    """Return the question of recorded runs: one worker per node, as long as the clean run."""
    seen: Measured = measured(analyses, source=f"measured in {source}")
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


def with_costs_of(question: Question, analyses: Sequence[RunAnalysis], *, source: str) -> Question:
    """Return a question with its costs taken from recorded runs; its price stays."""
    seen = measured(analyses, source=f"measured in {source}")
    costs = seen.costs.model_dump(mode="json")
    if question.costs is not None:
        own = question.costs
        costs |= {"price_per_node_hour": own.price_per_node_hour, "currency": own.currency}
    mode = {"settings.checkpoint_upload_mode": seen.settings["checkpoint_upload_mode"]}
    return changed(question, {"costs": costs, **mode})
