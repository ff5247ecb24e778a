"""The question that a user asks with a file: their own, a platform's, a log, a folder of runs."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.check.analysis import RunAnalysis
from chaos.errors import UsageError
from chaos.extensions.preflight.assumed_markets import list_assumed_markets
from chaos.extensions.preflight.load import (
    SUFFIX,
    MarketChoice,
    build_run_question,
    choose_market,
    find_start_settings,
    load_analyses,
    load_question,
    market_ranges,
    replace_costs,
)
from chaos.extensions.preflight.market import Market
from chaos.extensions.preflight.observed_costs import (
    RESTART_S,
    SAVE_S,
    ObservedCosts,
    find_observed_costs,
)
from chaos.extensions.preflight.platform_files import PlatformFile, load_platform_file
from chaos.extensions.preflight.prices import Prices, load_prices
from chaos.extensions.preflight.question import (
    PARTS,
    Costs,
    JobShape,
    Question,
    change_question,
)
from chaos.extensions.preflight.ranges import ValueRange
from chaos.extensions.preflight.settings import SETTINGS, RaySettings
from chaos.model.history import History
from chaos.model.launcher import LAUNCHER_FACTS
from chaos.scenario_file.yaml_lines import load_text
from chaos.wording import join_names, plural

_NEEDED = {
    "job.nodes": "the nodes of the job",
    "job.steps": "the steps of the whole training",
    "job.checkpoint_every_steps": "the steps between two checkpoints",
}


@dataclass(frozen=True)
class UserQuestion:
    """A question, with what is known only as a range beside its costs, and notes."""

    question: Question
    ranges: tuple[ValueRange, ...] = ()
    notes: tuple[str, ...] = ()
    #: the markets that stand in for one that was not given
    markets: tuple[Market, ...] = ()


@dataclass(frozen=True)
class UserInputs:
    """The things that the user gave: a subject, a market, costs, values, and runs made of it."""

    #: None: the values are all of the job
    subject: Path | None
    choice: MarketChoice
    costs: Path | None = None
    values: Mapping[str, Any] | None = None
    analyses: Sequence[RunAnalysis] = ()
    #: FILE:REGION:TYPE
    prices: str | None = None
    #: of one start of the subject, a script of Ray Train's
    start: History | None = None

    def build_question(self) -> UserQuestion:
        """Return the question; raises `UsageError` for what cannot be read, or is missing."""
        market, notes = choose_market(self.choice)
        question, question_notes = self._find_question(market)
        values = dict(self.values or {})
        if self.prices is not None:
            prices = load_prices(self.prices)
            values = _find_price_values(question, prices) | values
            notes = (*notes, prices.note)
        changed_question = change_question(question, values)
        market_values = {key: value for key, value in values.items() if key.startswith("market.")}
        has_market = self.choice.is_given or self._is_question_file or "market" in values
        return UserQuestion(
            changed_question,
            market_ranges(self.choice, market_values),
            (*question_notes, *notes),
            () if has_market else list_assumed_markets(question, market_values),
        )

    @property
    def _subject_name(self) -> str:
        return "" if self.subject is None else self.subject.name

    @property
    def _is_question_file(self) -> bool:
        return self.subject is not None and self.subject.name.endswith(SUFFIX)

    def _find_question(self, market: Market) -> tuple[Question, tuple[str, ...]]:
        subject, costs = self.subject, self.costs
        if subject is None:
            return _build_stated_question(self.values or {}, market)
        if subject.name.endswith(SUFFIX):
            question = load_question(subject, market=market if self.choice.is_given else None)
            return (question, ()) if costs is None else _replace_costs(question, costs)
        if self.analyses:
            source = f"{len(self.analyses)} runs of {subject} with faults"
            return build_run_question(self.analyses, source=source, market=market), ()
        self._check_paths()
        platform_file, folder = load_platform_file(subject), costs or subject
        if self.start is not None and costs is not None:
            return self._build_start_question(self.start, costs, market)
        observed_costs = find_observed_costs(folder)
        if (
            observed_costs is None
            and platform_file is not None
            and "costs.step_s" in (self.values or {})
        ):
            observed_costs = _build_manual_costs(self.values or {})
        if observed_costs is not None:
            return _build_platform_question(
                platform_file, observed_costs, market, self.values or {}, subject.name
            )
        if not folder.is_dir():
            raise _build_costs_error(subject, platform_file)
        question = build_run_question(load_analyses(folder), source=str(folder), market=market)
        return (
            (question, ())
            if platform_file is None
            else apply_platform_file(question, platform_file, str(folder))
        )

    def _check_paths(self) -> None:
        for path in (self.subject, self.costs):
            if path is not None and not path.exists():
                text = "there is no such file or folder"
                raise UsageError(text, "Check the path.", location=str(path))

    def _build_start_question(
        self, start: History, costs: Path, market: Market
    ) -> tuple[Question, tuple[str, ...]]:
        """Return the question of a script by one start of it, with costs from elsewhere."""
        nodes, min_workers, settings = find_start_settings(start)
        observed_costs, values = (
            find_observed_costs(costs),
            {"job.nodes": nodes, **(self.values or {})},
        )
        if observed_costs is None:
            measured = build_run_question(load_analyses(costs), source=str(costs), market=market)
            job = measured.job.replace(nodes=nodes, min_nodes=min_workers)
            return measured.replace(job=job, settings=RaySettings(**settings)), ()
        question, _ = _build_platform_question(
            None, observed_costs, market, values, self._subject_name
        )
        job = question.job.replace(min_nodes=min_workers)
        note = f"{self.subject}: workers and settings are those of one start of it"
        updates = {"job": job, "settings": RaySettings(**settings)}
        return question.model_copy(update=updates), (note, *observed_costs.notes)


def _find_price_values(question: Question, prices: Prices) -> dict[str, Any]:
    """Return the values of the prices of a question's nodes."""
    values: dict[str, Any] = {"market.price_ratio": round(prices.spot / prices.on_demand, 6)}
    if question.costs is not None:
        values["costs.price_per_node_hour"] = prices.on_demand
    return values


def _replace_costs(question: Question, costs: Path) -> tuple[Question, tuple[str, ...]]:
    observed_costs = find_observed_costs(costs)
    if observed_costs is not None:
        cost_values = {
            key: value for key, value in observed_costs.values.items() if key[:4] != "job."
        }
        return ObservedCosts(observed_costs.source, cost_values, ()).apply_costs(
            question
        ), observed_costs.notes
    return replace_costs(question, load_analyses(costs), source=str(costs)), ()


def apply_platform_file(
    question: Question, platform_file: PlatformFile, source: str
) -> tuple[Question, tuple[str, ...]]:
    """Return the question of recorded runs with what a platform's file says."""
    length = (
        f"length and costs are those of {source}: {plural(question.job.steps, 'step')} on "
        f"{plural(question.job.nodes, 'node')}; say the whole training's with --set job.steps=N "
        "and --set job.checkpoint_every_steps=N"
    )
    titled_question = question.replace(preflight=platform_file.title)
    return change_question(
        titled_question, _select_platform_values(platform_file, titled_question)
    ), (*platform_file.notes, length)


def _build_platform_question(
    platform_file: PlatformFile | None,
    observed_costs: ObservedCosts,
    market: Market,
    values: Mapping[str, Any],
    subject: str,
) -> tuple[Question, tuple[str, ...]]:
    """Return the question of a platform's file, with costs that were read or said."""
    all_values = {
        **observed_costs.values,
        **({} if platform_file is None else platform_file.values),
        **values,
    }
    source = (
        observed_costs.source.removeprefix("read in ")
        if platform_file is None
        else platform_file.path
    )
    unfilled = () if platform_file is None else platform_file.unfilled
    _check_needed_values(all_values, source, unfilled)
    launcher = (platform_file and platform_file.launcher) or observed_costs.launcher
    settings = SETTINGS[launcher or "torchrun"]
    shape = {key[4:]: all_values[key] for key in _NEEDED}
    if "job.checkpoint_every_steps" not in values:  # a save at the end, if at all
        with contextlib.suppress(TypeError):  # a value that is no number is refused below
            shape["checkpoint_every_steps"] = min(shape["checkpoint_every_steps"], shape["steps"])
    base_question = Question(
        preflight=f"the job of {subject}" if platform_file is None else platform_file.title,
        job=JobShape(nodes=1, steps=1, checkpoint_every_steps=1),
        settings=settings(),
        costs=Costs(step_s=1.0, save_s=0.0),
        market=market,
    )
    question = observed_costs.apply_costs(
        change_question(base_question, {f"job.{name}": value for name, value in shape.items()})
    )
    platform_values = (
        {} if platform_file is None else _select_platform_values(platform_file, question)
    )
    question = change_question(question, platform_values)
    notes = [*(() if platform_file is None else platform_file.notes), *observed_costs.notes]
    if launcher is None:
        question = change_question(question, {"settings.agents": False})
        notes.append(
            "neither torchrun nor Ray is named in it: read as a command that any loss ends "
            "(--set settings.agents=true for torchrun)"
        )
    notes += _describe_defaults(question, {*platform_values, *values})
    return question, tuple(notes)


def _build_stated_question(
    values: Mapping[str, Any], market: Market
) -> tuple[Question, tuple[str, ...]]:
    """Return the question of a job of which all is said by values; names those that are missing."""
    _check_stated_values(values)
    launcher, note = _find_stated_launcher(values)
    stated_costs = _build_manual_costs(values)
    base_question = Question(
        preflight="a job without a file",
        job=JobShape(nodes=1, steps=1, checkpoint_every_steps=1),
        settings=SETTINGS[launcher](),
        costs=Costs(step_s=1.0, save_s=0.0),
        market=market,
    )
    shape = {key: values[key] for key in _NEEDED}
    question = stated_costs.apply_costs(change_question(base_question, shape))
    notes = (note, *stated_costs.notes, *_describe_defaults(question, {*values}))
    return question, notes


def _check_stated_values(values: Mapping[str, Any]) -> None:
    needed = {**_NEEDED, "costs.step_s": "the seconds of a step"}
    missing = {key: words for key, words in needed.items() if key not in values}
    if len(missing) == len(needed):
        hint = "Such as `chaos preflight big.preflight.yaml`."
        raise UsageError("no job is given", hint)
    if missing:
        hint = f"Say {' '.join(f'--set {key}=N' for key in missing)}."
        raise UsageError(f"the job lacks {join_names([*missing.values()])}", hint)


def _find_stated_launcher(values: Mapping[str, Any]) -> tuple[str, str]:
    """Return the launcher that values are of, and a note; Ray Train's, as in a question's file."""
    stated = values.get("settings.launcher")
    if stated is not None:
        if stated not in SETTINGS:
            problem = f"settings.launcher is one of {', '.join(SETTINGS)}"
            raise UsageError(f"{problem}, got {stated}")
        return str(stated), f"settings.launcher is {stated}"
    names = {key.split(".")[1] for key in values if key.startswith("settings.")}
    fits = [name for name, settings in SETTINGS.items() if names <= {*settings.model_fields}]
    if not names or "ray" in fits or not fits:
        return "ray", "settings.launcher is not given: read as a Ray Train job"
    launcher_names = ", ".join(sorted(names - {*SETTINGS["ray"].model_fields}))
    return fits[0], f"settings.launcher is {fits[0]}, as {launcher_names} says"


def _check_needed_values(values: Mapping[str, Any], source: str, unfilled: Sequence[str]) -> None:
    missing = [key for key in _NEEDED if key not in values]
    if missing:
        description = " and ".join(_NEEDED[key] for key in missing)
        hint = f"Say {' '.join(f'--set {key}=N' for key in missing)}."
        problem = f"neither this file nor a log says {description}"
        if unfilled:
            problem += f" ({'; '.join(unfilled)})"
        raise UsageError(problem, hint, location=source)


def _describe_defaults(question: Question, stated_keys: set[str]) -> Iterator[str]:
    """Yield what is taken of the settings that decide, where nothing says them."""
    settings = question.settings
    launcher_origin = f", {LAUNCHER_FACTS[settings.launcher].words.name}'s default,"
    for name in settings.budgets:
        is_relevant = name != "max_restarts" or settings.has_agents
        is_none = type(settings).model_fields[name].default == 0
        if is_relevant and is_none and f"settings.{name}" not in stated_keys:
            origin = "" if name == "job_retries" else launcher_origin  # the platform's
            yield f"{name} is not in it: 0{origin} is taken (--set settings.{name}=N)"


def _build_manual_costs(values: Mapping[str, Any]) -> ObservedCosts:
    """Return costs of which only that of a step was said."""
    ranges = {"save_s": SAVE_S, "restart_s": RESTART_S}
    costs: dict[str, Any] = {f"costs.{name}": list(assumed) for name, assumed in ranges.items()}
    if any(f"costs.{part}" in values for part in PARTS):  # each that is not said is 0, as in a file
        del ranges["restart_s"]
        costs["costs.restart_s"] = 0.0
    assumed_names = [name for name in ranges if f"costs.{name}" not in values]
    notes = (
        f"costs.{name} was not said: {ranges[name][0]:g} to {ranges[name][1]:g} s are assumed"
        for name in assumed_names
    )
    return ObservedCosts(
        "given by hand", {"costs.step_s": values["costs.step_s"], **costs}, tuple(notes)
    )


def _select_platform_values(platform_file: PlatformFile, question: Question) -> dict[str, Any]:
    """Return the values of a file that a question's settings have."""
    fields, values = type(question.settings).model_fields, dict(platform_file.values)
    if values.get("job.min_nodes", 0) >= values.get("job.nodes", question.job.nodes):
        values.pop("job.min_nodes", None)  # it begins with the fewest
    return {
        key: value
        for key, value in values.items()
        if not key.startswith("settings.") or key.removeprefix("settings.") in fields
    }


_SAGEMAKER = re.compile(r"(?m)^\s*(?:import|from) sagemaker\b")


def _build_costs_error(subject: Path, platform_file: PlatformFile | None) -> UsageError:
    """Return the error of a subject that says nothing of costs, by what it is."""
    if subject.suffix == ".py" and _SAGEMAKER.search(load_text(subject, "script")):
        return UsageError(
            "it is a script that starts a job of SageMaker, of which chaos reads nothing",
            "Give the training script, or write a question (*.preflight.yaml).",
            location=str(subject),
        )
    hint = (
        f"The file is no question (*{SUFFIX}), no log of a run, and none of the files of platforms "
        "that chaos reads. Of a script, add --calibrate to measure it here, or --costs with the "
        "folder of a run."
    )
    if platform_file is not None:
        statements = (
            "; ".join(file_value.description for file_value in platform_file.taken)
            or "nothing of nodes and restarts"
        )
        hint = (
            f"It is {platform_file.kind}, which says: {statements}. Add "
            "--costs with the folder of an audit, a log of a run, or the folder of its "
            "checkpoints; or say --set costs.step_s=S and --set job.steps=N."
        )
    return UsageError(
        "what this job costs to save and to restart is not known", hint, location=str(subject)
    )
