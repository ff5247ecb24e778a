"""`chaos selftest`: try chaos's own judgement on bugs and on right jobs that are known."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from chaos import __version__
from chaos.audit.folder import AuditFolder
from chaos.audit.lanes import lanes_for
from chaos.backends.open import open_backend
from chaos.errors import UsageError
from chaos.model.plan import BackendName
from chaos.run.clock import SystemClock, seconds_since, stamp
from chaos.run.cpus import usable_cpus
from chaos.run.environment import environment
from chaos.selftest.corpus import CorpusScore, chosen_jobs, load_corpus
from chaos.selftest.corpus_audits import CorpusAudits
from chaos.selftest.corpus_terminal import show_corpus
from chaos.selftest.draw import WORKERS, cases, sample
from chaos.selftest.live import SelftestDisplay
from chaos.selftest.score import Score
from chaos.selftest.terminal import show_score
from chaos.selftest.trials import Trials
from chaos.zoo.catalogue import ZOO, Exhibit

Seed = Annotated[int, typer.Option("--seed", min=0, help="Draws variants and places.")]
RunsPerBug = Annotated[int, typer.Option("--runs-per-bug", min=1)]
Controls = Annotated[
    int, typer.Option("--controls", min=0, help="Runs of right jobs, all controls together.")
]
BackendOption = Annotated[
    BackendName,
    typer.Option("--backend", help="`ray` confirms one run per job on a local cluster."),
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Write every run and the score here.")
]
Only = Annotated[
    list[str] | None, typer.Option("--only", help="Only these, such as Z07; may be repeated.")
]
Corpus = Annotated[
    Path | None,
    typer.Option(
        "--corpus", metavar="FOLDER", help="Audit the scripts that its corpus.yaml lists."
    ),
]
Runs = Annotated[
    int | None,
    typer.Option("--runs", min=1, help="With --corpus: at most so many runs per job."),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", min=1, help="Runs side by side. Left out: what the cores allow."),
]


def selftest(  # noqa: PLR0913 - one parameter per option
    *,
    seed: Seed = 0,
    runs_per_bug: RunsPerBug = 10,
    controls: Controls = 200,
    backend: BackendOption = "fork",
    json_file: JsonFile = None,
    only: Only = None,
    jobs: Jobs = None,
    corpus: Corpus = None,
    runs: Runs = None,
    reports: Annotated[Path, typer.Option("--reports")] = Path("reports"),
) -> None:
    """Strike jobs with planted bugs and jobs that are right, and count what chaos says of them.

    With --corpus, scripts with a known truth are audited instead, each as a
    user would audit it.

    Exit codes: 1 where a bug that could be seen was missed or a right job was
    blamed; 2 where a bug was never shown or a right job not shown to be right.

    Example: chaos selftest --seed 7 --only Z07 --only N01
    """
    if corpus is not None:
        answers = audit_corpus(corpus, only or (), seed=seed, runs=runs, jobs=jobs, reports=reports)
        _write(json_file, answers.to_json())
        raise typer.Exit(answers.exit_code)
    console, clock, exhibits = Console(highlight=False), SystemClock(), chosen(only or ())
    drawn = cases(exhibits, seed=seed, runs_per_bug=runs_per_bug, controls=controls)
    if backend == "ray":
        drawn = sample(drawn)
    start, name = clock.now_ns(), f"{seed}-{stamp(clock.wall_ns())}"
    folder = AuditFolder(reports.resolve() / "selftests" / name, environment(Path.cwd()))
    console.print(f"chaos {__version__}, seed {seed}, runs below {folder.shown}", soft_wrap=True)
    with ExitStack() as opened:
        display = opened.enter_context(SelftestDisplay(console))
        display.total = sum(len(case.strikes) for case in drawn)
        count = 1 if backend == "ray" else jobs or lanes_for(usable_cpus(), workers=WORKERS)
        lanes = [opened.enter_context(open_backend(backend, console)) for _ in range(count)]
        trials = Trials(folder, Path.cwd(), clock, backend, display.show)
        rows = trials.run(drawn, lanes)
    score = Score(seed, backend, exhibits, rows, seconds_since(start, clock))
    _write(json_file, score.to_json())
    console.print(show_score(score))
    raise typer.Exit(score.exit_code)


def chosen(ids: list[str] | tuple[str, ...]) -> tuple[Exhibit, ...]:
    """Give the exhibits that were named, all where none was.

    Raises `UsageError` for a name that is none.
    """
    known = {exhibit.id: exhibit for exhibit in ZOO}
    for name in ids:
        if name not in known:
            hint = f"The zoo has {', '.join(known)}."
            raise UsageError(f"there is no '{name}'", hint, place="--only")
    return tuple(exhibit for exhibit in ZOO if exhibit.id in ids) if ids else ZOO


def audit_corpus(
    folder: Path,
    only: Sequence[str],
    *,
    seed: int,
    runs: int | None,
    jobs: int | None,
    reports: Path,
) -> CorpusScore:
    """Audit the jobs of a corpus and print what came of them."""
    console, clock = Console(highlight=False), SystemClock()
    chosen_ones = chosen_jobs(load_corpus(folder), only)
    skipped = {job.name: f"needs {', '.join(job.missing)}" for job in chosen_ones if job.missing}
    due = tuple(job for job in chosen_ones if job.name not in skipped)
    start = clock.now_ns()
    below = reports.resolve() / "selftests" / f"corpus-{seed}-{stamp(clock.wall_ns())}"
    console.print(f"chaos {__version__}, seed {seed}, runs below {below}", soft_wrap=True)
    audits = CorpusAudits(
        folder.resolve(), below, environment(Path.cwd()), console, clock, seed, runs, jobs
    )
    answers = []
    for number, answer in enumerate(audits.answers(due), 1):
        answers.append(answer)
        named = ", named" if answer.named else ""
        console.print(f"{number}/{len(due)} {answer.job}: {answer.verdict}{named}", soft_wrap=True)
    score = CorpusScore(chosen_ones, tuple(answers), skipped, seconds_since(start, clock))
    console.print(show_corpus(score))
    return score


def _write(file: Path | None, text: str) -> None:
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
