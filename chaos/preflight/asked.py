"""The question that a user asks with a file: their own, a platform's, a log, a folder of runs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from chaos.check.analysis import RunAnalysis
from chaos.errors import UsageError
from chaos.model.history import History
from chaos.preflight.load import (
    SUFFIX,
    MarketChoice,
    analyses_in,
    chosen_market,
    load_question,
    market_ranges,
    question_of_runs,
    seen_at_start,
    with_costs_of,
)
from chaos.preflight.market import Market
from chaos.preflight.platform_files import PlatformFile, read_platform
from chaos.preflight.prices import Prices, read_prices
from chaos.preflight.question import Costs, JobShape, Question, changed
from chaos.preflight.ranges import Range
from chaos.preflight.seen_costs import RESTART_S, SAVE_S, SeenCosts, seen_costs
from chaos.preflight.settings import SETTINGS, RaySettings
from chaos.scenario_file.yaml_lines import read_text
from chaos.words import plural

_NEEDED = {
    "job.nodes": "the nodes of the job",
    "job.steps": "the steps of the whole training",
    "job.checkpoint_every_steps": "the steps between two checkpoints",
}


@dataclass(frozen=True)
class Asked:
    """A question, with what is known only as a range beside its costs, and notes."""

    question: Question
    ranges: tuple[Range, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Given:
    """The things that the user gave: a subject, a market, costs, values, and runs made of it."""

    subject: Path
    choice: MarketChoice
    costs: Path | None = None
    values: Mapping[str, Any] | None = None
    analyses: Sequence[RunAnalysis] = ()
    #: FILE:REGION:TYPE
    prices: str | None = None
    #: of one start of the subject, a script of Ray Train's
    start: History | None = None

    def asked(self) -> Asked:
        """Return the question; raises `UsageError` for what cannot be read, or is missing."""
        market, notes = chosen_market(self.choice)
        question, said = self._question(market)
        if not self.choice.is_given and not self.subject.name.endswith(SUFFIX):
            notes = (f"no market was given: {market.name} is taken",)
        if self.prices is not None:
            question, priced = _priced(question, read_prices(self.prices))
            notes = (*notes, priced)
        asked = changed(question, self.values or {})
        return Asked(asked, market_ranges(self.choice), (*said, *notes))

    def _question(self, market: Market) -> tuple[Question, tuple[str, ...]]:
        subject, costs = self.subject, self.costs
        if subject.name.endswith(SUFFIX):
            question = load_question(subject, market=market if self.choice.is_given else None)
            return (question, ()) if costs is None else _with_costs(question, costs)
        if self.analyses:
            source = f"{len(self.analyses)} runs of {subject} with faults"
            return question_of_runs(self.analyses, source=source, market=market), ()
        if not subject.exists():
            text = "there is no such file or folder"
            raise UsageError(text, "Check the path.", place=str(subject))
        told, folder = read_platform(subject), costs or subject
        if self.start is not None and costs is not None:
            return self._of_start(self.start, costs, market)
        seen = seen_costs(folder)
        if seen is None and told is not None and "costs.step_s" in (self.values or {}):
            seen = _by_hand(self.values or {})
        if seen is not None:
            return _built(told, seen, market, self.values or {}, str(subject))
        if not folder.is_dir():
            _refuse_without_costs(subject, told)
        question = question_of_runs(analyses_in(folder), source=str(folder), market=market)
        return (question, ()) if told is None else of_platform(question, told, str(folder))

    def _of_start(
        self, start: History, costs: Path, market: Market
    ) -> tuple[Question, tuple[str, ...]]:
        """Return the question of a script by one start of it, with costs from elsewhere."""
        nodes, least, settings = seen_at_start(start)
        seen, own = seen_costs(costs), {"job.nodes": nodes, **(self.values or {})}
        if seen is None:
            measured = question_of_runs(analyses_in(costs), source=str(costs), market=market)
            job = measured.job.model_copy(update={"nodes": nodes, "min_nodes": least})
            return measured.model_copy(update={"job": job, "settings": RaySettings(**settings)}), ()
        question, notes = _built(None, seen, market, own, str(self.subject))
        job = question.job.model_copy(update={"min_nodes": least})
        told = f"{self.subject}: workers and settings are those of one start of it"
        read = {"job": job, "settings": RaySettings(**settings)}
        return question.model_copy(update=read), (told, *notes[: len(seen.notes)])


def _priced(question: Question, prices: Prices) -> tuple[Question, str]:
    """Return a question with the prices of its nodes."""
    values: dict[str, Any] = {"market.price_ratio": round(prices.spot / prices.on_demand, 6)}
    if question.costs is not None:
        values["costs.price_per_node_hour"] = prices.on_demand
    return changed(question, values), prices.note


def _with_costs(question: Question, costs: Path) -> tuple[Question, tuple[str, ...]]:
    seen = seen_costs(costs)
    if seen is not None:
        kept = {place: value for place, value in seen.values.items() if place[:4] != "job."}
        return SeenCosts(seen.source, kept, ()).of(question), seen.notes
    return with_costs_of(question, analyses_in(costs), source=str(costs)), ()


def of_platform(
    question: Question, told: PlatformFile, source: str
) -> tuple[Question, tuple[str, ...]]:
    """Return the question of recorded runs with what a platform's file says."""
    length = (
        f"length and costs are those of {source}: {plural(question.job.steps, 'step')} on "
        f"{plural(question.job.nodes, 'node')}; say the whole training's with --set job.steps=N "
        "and --set job.checkpoint_every_steps=N"
    )
    named = question.model_copy(update={"preflight": f"the job of {told.path}"})
    return changed(named, _fitting(told, named)), (*told.notes, length)


def _built(
    told: PlatformFile | None,
    seen: SeenCosts,
    market: Market,
    values: Mapping[str, Any],
    subject: str,
) -> tuple[Question, tuple[str, ...]]:
    """Return the question of a platform's file, with costs that were read or said."""
    known = {**seen.values, **({} if told is None else told.values), **values}
    missing = [place for place in _NEEDED if place not in known]
    if missing:
        what = " and ".join(_NEEDED[place] for place in missing)
        hint = f"Say {' '.join(f'--set {place}=N' for place in missing)}."
        where = seen.source.removeprefix("read in ") if told is None else told.path
        verb = "is" if len(missing) == 1 else "are"
        raise UsageError(f"{what} {verb} neither in this file nor in a log", hint, place=where)
    settings = SETTINGS["ray" if told is None else told.launcher or "torchrun"]
    question = Question(
        preflight=f"the job of {subject}",
        job=JobShape.model_validate({place[4:]: known[place] for place in _NEEDED}),
        settings=settings(),
        costs=Costs(step_s=1.0, save_s=0.0),
        market=market,
    )
    question = seen.of(question)
    notes = [*seen.notes]
    if told is not None:
        question = changed(question, _fitting(told, question))
        notes = [*told.notes, *notes]
    if settings is RaySettings and "settings.max_failures" not in values:
        notes.append("max_failures is not in it: 0, Ray's default, is taken (--set)")
    return question, tuple(notes)


def _by_hand(values: Mapping[str, Any]) -> SeenCosts:
    """Return costs of which only that of a step was said."""
    ends = {"save_s": SAVE_S, "restart_s": RESTART_S}
    costs = {f"costs.{name}": list(assumed) for name, assumed in ends.items()}
    left = [name for name in ends if f"costs.{name}" not in values]
    notes = (
        f"costs.{name} was not said: {ends[name][0]:g} to {ends[name][1]:g} s are assumed"
        for name in left
    )
    return SeenCosts(
        "given by hand", {"costs.step_s": values["costs.step_s"], **costs}, tuple(notes)
    )


def _fitting(told: PlatformFile, question: Question) -> dict[str, Any]:
    """Return the values of a file that a question's settings have."""
    fields = type(question.settings).model_fields
    return {
        place: value
        for place, value in told.values.items()
        if not place.startswith("settings.") or place.removeprefix("settings.") in fields
    }


_SAGEMAKER = re.compile(r"(?m)^\s*(?:import|from) sagemaker\b")


def _refuse_without_costs(subject: Path, told: PlatformFile | None) -> NoReturn:
    if subject.suffix == ".py" and _SAGEMAKER.search(read_text(subject, "script")):
        raise UsageError(
            "it is a script that starts a job of SageMaker, of which chaos reads nothing",
            "Give the training script, or write a question (*.preflight.yaml).",
            place=str(subject),
        )
    hint = (
        f"The file is no question (*{SUFFIX}), no log of a run, and none of the files of platforms "
        "that chaos reads. Of a script, add --calibrate to measure it here, or --costs with the "
        "folder of a run."
    )
    if told is not None:
        said = "; ".join(one.words for one in told.taken) or "nothing of nodes and restarts"
        hint = (
            f"It is {told.kind}, which says: {said}. Add "
            "--costs with the folder of an audit, a log of a run, or the folder of its "
            "checkpoints; or say --set costs.step_s=S and --set job.steps=N."
        )
    raise UsageError(
        "what this job costs to save and to restart is not known", hint, place=str(subject)
    )
