"""`chaos selftest`: a test of chaos's verdicts, on planted bugs and on correct jobs."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType

from chaos import __version__
from chaos.audit.folder import AuditFolder
from chaos.audit.lanes import count_lanes
from chaos.cli import signals
from chaos.cli.documents import Output
from chaos.cli.options import REPORTS, Backend, Jobs, Reports, Seed
from chaos.errors import UsageError
from chaos.extensions.lab.selftest.catalogue import EXHIBITS, CatalogueJob
from chaos.extensions.lab.selftest.corpus import (
    CorpusAudits,
    CorpusScore,
    load_corpus,
    render_corpus,
    select_jobs,
)
from chaos.extensions.lab.selftest.runs import (
    WORKERS,
    SelftestRunner,
    TrialCase,
    build_cases,
    select_sample,
)
from chaos.extensions.lab.selftest.score import Score, SelftestDisplay, render_score
from chaos.launch.backends import open_backend, require_ray
from chaos.report.screen import ConsoleAnnouncer, build_console
from chaos.run.clock import SystemClock, elapsed_seconds, format_stamp
from chaos.run.directory import ensure_reports_folder
from chaos.run.environment import collect_environment
from chaos.run.machine import usable_cpus

HELP_PANEL = "Tools"
HELP_LINE = "Test chaos on jobs with known bugs."

RunsPerBug = Annotated[int, typer.Option("--runs-per-bug", min=1, metavar="N")]
Controls = Annotated[
    int, typer.Option("--controls", min=0, metavar="N", help="Runs of all correct jobs together.")
]
Only = Annotated[
    list[str] | None, typer.Option("--only", metavar="ID", help="Only this job. Repeatable.")
]
Corpus = Annotated[
    Path | None,
    typer.Option("--corpus", metavar="FOLDER", help="Audit the scripts of its corpus.yaml."),
]
MaxRuns = Annotated[
    int | None,
    typer.Option("--max-runs", min=1, metavar="N", help="With --corpus: limit of runs per job."),
]


def selftest(  # noqa: PLR0913 - one parameter per option
    *,
    seed: Seed = 0,
    runs_per_bug: RunsPerBug = 10,
    controls: Controls = 200,
    backend: Backend = "fork",
    output: Output = None,
    only: Only = None,
    jobs: Jobs = None,
    corpus: Corpus = None,
    max_runs: MaxRuns = None,
    reports: Reports = REPORTS,
) -> None:
    """Test chaos on jobs with planted bugs and on correct jobs, and count its answers.

    With --corpus, audit scripts of which the truth is known. --output takes JSON.

    Exit codes: 1 a visible bug was missed or a correct job failed; 2 a bug was never shown, or a
    correct job was not shown to be correct.

    Example: chaos selftest --seed 7 --only Z07 --only N01
    """
    require_ray("chaos selftest")
    if corpus is not None:
        corpus_folder = _create_folder(reports, f"corpus-{seed}")
        audits = CorpusAudits(
            corpus.resolve(),
            corpus_folder.path,
            corpus_folder.env,
            build_console(),
            SystemClock(),
            seed,
            max_runs,
            seconds=None,
            lanes=jobs,
        )
        raise typer.Exit(audit_corpus(audits, only or (), output).exit_code)
    exhibits, lanes = (
        select_exhibits(only or ()),
        jobs or count_lanes(usable_cpus(), workers=WORKERS),
    )
    drawn_cases = build_cases(exhibits, seed=seed, runs_per_bug=runs_per_bug, controls=controls)
    if backend == "ray":
        drawn_cases, lanes = select_sample(drawn_cases), 1
    trials = SelftestRunner(_create_folder(reports, str(seed)), Path.cwd(), SystemClock(), backend)
    score = Score(seed, backend, exhibits, rows=(), seconds=0.0)
    raise typer.Exit(run_cases(trials, drawn_cases, score, lanes, output).exit_code)


def run_cases(
    trials: SelftestRunner,
    drawn_cases: Sequence[TrialCase],
    score: Score,
    count: int,
    json_file: Path | None,
) -> Score:
    """Run cases in so many lanes, and print the score, even if the run is broken off."""
    console, start = build_console(), trials.clock.now_ns()
    words = f"chaos {__version__}, seed {score.seed}, runs below {trials.folder.display_path}"
    console.print(words, soft_wrap=True)
    try:
        with ExitStack() as exit_stack:
            display = exit_stack.enter_context(SelftestDisplay(console))
            display.total, trials.show_row = (
                sum(len(case.runs) for case in drawn_cases),
                display.show,
            )
            lanes = [
                exit_stack.enter_context(open_backend(trials.backend, ConsoleAnnouncer(console)))
                for _ in range(count)
            ]
            trials.run(drawn_cases, lanes)
    finally:  # a case that was not tried counts as not shown
        seconds = elapsed_seconds(start, trials.clock)
        score = replace(score, rows=trials.ordered_rows, seconds=seconds)
        if trials.rows or not drawn_cases:
            _write_score(json_file, score.to_json(), render_score(score))
    return score


def select_exhibits(ids: list[str] | tuple[str, ...]) -> tuple[CatalogueJob, ...]:
    """Return the named exhibits; all, if none is named.

    Raises `UsageError` for an unknown name.
    """
    exhibit_by_id = {exhibit.id: exhibit for exhibit in EXHIBITS}
    for name in ids:
        if name not in exhibit_by_id:
            hint = f"Known are {', '.join(exhibit_by_id)}."
            raise UsageError(f"there is no '{name}'", hint, location="--only")
    return tuple(exhibit for exhibit in EXHIBITS if exhibit.id in ids) if ids else EXHIBITS


def audit_corpus(audits: CorpusAudits, only: Sequence[str], json_file: Path | None) -> CorpusScore:
    """Audit the jobs of a corpus, and print the score, even if the audit is broken off."""
    console, start = audits.console, audits.clock.now_ns()
    selected_jobs = select_jobs(load_corpus(audits.folder), only)
    skipped_jobs = {
        job.name: f"needs {', '.join(job.missing)}" for job in selected_jobs if job.missing
    }
    runnable_jobs = tuple(job for job in selected_jobs if job.name not in skipped_jobs)
    words = f"chaos {__version__}, seed {audits.seed}, runs below {audits.reports}"
    console.print(words, soft_wrap=True)
    answers = []
    try:
        for number, answer in enumerate(audits.audit_jobs(runnable_jobs), 1):
            answers.append(answer)
            answer_text = f"{answer.job}: {answer.verdict}{', named' if answer.named else ''}"
            console.print(f"{number}/{len(runnable_jobs)} {answer_text}", soft_wrap=True)
    finally:
        seconds = elapsed_seconds(start, audits.clock)
        score = CorpusScore(selected_jobs, tuple(answers), skipped_jobs, seconds)
        if answers or not runnable_jobs:
            _write_score(json_file, score.to_json(), render_corpus(score))
    return score


def _create_folder(reports: Path, name: str) -> AuditFolder:
    folder_name = f"{name}-{format_stamp(SystemClock().wall_ns())}"
    return AuditFolder(
        ensure_reports_folder(reports.resolve(), "selftests") / folder_name,
        collect_environment(Path.cwd()),
    )


def _write_score(file: Path | None, text: str, table: RenderableType) -> None:
    with signals.delay_signals():
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        build_console().print(table)
