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
from chaos.audit.lanes import lanes_for
from chaos.cli import signals
from chaos.cli.documents import Output
from chaos.cli.options import REPORTS, Backend, Jobs, Reports, Seed
from chaos.errors import UsageError
from chaos.launch.open import open_backend, refuse_without_ray
from chaos.report.screen import screen
from chaos.run.clock import SystemClock, seconds_since, stamp
from chaos.run.directory import in_reports
from chaos.run.environment import environment
from chaos.run.machine import usable_cpus
from chaos.selftest.catalogue import EXHIBITS, Exhibit
from chaos.selftest.corpus import CorpusAudits, CorpusScore, chosen_jobs, load_corpus, show_corpus
from chaos.selftest.score import Score, SelftestDisplay, show_score
from chaos.selftest.trials import WORKERS, Case, Trials, cases, sample

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
    refuse_without_ray("chaos selftest")
    if corpus is not None:
        below = _folder(reports, f"corpus-{seed}")
        audits = CorpusAudits(
            corpus.resolve(),
            below.path,
            below.env,
            screen(),
            SystemClock(),
            seed,
            max_runs,
            seconds=None,
            lanes=jobs,
        )
        raise typer.Exit(audit_corpus(audits, only or (), output).exit_code)
    exhibits, lanes = chosen(only or ()), jobs or lanes_for(usable_cpus(), workers=WORKERS)
    drawn = cases(exhibits, seed=seed, runs_per_bug=runs_per_bug, controls=controls)
    if backend == "ray":
        drawn, lanes = sample(drawn), 1
    trials = Trials(_folder(reports, str(seed)), Path.cwd(), SystemClock(), backend)
    score = Score(seed, backend, exhibits, rows=(), seconds=0.0)
    raise typer.Exit(try_cases(trials, drawn, score, lanes, output).exit_code)


def try_cases(
    trials: Trials, drawn: Sequence[Case], score: Score, count: int, json_file: Path | None
) -> Score:
    """Run cases in so many lanes, and print the score, even if the run is broken off."""
    console, start = screen(), trials.clock.now_ns()
    words = f"chaos {__version__}, seed {score.seed}, runs below {trials.folder.shown}"
    console.print(words, soft_wrap=True)
    try:
        with ExitStack() as opened:
            display = opened.enter_context(SelftestDisplay(console))
            display.total, trials.show = sum(len(case.runs) for case in drawn), display.show
            lanes = [
                opened.enter_context(open_backend(trials.backend, console)) for _ in range(count)
            ]
            trials.run(drawn, lanes)
    finally:  # a case that was not tried counts as not shown
        seconds = seconds_since(start, trials.clock)
        score = replace(score, rows=trials.in_order, seconds=seconds)
        if trials.rows or not drawn:
            _conclude(json_file, score.to_json(), show_score(score))
    return score


def chosen(ids: list[str] | tuple[str, ...]) -> tuple[Exhibit, ...]:
    """Return the named exhibits; all, if none is named.

    Raises `UsageError` for an unknown name.
    """
    known = {exhibit.id: exhibit for exhibit in EXHIBITS}
    for name in ids:
        if name not in known:
            hint = f"Known are {', '.join(known)}."
            raise UsageError(f"there is no '{name}'", hint, place="--only")
    return tuple(exhibit for exhibit in EXHIBITS if exhibit.id in ids) if ids else EXHIBITS


def audit_corpus(audits: CorpusAudits, only: Sequence[str], json_file: Path | None) -> CorpusScore:
    """Audit the jobs of a corpus, and print the score, even if the audit is broken off."""
    console, start = audits.console, audits.clock.now_ns()
    chosen_ones = chosen_jobs(load_corpus(audits.folder), only)
    skipped = {job.name: f"needs {', '.join(job.missing)}" for job in chosen_ones if job.missing}
    due = tuple(job for job in chosen_ones if job.name not in skipped)
    words = f"chaos {__version__}, seed {audits.seed}, runs below {audits.reports}"
    console.print(words, soft_wrap=True)
    answers = []
    try:
        for number, answer in enumerate(audits.answers(due), 1):
            answers.append(answer)
            said = f"{answer.job}: {answer.verdict}{', named' if answer.named else ''}"
            console.print(f"{number}/{len(due)} {said}", soft_wrap=True)
    finally:
        seconds = seconds_since(start, audits.clock)
        score = CorpusScore(chosen_ones, tuple(answers), skipped, seconds)
        if answers or not due:
            _conclude(json_file, score.to_json(), show_corpus(score))
    return score


def _folder(reports: Path, name: str) -> AuditFolder:
    stamped = f"{name}-{stamp(SystemClock().wall_ns())}"
    return AuditFolder(
        in_reports(reports.resolve(), "selftests") / stamped, environment(Path.cwd())
    )


def _conclude(file: Path | None, text: str, table: RenderableType) -> None:
    with signals.held():
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        screen().print(table)
