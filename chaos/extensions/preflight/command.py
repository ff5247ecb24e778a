"""`chaos preflight`: a forecast of a job with its settings on a spot market."""

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaos.app.field_rules import Field, FieldUses, Needs
from chaos.check.analysis import RunAnalysis
from chaos.cli.documents import Document, Format, Output
from chaos.cli.options import REPORTS, Reports, ScriptArguments, Seed, parse_hours
from chaos.errors import UsageError
from chaos.extensions.known_defects import find_installed_defects
from chaos.extensions.preflight.answer import Answer, answer_question
from chaos.extensions.preflight.assumed_markets import answer_on_markets
from chaos.extensions.preflight.calibration import (
    RunSettings,
    calibration_runs,
    observe_start,
    validate_forecast,
)
from chaos.extensions.preflight.compression import Losses
from chaos.extensions.preflight.forecast import Effort
from chaos.extensions.preflight.load import SUFFIX, MarketChoice, build_run_question, load_analyses
from chaos.extensions.preflight.market import MARKETS, TraceReading
from chaos.extensions.preflight.question import Question
from chaos.extensions.preflight.render import list_parts
from chaos.extensions.preflight.rules import RULES
from chaos.extensions.preflight.trace_columns import Unit
from chaos.extensions.preflight.user_question import UserInputs, UserQuestion
from chaos.extensions.preflight.validation import Validation, validate_runs
from chaos.model.launcher import LAUNCHER_FACTS
from chaos.model.plan import PlanBackend
from chaos.report.live import LiveLine
from chaos.report.markdown_parts import render_markdown_parts
from chaos.report.screen import build_bare_table, build_console
from chaos.run.ci import add_to_step_summary
from chaos.run.clock import Clock, SystemClock, elapsed_seconds, format_stamp
from chaos.run.directory import ensure_reports_folder
from chaos.wording import plural, suggest_name

HELP_PANEL = "Cluster configuration"
HELP_LINE = "Forecast a job on a spot market."

SIMULATIONS = 10_000
MOMENT_S = 1.0
VALIDATION_RUNS: dict[PlanBackend, int] = {"fork": 24, "ray": 6, "torchrun": 6, "python": 6}

_market_option, _measurement_option, _goal_option = (
    partial(typer.Option, rich_help_panel=panel)
    for panel in ("Market and costs", "Measured in runs", "Goals")
)

Subject = Annotated[
    Path | None,
    typer.Argument(
        metavar="SUBJECT",
        help="A question (*.preflight.yaml), a run's or an audit's folder, a log or "
        "a folder of checkpoints. With --calibrate, a script or a scenario. "
        "With --costs, a platform's file (RayJob, sbatch, …).",
    ),
]
MarketName = Annotated[
    str | None, _market_option("--market", metavar="NAME", help="A preset; see --list.")
]
TraceFile = Annotated[
    Path | None, _market_option("--trace", metavar="FILE", help="Fit the market to this trace.")
]
ReplayIt = Annotated[
    bool,
    _market_option("--replay-trace", help="Repeat the trace instead of fitting it."),
    Needs("trace"),
]
TraceNodes = Annotated[
    TraceReading | None,
    _market_option(
        "--trace-nodes",
        help="How the trace's nodes are read. pool: a cluster like yours, of another"
        " size. market: you hold as many as you want of those that are up. "
        "Default: both; where the answers differ, cannot tell.",
    ),
    Needs("trace"),
]
TraceHeld = Annotated[
    str | None,
    _market_option(
        "--trace-held",
        metavar="N|N..M",
        help="How many nodes there were, where the trace is a log or a table of those that were "
        "lost. Of a range both ends are answered.",
    ),
    Needs("trace"),
]
TraceUnit = Annotated[
    Unit | None,
    _market_option(
        "--trace-unit", help="Of plain times in the columns of a trace, where no heading says it."
    ),
    Needs("trace"),
]
AdvisorRow = Annotated[
    str | None,
    _market_option(
        "--advisor", metavar="FILE:REGION:TYPE", help="A row of AWS Spot Advisor's JSON."
    ),
]
PricesFrom = Annotated[
    str | None,
    _market_option(
        "--prices", metavar="FILE:REGION:TYPE", help="A row of a catalog of SkyPilot's (CSV)."
    ),
]
CostsFrom = Annotated[
    Path | None,
    _market_option(
        "--costs",
        metavar="PATH",
        help="Use the costs of this run or audit, of a log, or of a folder of checkpoints.",
    ),
]
Calibrate = Annotated[
    bool,
    _measurement_option(
        "--calibrate", help="Measure the job's costs in runs with and without faults."
    ),
]
BackendOption = Annotated[
    PlanBackend,
    _measurement_option("--backend", help="Where --calibrate and --validate run the job."),
]
Validate = Annotated[
    bool,
    _measurement_option(
        "--validate",
        help="Compare the forecast with real runs under the market's losses, in fast motion. Other "
        "runs measure the costs before.",
    ),
]
ValidationRuns = Annotated[
    int | None,
    _measurement_option(
        "--validation-runs", min=2, metavar="N", help="Default: 24; in real processes 6."
    ),
    Needs("validate"),
]
LossesOption = Annotated[
    Losses,
    _measurement_option(
        "--losses",
        help="What a loss of --validate takes: a worker, a node that returns later, or a node "
        "with notice.",
    ),
]
Scale = Annotated[
    float | None,
    _measurement_option(
        "--scale",
        min=1,
        metavar="X",
        help="Speed-up of the market. Default: a few losses per run.",
    ),
    Needs("validate"),
]
Recorded = Annotated[
    Path | None,
    _measurement_option(
        "--recorded", metavar="FOLDER", help="Compare the model with this run or audit."
    ),
]
Deadline = Annotated[
    float | None,
    _goal_option(
        "--deadline",
        parser=parse_hours,
        metavar="TIME",
        help="Such as 72h or 3d; a number alone is in hours.",
    ),
]
MaxCost = Annotated[
    float | None,
    _goal_option("--max-cost", metavar="SHARE", help="Cost as a share of on-demand, such as 0.5."),
]
GoodputGoal = Annotated[
    float | None, _goal_option("--goodput", metavar="SHARE", help="Such as 0.8.")
]
Values = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PLACE=VALUE", help="Such as job.nodes=64. Repeatable."),
]


class RuleIds(NamedTuple):
    """They are ids of rules."""

    def find_error(self, field: Field, _: FieldUses) -> UsageError | None:
        names = [rule.id for rule in RULES]
        name = next((name for name in field.value or () if name not in names), None)
        if name is None:
            return None
        hint = suggest_name(name.lower(), names, "See `chaos preflight --list`.")
        return UsageError(f"there is no rule '{name}'", hint)


Ignore = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="RULE", help="A rule's id. Repeatable."),
    RuleIds(),
]
Simulations = Annotated[
    int, typer.Option("--simulations", min=100, metavar="N", help="Simulated runs.")
]
Listing = Annotated[bool, typer.Option("--list", help="List the markets and the rules.")]


def preflight(  # noqa: PLR0913 - one parameter per option
    subject: Subject = None,
    arguments: ScriptArguments = None,
    *,
    market: MarketName = None,
    trace: TraceFile = None,
    replay: ReplayIt = False,
    trace_nodes: TraceNodes = None,
    trace_held: TraceHeld = None,
    trace_unit: TraceUnit = None,
    advisor: AdvisorRow = None,
    prices: PricesFrom = None,
    costs: CostsFrom = None,
    calibrate: Calibrate = False,
    backend: BackendOption = "fork",
    validate: Validate = False,
    validation_runs: ValidationRuns = None,
    losses: LossesOption = "kills",
    scale: Scale = None,
    recorded: Recorded = None,
    deadline: Deadline = None,
    max_cost: MaxCost = None,
    goodput: GoodputGoal = None,
    values: Values = None,
    ignore: Ignore = None,
    simulations: Simulations = SIMULATIONS,
    seed: Seed = 0,
    form: Format = None,
    output: Output = None,
    reports: Reports = REPORTS,
    listing: Listing = False,
) -> None:
    """Forecast whether a job finishes on a spot market, and name the wrong settings.

    Exit codes: 0 go, 5 go with changes, 1 no-go, 2 inconclusive, 3 usage error.

    Example: chaos preflight big.preflight.yaml --market busy-16h --deadline 72h
    """
    document = Document.parse(form, output, "text", "json", "md", "html")
    console = build_console(stderr=document.takes_stdout)
    if listing:
        _print_presets(build_console())
        return
    held_range = _parse_held_range(trace_held)
    choice = MarketChoice(market, trace, replay, trace_nodes, held_range, trace_unit, advisor)
    count = validation_runs or VALIDATION_RUNS[backend]
    settings = RunSettings(reports, console, backend, count, scale=scale, seed=seed, losses=losses)
    analyses = _run_calibration(settings, subject, arguments or ()) if calibrate or validate else ()
    goals = {"goal.deadline_h": deadline, "goal.budget": max_cost, "goal.goodput": goodput}
    goal_values = {place: value for place, value in goals.items() if value is not None}
    inputs = UserInputs(
        subject or costs,
        choice,
        costs if subject else None,
        goal_values | parse_assignments(values or ()),
        analyses,
        prices,
    )
    request = _add_start(inputs, settings, arguments or ()).build_question()
    question, notes = request.question, (*request.notes, *_describe_known_defects(request.question))
    effort = Effort(runs=simulations, seed=seed, jobs=os.cpu_count() or 1)
    forecast = _answer_request(replace(request, notes=notes), effort, ignore or ())
    validations = [] if recorded is None else [_compare_recorded(recorded, question)]
    if validate:
        validations.append(validate_forecast(settings, analyses, question))
    _publish_answer(replace(forecast, validation=tuple(validations)), reports, console, document)
    raise typer.Exit(forecast.exit_code)


def _answer_request(request: UserQuestion, effort: Effort, ignore: Sequence[str]) -> Answer:
    with LiveLine(build_console(stderr=True)) as line:
        answer = partial(
            answer_question,
            effort=effort,
            ranges=request.ranges,
            ignore=ignore,
            notes=request.notes,
            report_stage=_build_stage_reporter(line, SystemClock()),
        )
        if request.markets:
            return answer_on_markets(request.question, request.markets, answer, effort)
        return answer(request.question)


def _add_start(inputs: UserInputs, settings: RunSettings, words: Sequence[str]) -> UserInputs:
    """Return what was given, with one start of a script whose costs are from elsewhere."""
    subject = inputs.subject
    is_script = subject is not None and subject.suffix == ".py" and subject.is_file()
    if subject is None or not is_script or inputs.costs is None or inputs.analyses:
        return inputs
    return replace(inputs, start=observe_start(settings, subject, words))


def _describe_known_defects(question: Question) -> tuple[str, ...]:
    """Return a note on the defects that the installed launcher is known to have."""
    package = LAUNCHER_FACTS[question.settings.launcher].package
    defects = [defect for defect in find_installed_defects() if defect.package == package]
    if not defects:
        return ()
    count = plural(len(defects), "defect")
    version_text = f"{package} {defects[0].version}, as it is installed here,"
    return (f"{version_text} has {count} that matter under loss: `chaos doctor` lists them",)


def _parse_held_range(words: str | None) -> tuple[int, int] | None:
    """Return the ends of `16` or `16..24`."""
    if words is None:
        return None
    match = re.fullmatch(r"([1-9]\d{0,6})(?:\.\.([1-9]\d{0,6}))?", words)
    fewest, highest = (0, 0) if match is None else (int(match[1]), int(match[2] or match[1]))
    if not 0 < fewest <= highest:
        raise UsageError(f"--trace-held is N or N..M, got {words}", "Such as --trace-held 16..24.")
    return fewest, highest


def _build_stage_reporter(line: LiveLine, clock: Clock) -> Callable[[str], None]:
    """Return a function that shows each stage, on a terminal only, after a moment."""
    start_ns = clock.now_ns()

    def report_stage(stage: str) -> None:
        elapsed_s = elapsed_seconds(start_ns, clock)
        if line.can_replace and elapsed_s >= MOMENT_S:
            line.replace_content(Text(f"{stage} ({elapsed_s:.0f} s)", style="dim"))

    return report_stage


def _run_calibration(
    settings: RunSettings, job: Path | None, words: Sequence[str]
) -> tuple[RunAnalysis, ...]:
    if job is None:
        raise UsageError("no job is given", "Such as `chaos preflight train.py --calibrate`.")
    if job.name.endswith(SUFFIX):
        raise UsageError(
            "a question cannot be run",
            "Give the script or the scenario; what the file sets goes into --set.",
            location=str(job),
        )
    return tuple(calibration_runs(settings, job, words))


def _publish_answer(forecast: Answer, reports: Path, console: Console, document: Document) -> None:
    page = _write_page(forecast, reports)
    parts = [*list_parts(forecast, page=str(page))]
    add_to_step_summary(os.environ, render_markdown_parts(parts))
    document.report(
        parts,
        {
            "json": lambda: _render_json(forecast),
            "html": lambda: page.read_text(encoding="utf-8"),
        },
        console=console,
    )


def _render_json(forecast: Answer) -> str:
    return json.dumps(forecast.dump_values(), indent=2, default=str, allow_nan=False)


def _compare_recorded(folder: Path, question: Question) -> Validation:
    """Compare the model with the recorded job, without the question's changes of it."""
    analyses = load_analyses(folder)
    recorded_question = build_run_question(analyses, source=str(folder), market=question.market)
    return validate_runs(recorded_question, analyses)


def parse_assignments(words: Sequence[str]) -> dict[str, Any]:
    """Return the fields of `place=value` texts; a value is JSON if possible, otherwise text."""
    values: dict[str, Any] = {}
    for word in words:
        field_path, separator, text = word.partition("=")
        if not separator or not field_path:
            raise UsageError(f"--set is PLACE=VALUE, got {word}", "Such as --set job.nodes=64.")
        try:
            values[field_path.strip()] = json.loads(text)
        except ValueError:
            values[field_path.strip()] = text
        except RecursionError:
            raise UsageError(f"--set {field_path}: the value is nested too deeply") from None
    return values


def _write_page(forecast: Answer, reports: Path) -> Path:
    from chaos.extensions.preflight.page import render_answer  # noqa: PLC0415 - what draws takes half a second

    folder = ensure_reports_folder(reports, "preflight") / format_stamp(SystemClock().wall_ns())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        page = folder / "preflight.html"
        page.write_text(render_answer(forecast), encoding="utf-8")
        (folder / "preflight.json").write_text(_render_json(forecast), encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write there: {error.strerror}",
            "Choose a folder that can be written with --reports.",
            location=str(reports),
        ) from error
    return page


def _print_presets(console: Console) -> None:
    markets = build_bare_table("market", "h per node", "shocks", "away", "notice", "price")
    for market in MARKETS:
        shock = (
            "-"
            if market.shock is None
            else f"{market.shock.share:.0%} per {market.shock.every_h:g} h"
        )
        notice = "none" if not market.notice.seconds else f"{market.notice.seconds:g} s"
        away_text = f"{market.away_h * 60:.0f} min"
        markets.add_row(
            market.name, f"{market.mtbf_h:.1f}", shock, away_text, notice, f"{market.price_ratio:g}"
        )
    rules = Table.grid(padding=(0, 2, 0, 0))
    for rule in RULES:
        rules.add_row(rule.id, rule.weight, rule.reason)
    console.print(markets)
    console.print()
    console.print(rules)
