"""The question that a user asks with a file: their own, a platform's, a log, a folder of runs."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from chaos.check.analysis import RunAnalysis
from chaos.errors import UsageError
from chaos.model.history import History
from chaos.model.launcher import FACTS
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
        values = dict(self.values or {})
        if not self.choice.is_given and not self.subject.name.endswith(SUFFIX):
            notes = (f"no market was given: {market.name} is taken",)
        if self.prices is not None:
            priced = read_prices(self.prices)
            values = _priced(question, priced) | values
            notes = (*notes, priced.note)
        asked = changed(question, values)
        of_market = {place: one for place, one in values.items() if place.startswith("market.")}
        return Asked(asked, market_ranges(self.choice, of_market), (*said, *notes))

    def _question(self, market: Market) -> tuple[Question, tuple[str, ...]]:
        subject, costs = self.subject, self.costs
        if subject.name.endswith(SUFFIX):
            question = load_question(subject, market=market if self.choice.is_given else None)
            return (question, ()) if costs is None else _with_costs(question, costs)
        if self.analyses:
            source = f"{len(self.analyses)} runs of {subject} with faults"
            return question_of_runs(self.analyses, source=source, market=market), ()
        self._refuse_absent()
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

    def _refuse_absent(self) -> None:
        for path in (self.subject, self.costs):
            if path is not None and not path.exists():
                text = "there is no such file or folder"
                raise UsageError(text, "Check the path.", place=str(path))

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
        question, _ = _built(None, seen, market, own, str(self.subject))
        job = question.job.model_copy(update={"min_nodes": least})
        told = f"{self.subject}: workers and settings are those of one start of it"
        read = {"job": job, "settings": RaySettings(**settings)}
        return question.model_copy(update=read), (told, *seen.notes)


def _priced(question: Question, prices: Prices) -> dict[str, Any]:
    """Return the values of the prices of a question's nodes."""
    values: dict[str, Any] = {"market.price_ratio": round(prices.spot / prices.on_demand, 6)}
    if question.costs is not None:
        values["costs.price_per_node_hour"] = prices.on_demand
    return values


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
    where = seen.source.removeprefix("read in ") if told is None else told.path
    _refuse_missing(known, where)
    launcher = (told and told.launcher) or seen.launcher
    settings = SETTINGS[launcher or "torchrun"]
    shape = {place[4:]: known[place] for place in _NEEDED}
    if "job.checkpoint_every_steps" not in values:  # a save at the end, if at all
        with contextlib.suppress(TypeError):  # a value that is no number is refused below
            shape["checkpoint_every_steps"] = min(shape["checkpoint_every_steps"], shape["steps"])
    plain = Question(
        preflight=f"the job of {subject}",
        job=JobShape(nodes=1, steps=1, checkpoint_every_steps=1),
        settings=settings(),
        costs=Costs(step_s=1.0, save_s=0.0),
        market=market,
    )
    question = seen.of(changed(plain, {f"job.{name}": value for name, value in shape.items()}))
    fitting = {} if told is None else _fitting(told, question)
    question = changed(question, fitting)
    notes = [*(() if told is None else told.notes), *seen.notes]
    if launcher is None:
        question = changed(question, {"settings.agents": False})
        notes.append(
            "neither torchrun nor Ray is named in it: read as a command that any loss ends "
            "(--set settings.agents=true for torchrun)"
        )
    notes += _defaults(question, {*fitting, *values})
    return question, tuple(notes)


def _refuse_missing(known: Mapping[str, Any], where: str) -> None:
    missing = [place for place in _NEEDED if place not in known]
    if missing:
        what = " and ".join(_NEEDED[place] for place in missing)
        hint = f"Say {' '.join(f'--set {place}=N' for place in missing)}."
        raise UsageError(f"neither this file nor a log says {what}", hint, place=where)


def _defaults(question: Question, said: set[str]) -> Iterator[str]:
    """Yield what is taken of the settings that decide, where nothing says them."""
    settings = question.settings
    own = f", {FACTS[settings.launcher].words.name}'s default,"
    for name in settings.budgets:
        is_it = name != "max_restarts" or settings.hosts_rendezvous
        is_none = type(settings).model_fields[name].default == 0
        if is_it and is_none and f"settings.{name}" not in said:
            by = "" if name == "job_retries" else own  # the platform's
            yield f"{name} is not in it: 0{by} is taken (--set settings.{name}=N)"


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
    fields, values = type(question.settings).model_fields, dict(told.values)
    if values.get("job.min_nodes", 0) >= values.get("job.nodes", question.job.nodes):
        values.pop("job.min_nodes", None)  # it begins with the fewest
    return {
        place: value
        for place, value in values.items()
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
