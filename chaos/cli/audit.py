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

from chaos.app.acceptance import parse_accepted_finding
from chaos.app.script import (
    build_confinement,
    choose_backend,
    choose_launcher,
    create_audit_folder,
    locate_script,
    parse_node_range,
    refuse_without_extra,
)
from chaos.audit.audit import Audit, SiteChoice, Spread
from chaos.audit.budget import Budget
from chaos.audit.card import ACCEPTABLE, Card
from chaos.audit.continuation import EarlierAudit
from chaos.audit.folder import AuditFolder
from chaos.audit.lanes import count_lanes
from chaos.audit.page import build_annotations, render_markdown
from chaos.audit.plans import ONE_NODE, build_base_plan, set_launcher, set_restart
from chaos.audit.repro import select_confirm
from chaos.audit.result import AuditResult
from chaos.audit.site_category import Question, select_site_categories
from chaos.audit.site_sample import STEP_PLACES_MAX
from chaos.audit.terminal import AuditDisplay, print_card
from chaos.audit.threads import ThreadLimit
from chaos.cli import signals
from chaos.cli.cluster import refuse_invalid_address
from chaos.cli.documents import Document, Form, Format, Output
from chaos.cli.options import (
    AGAIN,
    REPORTS,
    AnyBackend,
    IsModule,
    Jobs,
    Reports,
    ScriptArguments,
    Seed,
    StartedBy,
    forbid_parallel_jobs,
    parse_seconds,
    retry_launcher,
)
from chaos.cli.python_call import PythonCall, find_command_words, find_console
from chaos.cli.rules import ExcludesOption, NotNeededReason, refuse_foreign_options
from chaos.errors import UsageError
from chaos.launch.backends import (
    find_cluster_nodes,
    open_backend,
    open_lanes,
    open_launcher,
)
from chaos.model.bounds import Tolerance
from chaos.model.expect import Expect, Sampling
from chaos.model.launcher import LAUNCHER_FACTS, Launcher, LauncherFacts, Restart
from chaos.model.masking import mask_words
from chaos.model.plan import Plan, PlanBackend
from chaos.model.scenario import TIERS, Tier
from chaos.report.screen import ConsoleAnnouncer, render_plain
from chaos.run.ci import add_to_step_summary, is_github_actions
from chaos.run.clock import SystemClock
from chaos.run.display_path import format_path
from chaos.run.machine import usable_cpus
from chaos.run.modules import ModuleFile
from chaos.run.sbatch_header import count_nodes

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
        parser=parse_seconds,
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
    ExcludesOption(
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
    NotNeededReason(
        "Ray Train's ranks have a node each, and a script for sbatch says how many it has"
    ),
]
Grace = Annotated[
    float | None,
    typer.Option(
        "--grace",
        parser=parse_seconds,
        metavar="TIME",
        help="Of a script for sbatch: the GraceTime of its partition, between the SIGTERM of a "
        "preemption and SIGKILL. Default: none, as Slurm has it.",
    ),
    NotNeededReason("no other launcher's jobs are preempted with it"),
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
    NotNeededReason("with Ray Train a report ends an epoch"),
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
    ExcludesOption(
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
        metavar="rng|lost-work|cosmetic|FINDING[:PART]=REASON",
        help="Report differences of this severity, or findings of this kind, as notes and not as "
        "failures. Repeatable.",
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


@retry_launcher
def audit(  # noqa: PLR0913 - one parameter per option
    context: typer.Context,
    script: Script,
    arguments: ScriptArguments = None,
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
    jobs: Annotated[Jobs, forbid_parallel_jobs("ray")] = None,
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
    document = Document.from_options(form, output, "text", "md", "github", *FILES)
    console = find_console(context, document)
    run = locate_script(script, is_module=module)
    facts = _find_launcher_facts(launcher, context, run, console)
    backend = choose_backend(backend, facts.name, ConsoleAnnouncer(console))
    tiers, keeps_own_storage = _parse_tiers(tier or ()), _keeps_own_storage(storage)
    restart_mode = "command" if restart_args else restart
    question = question if _can_lose_nodes(facts.apply_restart(restart_mode), nodes) else "crash"
    groups, is_on_ray = select_site_categories(places or (), question), backend == "ray"
    ranks, spread = workers or facts.default_workers, _build_spread(address, jobs)
    size: dict[str, Any] = {
        "epoch_steps": epoch_steps,
        "nodes": _find_node_range(facts, run, nodes),
    }
    plan = build_base_plan(run, arguments or (), cwd=Path.cwd(), seed=seed, workers=ranks, fit=fit)
    plan = set_launcher(plan, facts.name, arguments or (), backend=backend, **size)
    lanes = partial(_count_lanes, jobs=jobs, backend=backend, facts=facts)
    plan, threads = _choose_threads(_apply_restart(plan, restart_mode, restart_args or ""), lanes)
    earlier, seed = _find_earlier_audit(plan, reports, console) if continues else (None, seed)
    folder, expect = (
        create_audit_folder(plan, reports),
        _build_expectation(plan, accept, sampling, tolerance),
    )
    limits = build_confinement(folder, allow_writes, keeps_storage=keeps_own_storage)
    with _publish_if_interrupted(folder, document, console), ExitStack() as exit_stack:
        display = exit_stack.enter_context(
            AuditDisplay(console, SystemClock(), is_ending=signals.has_signal)
        )
        card = Audit(
            plan.replace(confined=limits, expect=expect, storage=tiers),
            exit_stack.enter_context(open_launcher(facts.name, ConsoleAnnouncer(console))),
            folder,
            SystemClock(),
            SiteChoice(seed, exhaustive, STEP_PLACES_MAX, groups, question, one_by_one),
            _build_budget(
                facts,
                time_limit,
                max_runs,
                stops_early=exitfirst,
                is_exhaustive=exhaustive or is_on_ray,
            ),
            display.show,
            display.show_notes,
            select_confirm(confirm and not is_on_ray, facts, reports),
            explain,
            follows_script=workers is None and facts.sets_worker_count,
            retries=retries,
            grace_s=grace or 0.0,
            command=shlex.join(["chaos", *map(str, mask_words(find_command_words(context)))]),
            count_lanes=lanes,
            threads=threads,
            ray=exit_stack.enter_context(open_backend("ray", ConsoleAnnouncer(console)))
            if is_on_ray
            else None,
            open_lanes=spread,
            earlier_audit=earlier,
        ).run()
    _deliver_result(context, card, folder, console, document)
    raise typer.Exit(card.exit_code)


def _find_launcher_facts(
    launcher: Launcher | None, context: typer.Context, run: ModuleFile, console: Console
) -> LauncherFacts:
    """Return the facts of a script's launcher; raise `UsageError` for an option that is not its."""
    params, launcher_error = context.params, context.meta.get(AGAIN)
    facts = LAUNCHER_FACTS[
        choose_launcher(launcher, run, ConsoleAnnouncer(console), launcher_error, takes_sbatch=True)
    ]
    refuse_foreign_options(audit, params, facts)
    refuse_without_extra(run.file, facts)
    restarts = [name for name in ("retries", "restart", "restart_args") if params[name] is not None]
    if restarts and not facts.lacks_feature("queue"):
        raise UsageError(
            "a script for sbatch is started again by Slurm, if it was requeued",
            "Leave it out: the script's own lines say how it begins again.",
            location=f"--{restarts[0].replace('_', '-')}",
        )
    return facts


def _can_lose_nodes(facts: LauncherFacts, nodes: str | None) -> bool:
    """Return whether a node can be lost, or given to another job."""
    return facts.can_lose_nodes or facts.returns_preempted or parse_node_range(nodes) != ONE_NODE


def _find_node_range(facts: LauncherFacts, run: ModuleFile, nodes: str | None) -> tuple[int, int]:
    """Return the fewest and the most nodes: by the header of a script for sbatch, or as given."""
    if facts.lacks_feature("queue") or not run.file.is_file():
        return parse_node_range(nodes)
    count = count_nodes(run.file.read_text(encoding="utf-8", errors="replace"))
    return count, count


def _apply_restart(plan: Plan, restart_mode: Restart | None, args: str) -> Plan:
    """Return the plan of a job that is started once more, if that is asked for."""
    is_one_node = plan.shape.nodes == 1 or plan.job.launcher_facts.has_spare_nodes
    if restart_mode == "command" and not is_one_node:
        raise UsageError(
            "--restart command starts one node again, and --nodes names several",
            "Leave one of them out.",
            location="--restart",
        )
    return set_restart(plan, restart_mode, shlex.split(args))


def _choose_threads(plan: Plan, lanes: Callable[[int], int]) -> tuple[Plan, ThreadLimit | None]:
    """Return the plan with the threads of each process, and their choice, if there is one."""
    count = lanes(plan.job.workers)
    threads = ThreadLimit.choose(plan, os.environ, cores=usable_cpus(), lanes=count)
    return plan if threads is None else threads.apply_threads(plan), threads


def _find_earlier_audit(
    plan: Plan, reports: Path, console: Console
) -> tuple[EarlierAudit | None, int]:
    """Return the audit to continue, and its seed unless another is given; say so without one."""
    earlier_audit = EarlierAudit.find_latest(reports, plan)
    if earlier_audit is None:
        words = (
            f"{format_path(reports.resolve())} has no audit of {Path(plan.file).name} with these "
        )
        console.print(f"{words}arguments to continue: this is the first", soft_wrap=True)
    return earlier_audit, plan.seed or (earlier_audit.card.seed if earlier_audit else 0)


def _count_lanes(
    workers: int, *, jobs: int | None, backend: PlanBackend, facts: LauncherFacts
) -> int:
    """Return the number of runs at a time: as asked for, or by the job's workers."""
    if jobs is not None:
        return jobs
    # Each process that is started anew imports torch.
    is_one_by_one = backend != "fork" or (facts.states_ports and workers > 1)
    return 1 if is_one_by_one else count_lanes(usable_cpus(), workers=workers)


def _build_budget(
    facts: LauncherFacts,
    limit_s: float | None,
    runs: int | None,
    *,
    stops_early: bool,
    is_exhaustive: bool,
) -> Budget:
    is_default_limit = limit_s is None and runs is None and not is_exhaustive
    default_s = BUDGET_S if facts.lacks_feature("queue") else BUDGET_IN_A_QUEUE_S
    return Budget(
        default_s if is_default_limit else limit_s, runs, stops_early, is_default=is_default_limit
    )


def _keeps_own_storage(storage: str | None) -> bool:
    if storage not in (None, OWN):
        raise UsageError(
            f"storage is {OWN} or the run's; got '{storage}'",
            f"Write --storage {OWN} to keep the script's bucket, or leave it out.",
            location="--storage",
        )
    return storage == OWN


def _build_expectation(
    plan: Plan, accept: Sequence[str] | None, sampling: Sampling, tolerance: float | None
) -> Expect:
    """Return what is expected of the job, with the findings that are accepted."""
    accepted_words = accept or ()
    changes: dict[str, object] = {
        "accept": tuple(word for word in ACCEPTABLE if word in accepted_words),
        "accept_findings": tuple(
            parse_accepted_finding(word) for word in accepted_words if word not in ACCEPTABLE
        ),
        "sampling": sampling,
    }
    if tolerance is not None:
        changes["loss_tolerance"] = Tolerance(relative=tolerance)
    return plan.expect.model_copy(update=changes)


def _parse_tiers(words: Sequence[str]) -> dict[str, Tier]:
    tier_by_path: dict[str, Tier] = {}
    for word in words:
        path, _, tier = word.rpartition("=")
        if not path or tier not in TIERS:
            raise UsageError(
                f"a tier is a path, = and {' or '.join(TIERS)}; got '{word}'",
                "For example: --tier /local/ckpt=node",
                location="--tier",
            )
        tier_by_path[path] = tier
    return tier_by_path


@contextmanager
def _publish_if_interrupted(
    folder: AuditFolder, document: Document, console: Console
) -> Iterator[None]:
    """Print and write what was found even if the audit is broken off, if there is a card."""
    try:
        yield
    except BaseException as error:
        file = folder.path / FILES["json"]
        if file.exists():
            end_reason = "interrupted" if isinstance(error, KeyboardInterrupt) else "broken off"
            head = f"{end_reason}: what was found until then"
            console.print(Text(head, style="bold yellow"), soft_wrap=True)
            _publish_card(Card.from_json(file.read_bytes()), folder, console, document)
        raise


def _build_file_readers(folder: AuditFolder) -> dict[Form, Callable[[], str]]:
    return {form: partial((folder.path / name).read_text, "utf-8") for form, name in FILES.items()}


def _deliver_result(
    context: typer.Context, card: Card, folder: AuditFolder, console: Console, document: Document
) -> None:
    """Print the result, or give it to the program that called the command."""
    if (call := PythonCall[AuditResult].from_context(context)) is None:
        _publish_card(card, folder, console, document)
    else:
        call.result = AuditResult(card, folder.path)


def _publish_card(card: Card, folder: AuditFolder, console: Console, document: Document) -> None:
    if is_github_actions(os.environ):
        console.file.writelines(f"{line}\n" for line in build_annotations(card))
    if not document.takes_stdout:
        print_card(card, console)
    document.write(
        {
            "text": lambda: render_plain(partial(print_card, card)),
            "md": lambda: render_markdown(card),
            "github": lambda: "\n".join(build_annotations(card)),
            **_build_file_readers(folder),
        }
    )
    add_to_step_summary(os.environ, render_markdown(card))


def _build_spread(address: str | None, jobs: int | None) -> Spread | None:
    """Return a function that opens lanes on a running cluster; raise for one that is not there."""
    if address is None:
        return None
    refuse_invalid_address(address)
    find_cluster_nodes(address)
    return lambda workers, places, check: open_lanes(
        address, workers=workers, lanes_max=min(jobs or places, places), check=check
    )
