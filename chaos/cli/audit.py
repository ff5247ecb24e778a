"""`chaos audit`: inject faults at a script's places, and judge the results."""

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from chaos.audit.audit import Audit, Choice, Spread
from chaos.audit.budget import Budget
from chaos.audit.card import ACCEPTABLE, Card
from chaos.audit.continuation import EarlierAudit
from chaos.audit.folder import AuditFolder
from chaos.audit.group import Question, chosen_groups
from chaos.audit.lanes import lanes_for
from chaos.audit.page import annotations, card_in_markdown
from chaos.audit.places import STEP_PLACES_MAX
from chaos.audit.plans import ONE_NODE, base_plan, begun_again_by, under_launcher
from chaos.audit.repro import on_ray_if
from chaos.audit.result import AuditResult
from chaos.audit.terminal import AuditDisplay, print_card
from chaos.audit.threads import Threads
from chaos.cli import signals
from chaos.cli.cluster import refuse_no_address
from chaos.cli.documents import Document, Form, Format, Output
from chaos.cli.options import (
    AGAIN,
    REPORTS,
    AnyBackend,
    IsModule,
    Jobs,
    Reports,
    Seed,
    StartedBy,
    Words,
    chosen_launcher,
    located,
    node_range,
    not_side_by_side,
    seconds,
    under_the_right_launcher,
)
from chaos.cli.python_call import PythonCall, console_of, words_of
from chaos.cli.rules import Instead, NotWith, refuse_others_options
from chaos.errors import MissingExtraError, UsageError
from chaos.installed import install_line
from chaos.launch.open import (
    nodes_at,
    open_backend,
    open_lanes,
    open_launcher,
    why_not_forked,
)
from chaos.model.bounds import Tolerance
from chaos.model.launcher import FACTS, Launcher, LauncherFacts, Restart
from chaos.model.masked import masked_words
from chaos.model.objects import as_named, is_object
from chaos.model.plan import Confined, Plan, PlanBackend
from chaos.model.scenario import TIERS, Expect, Sampling, Tier
from chaos.report.screen import plain
from chaos.run.ci import add_to_step_summary, on_github
from chaos.run.clock import SystemClock, stamp
from chaos.run.environment import environment
from chaos.run.machine import has_ray, usable_cpus
from chaos.run.modules import ModuleFile
from chaos.run.sbatch_header import nodes_in
from chaos.run.shown import shown

# Where neither a time nor a number of runs is asked for; what an answer needs comes before it.
BUDGET_S = 60.0
BUDGET_IN_A_QUEUE_S = 300.0  # where a cluster starts for each run, and a requeue takes seconds
CARD = "card.html"
FILES: dict[Form, str] = {"json": "audit.json", "html": CARD, "junit": "junit.xml"}
OWN = "own"

Script = Annotated[Path, typer.Argument(metavar="SCRIPT", help="The training script.")]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, metavar="N", help="Ranks. Default: as the script has."),
]
Limit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        parser=seconds,
        metavar="TIME",
        help="Time limit, such as 90s or 5m; the minimum for an answer may take longer. Default: "
        "60s, and 5m for a script for sbatch; none with --exhaustive or --max-runs.",
    ),
]
MaxRuns = Annotated[
    int | None,
    typer.Option("--max-runs", min=1, metavar="N", help="Stop after N places."),
]
ExitFirst = Annotated[
    bool, typer.Option("--exitfirst", "-x", help="Stop at the first place that is wrong.")
]
OneByOne = Annotated[
    bool,
    typer.Option(
        "--one-by-one",
        help="One run per place. Default: places share runs if the job repeats itself exactly.",
    ),
]
Exhaustive = Annotated[
    bool, typer.Option("--exhaustive", help="Inject at every step of every rank.")
]
Places = Annotated[
    list[str] | None,
    typer.Option(
        "--places", metavar="TEXT", help="Only groups of places whose name has TEXT. Repeatable."
    ),
]
Continue = Annotated[
    bool,
    typer.Option(
        "--continue",
        help="Try first what failed in the last audit of this script with these arguments, then "
        "what that one did not try; show what is mended and what is new.",
    ),
]
Fit = Annotated[
    int,
    typer.Option("--fit", min=1, metavar="N", help="Which call of fit() in the script is tested."),
]
Retries = Annotated[
    int | None,
    typer.Option(
        "--retries",
        min=1,
        metavar="N",
        help="Retries that production has, in place of the script's `max_failures`; of a job that "
        "torchrun starts, its --max-restarts.",
    ),
]
RestartBy = Annotated[
    Restart | None,
    typer.Option(
        "--restart",
        help="command: after a failure the script's command is started once more, as Slurm, a pod "
        "or a shell's loop does. Default: Ray Train or torchrun begins again by itself; a script "
        "with --launcher python never does.",
    ),
]
RestartArgs = Annotated[
    str | None,
    typer.Option(
        "--restart-args",
        metavar="ARGS",
        help="Arguments of the script at each start after the first, such as '--resume latest'; "
        "includes --restart command.",
    ),
    NotWith(
        "restart",
        "--restart-args are for --restart command",
        "Leave out --restart launcher.",
        values=("launcher",),
    ),
]
Nodes = Annotated[
    str | None,
    typer.Option(
        "--nodes",
        metavar="N|MIN:MAX",
        help="Of a job that torchrun starts: its nodes, an agent each, as torchrun's --nnodes. "
        "Default: 1.",
    ),
    Instead("Ray Train's ranks have a node each, and a script for sbatch says how many it has"),
]
Grace = Annotated[
    float | None,
    typer.Option(
        "--grace",
        parser=seconds,
        metavar="TIME",
        help="Of a script for sbatch: the GraceTime of its partition, between the SIGTERM of a "
        "preemption and SIGKILL. Default: none, as Slurm has it.",
    ),
    Instead("no other launcher's jobs are preempted with it"),
]
EpochSteps = Annotated[
    int | None,
    typer.Option(
        "--epoch-steps",
        min=1,
        metavar="N",
        help="Of a job without Ray: an epoch is N optimizer steps. Default: the stretch from one "
        "save of the job's own to the next.",
    ),
    Instead("with Ray Train a report ends an epoch"),
]
StorageOn = Annotated[
    str | None,
    typer.Option(
        "--storage",
        metavar="own",
        help="own: keep the script's own bucket. Default: checkpoints go to the run's folder.",
    ),
]
TierOf = Annotated[
    list[str] | None,
    typer.Option(
        "--tier",
        metavar="PATH=node|shared|bucket",
        help="Files below PATH are lost with their node, or not, or lie in a mounted bucket. "
        "Default: temporary folders are the node's, all else is shared. Repeatable.",
    ),
]
AllowWrites = Annotated[
    list[Path] | None,
    typer.Option(
        "--allow-writes",
        metavar="PATH",
        help="Existing file or folder that the job may overwrite; or objects by the beginning of "
        "their name (s3://BUCKET/PREFIX), also in a store that is not on this machine. Repeatable.",
    ),
]
Confirm = Annotated[
    bool,
    typer.Option(
        "--confirm/--no-confirm",
        help="Reproduce each finding on a local Ray cluster, which takes about a minute each.",
    ),
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain/--no-explain",
        help="Where training comes out otherwise and no check names the cause, set values of the "
        "job to the baseline's at the resume until it comes out right. A "
        "--time-limit ends it.",
    ),
]
Lanes = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="Spread the runs over the Ray cluster at this address; no fault is injected into it.",
    ),
    NotWith(
        "backend",
        "an audit injects faults into a Ray cluster of its own, and --address names another",
        "Leave out --backend ray, and runs without a cluster are spread over that one.",
        values=("ray",),
    ),
]
For = Annotated[
    Question,
    typer.Option(
        "--for",
        help="spot: preemptions and node losses first. crash: killed workers, no node losses.",
    ),
]
Accept = Annotated[
    list[str] | None,
    typer.Option(
        "--accept",
        metavar="rng|lost-work|cosmetic",
        help="Report differences of this severity as notes, not as failures. Repeatable.",
    ),
]
Sampled = Annotated[
    Sampling,
    typer.Option(
        "--sampling",
        help="resampled: a restart may draw other inputs; state and steps are still due.",
    ),
]
Within = Annotated[
    float | None,
    typer.Option(
        "--tolerance",
        min=0,
        metavar="X",
        help="Relative difference of a loss from the baseline's that is accepted.",
    ),
]


@under_the_right_launcher
def audit(  # noqa: PLR0913 - one parameter per option
    context: typer.Context,
    script: Script,
    arguments: Words = None,
    *,
    module: IsModule = False,
    question: For = "spot",
    time_limit: Limit = None,
    max_runs: MaxRuns = None,
    exitfirst: ExitFirst = False,
    exhaustive: Exhaustive = False,
    one_by_one: OneByOne = False,
    places: Places = None,
    continues: Continue = False,
    accept: Accept = None,
    sampling: Sampled = "exactly_once",
    tolerance: Within = None,
    confirm: Confirm = False,
    explain: Explain = True,
    launcher: StartedBy = None,
    workers: Workers = None,
    retries: Retries = None,
    restart: RestartBy = None,
    restart_args: RestartArgs = None,
    nodes: Nodes = None,
    grace: Grace = None,
    epoch_steps: EpochSteps = None,
    fit: Fit = 1,
    storage: StorageOn = None,
    tier: TierOf = None,
    allow_writes: AllowWrites = None,
    seed: Seed = 0,
    jobs: Annotated[Jobs, not_side_by_side("ray")] = None,
    backend: AnyBackend = "fork",
    address: Lanes = None,
    form: Format = None,
    output: Output = None,
    reports: Reports = REPORTS,
) -> None:
    """Inject faults into a training script, without a cluster, and check the results.

    Exit codes: 0 pass, 1 fail, 2 inconclusive.

    Example: chaos audit train.py --time-limit 60s -- --epochs 4
    """
    document = Document.asked(form, output, "text", "md", "github", *FILES)
    console = console_of(context, document)
    run = located(script, is_module=module)
    facts = _facts_of(launcher, context, run, console)
    backend = embedded_or_real(backend, facts.name, console)
    tiers, own, by = _tiers(tier or ()), _is_own(storage), "command" if restart_args else restart
    question = question if _loses_nodes(facts.started_by(by), nodes) else "crash"
    groups, is_on_ray = chosen_groups(places or (), question), backend == "ray"
    ranks, spread = workers or facts.usual_workers, _over(address, jobs)
    size: dict[str, Any] = {"epoch_steps": epoch_steps, "nodes": _nodes(facts, run, nodes)}
    plan = base_plan(run, arguments or (), cwd=Path.cwd(), seed=seed, workers=ranks, fit=fit)
    plan = under_launcher(plan, facts.name, arguments or (), backend=backend, **size)
    lanes = partial(_lanes, jobs=jobs, backend=backend, facts=facts)
    plan, threads = _with_threads(_begun_again(plan, by, restart_args or ""), lanes)
    earlier, seed = _earlier(plan, reports, console) if continues else (None, seed)
    folder, expect = folder_for(plan, reports), _expect(plan, accept, sampling, tolerance)
    limits = confined(folder, allow_writes, keeps_storage=own)
    with _written_if_broken_off(folder, document, console), ExitStack() as opened:
        display = opened.enter_context(
            AuditDisplay(console, SystemClock(), is_ending=signals.has_come)
        )
        card = Audit(
            plan.model_copy(update={"confined": limits, "expect": expect, "storage": tiers}),
            opened.enter_context(open_launcher(facts.name, console)),
            folder,
            SystemClock(),
            Choice(seed, exhaustive, STEP_PLACES_MAX, groups, question, one_by_one),
            _budget(facts, time_limit, max_runs, first=exitfirst, every=exhaustive or is_on_ray),
            display.show,
            display.tell,
            on_ray_if(confirm and not is_on_ray, facts, reports),
            explain,
            follows_script=workers is None and facts.sizes_itself,
            retries=retries,
            grace_s=grace or 0.0,
            command=shlex.join(["chaos", *map(str, masked_words(words_of(context)))]),
            lanes=lanes,
            threads=threads,
            ray=opened.enter_context(open_backend("ray", console)) if is_on_ray else None,
            spread=spread,
            earlier=earlier,
        ).run()
    _hand_over(context, card, folder, console, document)
    raise typer.Exit(card.exit_code)


def _facts_of(
    launcher: Launcher | None, context: typer.Context, run: ModuleFile, console: Console
) -> LauncherFacts:
    """Return the facts of a script's launcher; raise `UsageError` for an option that is not its."""
    given, again = context.params, context.meta.get(AGAIN)
    facts = FACTS[chosen_launcher(launcher, run, console, again, takes_sbatch=True)]
    refuse_others_options(audit, given, facts)
    refuse_without_extra(run.file, facts)
    restarts = [name for name in ("retries", "restart", "restart_args") if given[name] is not None]
    if restarts and not facts.lacks_part("queue"):
        raise UsageError(
            "a script for sbatch is started again by Slurm, if it was requeued",
            "Leave it out: the script's own lines say how it begins again.",
            place=f"--{restarts[0].replace('_', '-')}",
        )
    return facts


def _loses_nodes(facts: LauncherFacts, nodes: str | None) -> bool:
    """Return whether a node can be lost, or given to another job."""
    return facts.loses_nodes or facts.returns_preempted or node_range(nodes) != ONE_NODE


def _nodes(facts: LauncherFacts, run: ModuleFile, nodes: str | None) -> tuple[int, int]:
    """Return the fewest and the most nodes: by the header of a script for sbatch, or as given."""
    if facts.lacks_part("queue") or not run.file.is_file():
        return node_range(nodes)
    count = nodes_in(run.file.read_text(encoding="utf-8", errors="replace"))
    return count, count


def _begun_again(plan: Plan, by: Restart | None, args: str) -> Plan:
    """Return the plan of a job that is started once more, if that is asked for."""
    if by == "command" and plan.shape.nodes > 1 and not plan.job.facts.has_spare_nodes:
        raise UsageError(
            "--restart command starts one node again, and --nodes names several",
            "Leave one of them out.",
            place="--restart",
        )
    return begun_again_by(plan, by, shlex.split(args))


def _with_threads(plan: Plan, lanes: Callable[[int], int]) -> tuple[Plan, Threads | None]:
    """Return the plan with the threads of each process, and their choice, if there is one."""
    count = lanes(plan.job.workers)
    threads = Threads.choose(plan, os.environ, cores=usable_cpus(), lanes=count)
    return plan if threads is None else threads.set_in(plan), threads


def _earlier(plan: Plan, reports: Path, console: Console) -> tuple[EarlierAudit | None, int]:
    """Return the audit to continue, and its seed unless another is given; say so without one."""
    found = EarlierAudit.last(reports, plan)
    if found is None:
        words = f"{shown(reports.resolve())} has no audit of {Path(plan.file).name} with these "
        console.print(f"{words}arguments to continue: this is the first", soft_wrap=True)
    return found, plan.seed or (found.card.seed if found else 0)


def refuse_without_extra(script: Path, facts: LauncherFacts) -> None:
    """Raise `MissingExtraError` for a script that is taken for one of Ray Train's, without Ray."""
    if facts.extra == "ray" and script.is_file() and not has_ray():
        raise MissingExtraError(
            "the script is taken for a job of Ray Train's, and Ray is not installed",
            f"{install_line('ray')}; or, if torchrun starts it, add --launcher torchrun.",
            place=str(script),
        )


def _lanes(workers: int, *, jobs: int | None, backend: PlanBackend, facts: LauncherFacts) -> int:
    """Return the number of runs at a time: as asked for, or by the job's workers."""
    if jobs is not None:
        return jobs
    # Each process that is started anew imports torch.
    is_one_by_one = backend != "fork" or (facts.states_ports and workers > 1)
    return 1 if is_one_by_one else lanes_for(usable_cpus(), workers=workers)


def embedded_or_real(backend: PlanBackend, launcher: Launcher, console: Console) -> PlanBackend:
    """Return the backend of a job: real processes if a command's cannot be forked."""
    if backend != "fork" or "call" in FACTS[launcher].has:
        return backend
    if (why := why_not_forked(launcher, os.environ)) is None:
        return backend
    console.print(f"{why}: real processes are started (--backend {launcher})", soft_wrap=True)
    return launcher


def _budget(
    facts: LauncherFacts, limit_s: float | None, runs: int | None, *, first: bool, every: bool
) -> Budget:
    is_unasked = limit_s is None and runs is None and not every
    usual_s = BUDGET_S if facts.lacks_part("queue") else BUDGET_IN_A_QUEUE_S
    return Budget(usual_s if is_unasked else limit_s, runs, first, is_default=is_unasked)


def _is_own(storage: str | None) -> bool:
    if storage not in (None, OWN):
        raise UsageError(
            f"storage is {OWN} or the run's; got '{storage}'",
            f"Write --storage {OWN} to keep the script's bucket, or leave it out.",
            place="--storage",
        )
    return storage == OWN


def _expect(
    plan: Plan, accept: Sequence[str] | None, sampling: Sampling, tolerance: float | None
) -> Expect:
    """Return what is expected of the job, with the findings that are accepted."""
    accepted = accept or ()
    for word in accepted:
        if word not in ACCEPTABLE:
            raise UsageError(
                f"a severity that can be accepted is rng, lost-work or cosmetic; got '{word}'",
                "rng: only random streams differ. lost-work: saved work is trained again. "
                "cosmetic: only what is shown or logged differs.",
                place="--accept",
            )
    given: dict[str, object] = {
        "accept": tuple(word for word in ACCEPTABLE if word in accepted),
        "sampling": sampling,
    }
    if tolerance is not None:
        given["loss_tolerance"] = Tolerance(relative=tolerance)
    return plan.expect.model_copy(update=given)


def _tiers(words: Sequence[str]) -> dict[str, Tier]:
    found: dict[str, Tier] = {}
    for word in words:
        path, _, tier = word.rpartition("=")
        if not path or tier not in TIERS:
            raise UsageError(
                f"a tier is a path, = and {' or '.join(TIERS)}; got '{word}'",
                "For example: --tier /local/ckpt=node",
                place="--tier",
            )
        found[path] = tier
    return found


def confined(
    folder: AuditFolder, may_write: Sequence[Path] | None, *, keeps_storage: bool = False
) -> Confined:
    """Return the limits of the job outside the audit's folder."""
    words = [as_named(str(path)) for path in may_write or ()]
    paths = tuple(w if is_object(w) else str(Path.cwd() / Path(w).expanduser()) for w in words)
    return Confined(folder=str(folder.path), may_write=paths, keeps_storage=keeps_storage)


def folder_for(plan: Plan, reports: Path, kind: str = "audits") -> AuditFolder:
    """Make the folder of an audit or a search, named after its script and the time."""
    name = f"{plan.slug}-{stamp(SystemClock().wall_ns())}"
    return AuditFolder.create(reports, name, plan, environment(Path.cwd()), kind=kind)


@contextmanager
def _written_if_broken_off(
    folder: AuditFolder, document: Document, console: Console
) -> Iterator[None]:
    """Print and write what was found even if the audit is broken off, if there is a card."""
    try:
        yield
    except BaseException as why:
        file = folder.path / FILES["json"]
        if file.exists():
            word = "interrupted" if isinstance(why, KeyboardInterrupt) else "broken off"
            head = f"{word}: what was found until then"
            console.print(Text(head, style="bold yellow"), soft_wrap=True)
            _tell(Card.from_json(file.read_bytes()), folder, console, document)
        raise


def _files(folder: AuditFolder) -> dict[Form, Callable[[], str]]:
    return {form: partial((folder.path / name).read_text, "utf-8") for form, name in FILES.items()}


def _hand_over(
    context: typer.Context, card: Card, folder: AuditFolder, console: Console, document: Document
) -> None:
    """Print the result, or give it to the program that called the command."""
    if (call := PythonCall[AuditResult].of(context)) is None:
        _tell(card, folder, console, document)
    else:
        call.result = AuditResult(card, folder.path)


def _tell(card: Card, folder: AuditFolder, console: Console, document: Document) -> None:
    if on_github(os.environ):
        console.file.writelines(f"{line}\n" for line in annotations(card))
    if not document.takes_stdout:
        print_card(card, console)
    document.write(
        {
            "text": lambda: plain(partial(print_card, card)),
            "md": lambda: card_in_markdown(card),
            "github": lambda: "\n".join(annotations(card)),
            **_files(folder),
        }
    )
    add_to_step_summary(os.environ, card_in_markdown(card))


def _over(address: str | None, jobs: int | None) -> Spread | None:
    """Return a function that opens lanes on a running cluster; raise for one that is not there."""
    if address is None:
        return None
    refuse_no_address(address)
    nodes_at(address)
    return lambda workers, places, check: open_lanes(
        address, workers=workers, most=min(jobs or places, places), check=check
    )
