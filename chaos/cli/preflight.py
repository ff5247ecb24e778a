"""`chaos preflight`: a forecast of a job with its settings on a spot market."""

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaos.check.analysis import RunAnalysis
from chaos.cli.documents import Document, Format, Output
from chaos.cli.options import REPORTS, Reports, Seed, Words, hours
from chaos.cli.rules import Needs
from chaos.errors import UsageError
from chaos.model.launcher import FACTS
from chaos.model.plan import PlanBackend
from chaos.preflight.answer import Answer, answer
from chaos.preflight.asked import Asked, Given
from chaos.preflight.calibration import (
    RunSettings,
    calibration_runs,
    settings_of_start,
    validate_forecast,
)
from chaos.preflight.compression import Losses
from chaos.preflight.forecast import Effort
from chaos.preflight.known_defects import here
from chaos.preflight.load import SUFFIX, MarketChoice, analyses_in, question_of_runs
from chaos.preflight.market import MARKETS, TraceReading
from chaos.preflight.question import Question
from chaos.preflight.render import render_summary, show_answer
from chaos.preflight.rules import RULES, refuse_unknown
from chaos.preflight.trace_columns import Unit
from chaos.preflight.validation import Validation, validated
from chaos.report.live import MovingLine
from chaos.report.screen import bare_table, plain, screen
from chaos.run.ci import add_to_step_summary
from chaos.run.clock import Clock, SystemClock, seconds_since, stamp
from chaos.run.directory import in_reports
from chaos.words import plural

SIMULATIONS = 10_000
MOMENT_S = 1.0
VALIDATION_RUNS: dict[PlanBackend, int] = {"fork": 24, "ray": 6, "torchrun": 6, "python": 6}

_given, _measured, _goal = (
    partial(typer.Option, rich_help_panel=panel)
    for panel in ("Market and costs", "Measured in runs", "Goals")
)

Subject = Annotated[
    Path | None,
    typer.Argument(
        metavar="SUBJECT",
        help="A question (*.preflight.yaml), the folder of a run or an audit, a log or a folder of "
        "checkpoints of a run; with --calibrate, a script or a scenario; with --costs, a "
        "platform's file (RayJob, PyTorchJob, SkyPilot, sbatch).",
    ),
]
MarketName = Annotated[str | None, _given("--market", metavar="NAME", help="A preset; see --list.")]
TraceFile = Annotated[
    Path | None, _given("--trace", metavar="FILE", help="Fit the market to this trace.")
]
ReplayIt = Annotated[
    bool, _given("--replay-trace", help="Repeat the trace instead of fitting it."), Needs("trace")
]
TraceNodes = Annotated[
    TraceReading | None,
    _given(
        "--trace-nodes",
        help="How the trace's nodes are read. pool: it is a cluster like yours, of another size; "
        "as large a share of your nodes is up as of its own. market: it is what could be had; you "
        "hold as many as you want of those that are up, and the others replace one you lose. "
        "Default: both; where the answers differ, cannot tell.",
    ),
    Needs("trace"),
]
TraceHeld = Annotated[
    str | None,
    _given(
        "--trace-held",
        metavar="N|N..M",
        help="How many nodes there were, where the trace is a platform's log of those that were "
        "lost. Of a range both ends are answered.",
    ),
    Needs("trace"),
]
TraceUnit = Annotated[
    Unit | None,
    _given(
        "--trace-unit", help="Of plain times in the columns of a trace, where no heading says it."
    ),
    Needs("trace"),
]
AdvisorRow = Annotated[
    str | None,
    _given("--advisor", metavar="FILE:REGION:TYPE", help="A row of AWS Spot Advisor's JSON."),
]
PricesFrom = Annotated[
    str | None,
    _given("--prices", metavar="FILE:REGION:TYPE", help="A row of a catalog of SkyPilot's (CSV)."),
]
CostsFrom = Annotated[
    Path | None,
    _given(
        "--costs",
        metavar="PATH",
        help="Use the costs of this run or audit, of a log, or of a folder of checkpoints.",
    ),
]
Calibrate = Annotated[
    bool,
    _measured("--calibrate", help="Measure the job's costs in runs with and without faults."),
]
BackendOption = Annotated[
    PlanBackend, _measured("--backend", help="Where --calibrate and --validate run the job.")
]
Validate = Annotated[
    bool,
    _measured(
        "--validate",
        help="Compare the forecast with real runs under the market's losses, in fast motion. Other "
        "runs measure the costs before.",
    ),
]
ValidationRuns = Annotated[
    int | None,
    _measured("--validation-runs", min=2, metavar="N", help="Default: 24; in real processes 6."),
    Needs("validate"),
]
LossesOption = Annotated[
    Losses,
    _measured(
        "--losses",
        help="What a loss of --validate takes: a worker, a node that returns later, or a node "
        "with notice.",
    ),
]
Scale = Annotated[
    float | None,
    _measured(
        "--scale",
        min=1,
        metavar="X",
        help="Speed-up of the market. Default: a few losses per run.",
    ),
    Needs("validate"),
]
Recorded = Annotated[
    Path | None,
    _measured("--recorded", metavar="FOLDER", help="Compare the model with this run or audit."),
]
Deadline = Annotated[
    float | None,
    _goal(
        "--deadline",
        parser=hours,
        metavar="TIME",
        help="Such as 72h or 3d; a number alone is in hours.",
    ),
]
MaxCost = Annotated[
    float | None,
    _goal("--max-cost", metavar="SHARE", help="Cost as a share of on-demand, such as 0.5."),
]
GoodputGoal = Annotated[float | None, _goal("--goodput", metavar="SHARE", help="Such as 0.8.")]
Values = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PLACE=VALUE", help="Such as job.nodes=64. Repeatable."),
]
Ignore = Annotated[
    list[str] | None, typer.Option("--ignore", metavar="RULE", help="A rule's id. Repeatable.")
]
Simulations = Annotated[
    int, typer.Option("--simulations", min=100, metavar="N", help="Simulated runs.")
]
Listing = Annotated[bool, typer.Option("--list", help="List the markets and the rules.")]


def preflight(  # noqa: PLR0913 - one parameter per option
    subject: Subject = None,
    arguments: Words = None,
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
    document = Document.asked(form, output, "text", "json", "md", "html")
    console = screen(stderr=document.takes_stdout)
    if listing:
        _list(screen())
        return
    if subject is None:
        raise UsageError("no job is given", "Such as `chaos preflight big.preflight.yaml`.")
    refuse_unknown(ignore or ())
    held_ends = _held(trace_held)
    choice = MarketChoice(market, trace, replay, trace_nodes, held_ends, trace_unit, advisor)
    count = validation_runs or VALIDATION_RUNS[backend]
    settings = RunSettings(reports, console, backend, count, scale=scale, seed=seed, losses=losses)
    analyses = _calibrated(settings, subject, arguments or ()) if calibrate or validate else ()
    goals = {"goal.deadline_h": deadline, "goal.budget": max_cost, "goal.goodput": goodput}
    asked_for = {place: value for place, value in goals.items() if value is not None}
    given = Given(subject, choice, costs, asked_for | assigned(values or ()), analyses, prices)
    asked = _started(given, settings, arguments or ()).asked()
    question, notes = asked.question, (*asked.notes, *_known(asked.question))
    effort = Effort(runs=simulations, seed=seed, jobs=os.cpu_count() or 1)
    found = _answered(replace(asked, notes=notes), effort, ignore or ())
    held = [] if recorded is None else [_compared(recorded, question)]
    if validate:
        held.append(validate_forecast(settings, analyses, question))
    _tell(replace(found, validation=tuple(held)), reports, console, document)
    raise typer.Exit(found.exit_code)


def _answered(asked: Asked, effort: Effort, ignore: Sequence[str]) -> Answer:
    with MovingLine(screen(stderr=True)) as line:
        tell, ranges = _told(line, SystemClock()), asked.ranges
        return answer(
            asked.question, effort, ranges=ranges, ignore=ignore, notes=asked.notes, tell=tell
        )


def _started(given: Given, settings: RunSettings, words: Sequence[str]) -> Given:
    """Return what was given, with one start of a script whose costs are from elsewhere."""
    is_script = given.subject.suffix == ".py" and given.subject.is_file()
    if not is_script or given.costs is None or given.analyses:
        return given
    return replace(given, start=settings_of_start(settings, given.subject, words))


def _known(question: Question) -> tuple[str, ...]:
    """Return a note on the defects that the installed launcher is known to have."""
    package = FACTS[question.settings.launcher].package
    found = [one for one in here() if one.package == package]
    if not found:
        return ()
    count = plural(len(found), "defect")
    installed = f"{package} {found[0].version}, as it is installed here,"
    return (f"{installed} has {count} that matter under loss: `chaos doctor` lists them",)


def _held(words: str | None) -> tuple[int, int] | None:
    """Return the ends of `16` or `16..24`."""
    if words is None:
        return None
    found = re.fullmatch(r"([1-9]\d{0,6})(?:\.\.([1-9]\d{0,6}))?", words)
    few, many = (0, 0) if found is None else (int(found[1]), int(found[2] or found[1]))
    if not 0 < few <= many:
        raise UsageError(f"--trace-held is N or N..M, got {words}", "Such as --trace-held 16..24.")
    return few, many


def _told(line: MovingLine, clock: Clock) -> Callable[[str], None]:
    """Return a function that shows each stage, on a terminal only, after a moment."""
    begun_ns = clock.now_ns()

    def tell(stage: str) -> None:
        passed_s = seconds_since(begun_ns, clock)
        if line.moves and passed_s >= MOMENT_S:
            line.move(Text(f"{stage} ({passed_s:.0f} s)", style="dim"))

    return tell


def _calibrated(settings: RunSettings, job: Path, words: Sequence[str]) -> tuple[RunAnalysis, ...]:
    if job.name.endswith(SUFFIX):
        raise UsageError(
            "a question cannot be run",
            "Give the script or the scenario; what the file sets goes into --set.",
            place=str(job),
        )
    return tuple(calibration_runs(settings, job, words))


def _tell(found: Answer, reports: Path, console: Console, document: Document) -> None:
    page = _write(found, reports)
    add_to_step_summary(os.environ, render_summary(found))
    answer_shown = show_answer(found, page=str(page))
    if not document.takes_stdout:
        console.print(answer_shown)
    document.write(
        {
            "text": lambda: plain(lambda on: on.print(answer_shown)),
            "json": lambda: _in_json(found),
            "md": lambda: render_summary(found),
            "html": lambda: page.read_text(encoding="utf-8"),
        }
    )


def _in_json(found: Answer) -> str:
    return json.dumps(found.to_json(), indent=2, default=str, allow_nan=False)


def _compared(folder: Path, question: Question) -> Validation:
    """Compare the model with the recorded job, without the question's changes of it."""
    analyses = analyses_in(folder)
    own = question_of_runs(analyses, source=str(folder), market=question.market)
    return validated(own, analyses)


def assigned(words: Sequence[str]) -> dict[str, Any]:
    """Return the fields of `place=value` texts; a value is JSON if possible, otherwise text."""
    values: dict[str, Any] = {}
    for word in words:
        place, sign, text = word.partition("=")
        if not sign or not place:
            raise UsageError(f"--set is PLACE=VALUE, got {word}", "Such as --set job.nodes=64.")
        try:
            values[place.strip()] = json.loads(text)
        except ValueError:
            values[place.strip()] = text
        except RecursionError:
            raise UsageError(f"--set {place}: the value is nested too deeply") from None
    return values


def _write(found: Answer, reports: Path) -> Path:
    from chaos.preflight.page import render_answer  # noqa: PLC0415 - what draws takes half a second

    folder = in_reports(reports, "preflight") / stamp(SystemClock().wall_ns())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        page = folder / "preflight.html"
        page.write_text(render_answer(found), encoding="utf-8")
        (folder / "preflight.json").write_text(_in_json(found), encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write there: {error.strerror}",
            "Choose a folder that can be written with --reports.",
            place=str(reports),
        ) from error
    return page


def _list(console: Console) -> None:
    markets = bare_table("market", "h per node", "shocks", "away", "notice", "price")
    for one in MARKETS:
        shock = "-" if one.shock is None else f"{one.shock.share:.0%} per {one.shock.every_h:g} h"
        notice = "none" if not one.notice.seconds else f"{one.notice.seconds:g} s"
        away = f"{one.away_h * 60:.0f} min"
        markets.add_row(one.name, f"{one.mtbf_h:.1f}", shock, away, notice, f"{one.price_ratio:g}")
    rules = Table.grid(padding=(0, 2, 0, 0))
    for rule in RULES:
        rules.add_row(rule.id, rule.weight, rule.reason)
    console.print(markets)
    console.print()
    console.print(rules)
