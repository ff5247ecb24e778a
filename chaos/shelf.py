"""The runs, suites and audits under `reports/`, found and read back; nothing is executed."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import ValidationError

from chaos.check.judge import judge
from chaos.errors import HistoryError
from chaos.extensions import other_checks
from chaos.harness import recorded
from chaos.model.history import HISTORY
from chaos.model.summary import STALE, SUITE, SUMMARY, RunSummary
from chaos.model.verdict import Verdict
from chaos.report.ci import summary_of
from chaos.report.outcome import FinishedRun, SuiteRow, not_run, row_of
from chaos.run.directory import RunDirectory
from chaos.run.record_file import digest_of, read_record
from chaos.run.shown import shown
from chaos.run.suites import SUITES, read_suite

_OTHER_JSON = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
_UNREADABLE = (HistoryError, OSError, *_OTHER_JSON)

STALE_WORD = "inconclusive: stale"  # in a list, for `STALE`

Kind: TypeAlias = Literal["run", "suite", "audit"]
AUDIT, PAGES = "audit.json", {"run": "report.html", "suite": "report.html", "audit": "card.html"}


@dataclass(frozen=True)
class Item:
    """One run, suite or audit."""

    kind: Kind
    path: Path
    #: the time of its begin (UTC, as in folder names)
    stamp: str

    @property
    def page(self) -> Path:
        return self.path / PAGES[self.kind]


def kind_of(path: Path) -> Kind | None:
    """Return the kind of a folder; None where it is none of chaos's."""
    if (path / AUDIT).is_file():
        return "audit"
    if (path / SUITE).is_file() or (path.parent.name == SUITES and (path / "report.html").exists()):
        return "suite"
    return "run" if (path / "plan.json").is_file() else None


def items(reports: Path) -> list[Item]:
    """Return all runs, suites and audits, newest first."""
    folders = [path for path in reports.glob("*/*") if path.is_dir() and path.parent.name[0] != "."]
    found = [Item(kind, path, _stamp(path)) for path in folders if (kind := kind_of(path))]
    return sorted(found, key=lambda item: (item.stamp, item.path.name), reverse=True)


def item_at(path: Path) -> Item:
    """Return the run, suite or audit at a path or around a file; or raise `HistoryError`."""
    folder = path if path.is_dir() else path.parent
    kind = kind_of(folder) if folder.is_dir() else None
    if kind is None:
        raise HistoryError(
            "there is no run, suite or audit",
            "`chaos report` lists what there is; give one of its folders.",
            place=str(path),
        )
    return Item(kind, folder.resolve(), _stamp(folder))


def came_to(item: Item) -> str:
    """Return the outcome in a word or two, without reading a history."""
    try:
        if item.kind == "run":
            return _verdict_word(item.path)
        if item.kind == "suite":
            runs = read_suite(item.path).runs
            stood = sum(run.standing == "expected" for run in runs)
            return f"{stood} of {len(runs)} as expected"
        card = json.loads(read_record(item.path / AUDIT))
        stood = sum(run["status"] == "pass" for run in card["runs"])
        return f"survives {stood} of {len(card['runs'])}"
    except _UNREADABLE:
        return "-"


def _verdict_word(path: Path) -> str:
    verdict = json.loads(read_record(path / "verdict.json"))
    if is_stale(path, verdict.get("history")):
        return STALE_WORD
    expected = ", expected" if verdict["as_expected"] else ""
    return f"{verdict['status']}{'' if verdict['status'] == 'pass' else expected}"


def is_stale(path: Path, judged: str | None) -> bool:
    """Return whether the history of a run is another than the one that was judged.

    `judged` is the digest of that one; None where an older chaos wrote none.
    """
    return judged is not None and judged != digest_of(path / HISTORY)


def read_run(path: Path) -> FinishedRun:
    """Return an old run with its recorded verdict; judged now where it has none."""
    directory = RunDirectory(path.resolve())
    plan, history = directory.load_plan(), recorded(directory)
    baseline = directory.load_baseline()
    # The verdict stays the one that was recorded: a report of an old run is no new judgement. Where
    # the history is another than was judged, neither holds.
    verdict = directory.load_verdict() or judge(plan, history, baseline, other_checks())
    if is_stale(directory.path, verdict.history):
        verdict = _undecided(verdict)
    seconds = (history[-1].time_ns - history[0].time_ns) / 1e9 if len(history) else 0.0
    written = _written(directory.path)
    return FinishedRun(
        plan=plan,
        env=directory.load_env(),
        history=history,
        baseline=baseline,
        verdict=verdict,
        directory=shown(directory.path),
        duration_s=seconds if written is None else written.duration_s,
    )


def summary_at(path: Path) -> RunSummary:
    """Return a run in figures: as written down with it, else from its history."""
    return _written(path) or summary_of(row_of(read_run(path)))


def runs_at(path: Path) -> Sequence[RunSummary]:
    """Return the runs at a path, in figures.

    A run is itself, a suite its rows, and a folder of runs (`reports/<scenario>`) all of them:
    repeats of one scenario.
    """
    kind = kind_of(path)
    if kind == "suite":
        return [_checked(run, path.resolve().parents[1]) for run in read_suite(path).runs]
    if kind == "run":
        return [summary_at(path)]
    found = sorted(p for p in path.glob("*") if kind_of(p) == "run") if path.is_dir() else []
    if not found:
        item_at(path)  # raises where there is nothing
        raise HistoryError(
            "an audit cannot be compared",
            "Give runs, suites, or a folder of runs such as reports/<scenario>.",
            place=str(path),
        )
    return [summary_at(folder) for folder in found]


def rows_of(path: Path) -> Iterator[SuiteRow]:
    """Return a suite's rows as they were, read back from the folders of its runs."""
    reports = path.resolve().parents[1]
    for run in read_suite(path).runs:
        folder = None if run.directory is None else (reports / run.directory)
        if folder is not None and folder.is_dir():
            row = row_of(read_run(folder))
        else:
            why = run.error or f"{run.headline} (the run's folder is gone)"
            row = not_run(run.scenario, run.file, why, duration_s=run.duration_s)
        yield replace(row, repeat=run.repeat)


def _written(path: Path) -> RunSummary | None:
    """Return the recorded figures of a run; None without any, or if another version wrote them."""
    try:
        summary = RunSummary.model_validate_json(read_record(path / SUMMARY))
    except (OSError, ValidationError):
        return None
    return _undecided_row(summary) if is_stale(path, summary.history) else summary


def _checked(run: RunSummary, reports: Path) -> RunSummary:
    """Return a suite's figures of a run, as undecided if the run's folder contradicts them."""
    folder = None if run.directory is None else reports / run.directory
    if folder is None or not (folder / HISTORY).exists() or not is_stale(folder, run.history):
        return run
    return _undecided_row(run)


def _undecided(verdict: Verdict) -> Verdict:
    doubt = {"status": "inconclusive", "as_expected": False, "is_news": False, "headline": STALE}
    return verdict.model_copy(update={**doubt, "expectation": STALE})


def _undecided_row(run: RunSummary) -> RunSummary:
    doubt = {"status": "inconclusive", "standing": "undecided", "broken": None, "headline": STALE}
    return run.model_copy(update=doubt)


def _stamp(path: Path) -> str:
    """Return the time of the begin, from the part of a folder's name that looks like a date."""
    parts = (part for part in path.name.split("-") if len(part) == 15 and part[8] == "T")  # noqa: PLR2004 - 20261121T014500
    return next(parts, "")
