"""`chaos audit`: inject faults into a script wherever they can matter, and say what came of it."""

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from chaos.audit.answer import ACCEPTABLE
from chaos.audit.audit import Audit, Choice
from chaos.audit.budget import Budget
from chaos.audit.card import Card
from chaos.audit.folder import AuditFolder
from chaos.audit.group import Question, chosen_groups
from chaos.audit.lanes import lanes_for
from chaos.audit.markdown import card_in_markdown
from chaos.audit.places import STEP_PLACES_MAX
from chaos.audit.plans import base_plan
from chaos.audit.terminal import AuditDisplay, print_card
from chaos.backends.open import open_backend, open_scripts
from chaos.cli.streams import write_document
from chaos.errors import UsageError
from chaos.harness import Harness
from chaos.model.leeway import Tolerance
from chaos.model.masked import masked_words
from chaos.model.plan import Confined, Plan
from chaos.model.verdict import Verdict
from chaos.report.screen import screen
from chaos.run.ci import add_to_step_summary
from chaos.run.clock import SystemClock, stamp
from chaos.run.cpus import usable_cpus
from chaos.run.environment import environment

BUDGET_S = 60.0
REPORTS = Path("reports")
CARD = "card.html"
RAY, OWN = "ray", "own"


Script = Annotated[
    Path, typer.Argument(help="The training script; its own arguments follow after --.")
]
Words = Annotated[list[str] | None, typer.Argument(help="The script's arguments.")]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Left out: as many as the script has.")
]
Seconds = Annotated[
    float | None,
    typer.Option(
        "--budget",
        help="The time limit in seconds, of what comes after the minimum that an answer needs. "
        "Default: 60; with --exhaustive or --runs, none.",
    ),
]
Runs = Annotated[int | None, typer.Option("--runs", help="Stop after this many runs with a fault.")]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", min=1, help="Runs side by side. Left out: what the cores allow."),
]
Exhaustive = Annotated[
    bool, typer.Option("--exhaustive", help="Every step of every rank, however many.")
]
Places = Annotated[
    list[str] | None,
    typer.Option("--places", help="Only groups whose names contain this; may be repeated."),
]
Fit = Annotated[
    int, typer.Option("--fit", min=1, help="Which of the script's calls of fit() is struck.")
]
StorageOn = Annotated[
    str | None,
    typer.Option(
        "--storage",
        metavar="own",
        help="Keep the script's own bucket; left out, checkpoints go to the run's folder.",
    ),
]
AllowWrites = Annotated[
    list[Path] | None,
    typer.Option(
        "--allow-writes",
        help="A file or folder, there before the audit, that the job may overwrite. Repeatable.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Draws the covering sample.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the whole result for machines.")]
Junit = Annotated[
    Path | None, typer.Option("--junit", help="Write the audit's JUnit file here as well.")
]
ConfirmOn = Annotated[
    str | None,
    typer.Option(
        "--confirm",
        metavar="ray",
        help="Where each finding is reproduced: on a local Ray cluster, which is the default.",
    ),
]
NoConfirm = Annotated[bool, typer.Option("--no-confirm", help="Reproduce no finding on Ray.")]

For = Annotated[
    Question,
    typer.Option(
        "--for",
        help="spot: nodes preempted and lost first. crash: workers killed, and no node.",
    ),
]
Accept = Annotated[
    list[str] | None,
    typer.Option(
        "--accept",
        metavar="rng|cosmetic",
        help="A difference of this severity is a note, and no failure; may be repeated.",
    ),
]
Within = Annotated[
    float | None,
    typer.Option("--tolerance", min=0, help="How far a loss may lie from the baseline's, of 1."),
]


def audit(  # noqa: PLR0913 - one parameter per option
    script: Script,
    arguments: Words = None,
    *,
    question: For = "spot",
    workers: Workers = None,
    budget: Seconds = None,
    runs: Runs = None,
    jobs: Jobs = None,
    exhaustive: Exhaustive = False,
    places: Places = None,
    accept: Accept = None,
    tolerance: Within = None,
    fit: Fit = 1,
    storage: StorageOn = None,
    allow_writes: AllowWrites = None,
    seed: Seed = 0,
    reports: Annotated[Path, typer.Option("--reports")] = REPORTS,
    as_json: AsJson = False,
    junit: Junit = None,
    confirm: ConfirmOn = None,
    no_confirm: NoConfirm = False,
) -> None:
    """Inject faults into a training script wherever they can matter, without a cluster.

    Exit codes: 0 pass, 1 fail, 2 inconclusive.
    Example: chaos audit train.py --budget 60 -- --epochs 4
    """
    confirms, groups = _confirms(confirm, no=no_confirm), chosen_groups(places or (), question)
    kept, console = _kept(storage, allow_writes), screen(stderr=as_json)
    plan = base_plan(script, arguments or (), cwd=Path.cwd(), seed=seed, workers=workers, fit=fit)
    folder = _folder(reports, plan)
    with _keeping_junit(folder, junit, console), ExitStack() as opened:
        display = opened.enter_context(AuditDisplay(console))
        card = Audit(
            _expecting(plan, accept or (), tolerance, kept.confined(folder)),
            opened.enter_context(open_scripts(console)),
            folder,
            SystemClock(),
            Choice(seed, exhaustive, STEP_PLACES_MAX, groups, question),
            _budget(budget, runs, exhaustive=exhaustive),
            display.show,
            display.tell,
            _on_ray(reports, console) if confirms else None,
            follows_script=workers is None,
            command=shlex.join(["chaos", *map(str, masked_words(sys.argv[1:]))]),
            lanes=lambda count: jobs or lanes_for(usable_cpus(), workers=count),
        ).run()
    _tell(card, console, as_json=as_json)
    raise typer.Exit(card.exit_code)


def _budget(seconds: float | None, runs: int | None, *, exhaustive: bool) -> Budget:
    is_unasked = seconds is None and runs is None and not exhaustive
    return Budget(BUDGET_S if is_unasked else seconds, runs)


def _expecting(
    plan: Plan, accept: Sequence[str], tolerance: float | None, confined: Confined
) -> Plan:
    """Give the plan on the embedded backend, with what a person accepts and what stays outside."""
    for word in accept:
        if word not in ACCEPTABLE:
            raise UsageError(
                f"a severity that can be accepted is rng or cosmetic; got '{word}'",
                "rng: only random streams differ. cosmetic: only what is shown or logged differs.",
                place="--accept",
            )
    given: dict[str, object] = {"accept": tuple(word for word in ACCEPTABLE if word in accept)}
    if tolerance is not None:
        given["loss_tolerance"] = Tolerance(relative=tolerance)
    expect = plan.expect.model_copy(update=given)
    return plan.model_copy(update={"backend": "fork", "confined": confined, "expect": expect})


def _confirms(where: str | None, *, no: bool) -> bool:
    """Say whether findings are reproduced on Ray, as the options have it."""
    if where is not None and where != RAY:
        raise UsageError(
            f"findings are confirmed on {RAY}, and nowhere else; got '{where}'",
            f"Write --confirm {RAY}, which is the default, or --no-confirm.",
            place="--confirm",
        )
    if where is not None and no:
        raise UsageError("--confirm and --no-confirm exclude each other", "Keep one.")
    return not no


@dataclass(frozen=True)
class _Kept:
    """What of a job's own an audit leaves it."""

    storage: bool
    writes: tuple[Path, ...]

    def confined(self, folder: AuditFolder) -> Confined:
        """Give what the job may do outside the audit's folder."""
        paths = tuple(str(Path.cwd() / path.expanduser()) for path in self.writes)
        return Confined(folder=str(folder.path), may_write=paths, keeps_storage=self.storage)


def _kept(storage: str | None, allowed: Sequence[Path] | None) -> _Kept:
    """Give what the job keeps, as the options have it."""
    if storage not in (None, OWN):
        raise UsageError(
            f"storage is {OWN} or the run's; got '{storage}'",
            f"Write --storage {OWN} to keep the script's bucket, or leave it out.",
            place="--storage",
        )
    return _Kept(storage == OWN, tuple(allowed or ()))


def _folder(reports: Path, plan: Plan) -> AuditFolder:
    name = f"{plan.slug}-{stamp(SystemClock().wall_ns())}"
    return AuditFolder.create(reports, name, plan, environment(Path.cwd()))


@contextmanager
def _keeping_junit(folder: AuditFolder, junit: Path | None, console: Console) -> Iterator[None]:
    """Have the audit's JUnit file where it was asked for, also if the audit is broken off."""
    try:
        yield
    except KeyboardInterrupt:
        if (folder.path / CARD).exists():
            console.print(f"card: {folder.shown}/{CARD}", soft_wrap=True)
        raise
    finally:
        made = folder.path / "junit.xml"
        if junit is not None and made.exists():
            junit.parent.mkdir(parents=True, exist_ok=True)
            junit.write_bytes(made.read_bytes())


def _tell(card: Card, console: Console, *, as_json: bool) -> None:
    if as_json:
        write_document(f"{card.to_json()}\n")
    else:
        print_card(card, console)
    add_to_step_summary(os.environ, card_in_markdown(card))


def _on_ray(reports: Path, console: Console) -> Callable[[Plan], Verdict]:
    """Give the run of a reproduction on a local Ray cluster, which it starts and ends."""

    def confirm(plan: Plan) -> Verdict:
        with open_backend("ray", console) as backend:
            harness = Harness(reports, console, Path(plan.cwd), backend, SystemClock())
            return harness.run_plan(plan.model_copy(update={"backend": "ray"})).verdict

    return confirm
