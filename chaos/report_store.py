"""The runs, suites and audits under `reports/`, found and read back; nothing is executed."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import ValidationError

from chaos.check.judge import judge
from chaos.errors import HistoryError
from chaos.harness import load_recorded_history
from chaos.model.history import HISTORY
from chaos.model.summary import STALE, SUITE, SUMMARY, RunSummary
from chaos.model.verdict import Verdict
from chaos.other_packages import load_external_checks
from chaos.report.ci import build_summary
from chaos.report.outcome import FinishedRun, SuiteRow, build_suite_row, build_unrun_row
from chaos.run.directory import RunDirectory
from chaos.run.display_path import format_path
from chaos.run.record_file import digest_history, read_small_file
from chaos.run.suites import SUITES, load_suite

_OTHER_JSON = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
_UNREADABLE = (HistoryError, OSError, *_OTHER_JSON)

STALE_WORD = "inconclusive: stale"  # in a list, for `STALE`

Kind: TypeAlias = Literal["run", "suite", "audit"]
AUDIT, PAGES = "audit.json", {"run": "report.html", "suite": "report.html", "audit": "card.html"}


@dataclass(frozen=True)
class StoredReport:
    """One run, suite or audit."""

    kind: Kind
    path: Path
    #: the time of its begin (UTC, as in folder names)
    stamp: str

    @property
    def page(self) -> Path:
        return self.path / PAGES[self.kind]


def find_report_kind(path: Path) -> Kind | None:
    """Return the kind of a folder; None where it is none of chaos's."""
    if (path / AUDIT).is_file():
        return "audit"
    if (path / SUITE).is_file() or (path.parent.name == SUITES and (path / "report.html").exists()):
        return "suite"
    return "run" if (path / "plan.json").is_file() else None


def list_reports(reports: Path) -> list[StoredReport]:
    """Return all runs, suites and audits, newest first."""
    folders = [path for path in reports.glob("*/*") if path.is_dir() and path.parent.name[0] != "."]
    reports_found = [
        StoredReport(kind, path, _parse_stamp(path))
        for path in folders
        if (kind := find_report_kind(path))
    ]
    return sorted(reports_found, key=lambda item: (item.stamp, item.path.name), reverse=True)


def find_report(path: Path) -> StoredReport:
    """Return the run, suite or audit at a path or around a file; or raise `HistoryError`."""
    folder = path if path.is_dir() else path.parent
    kind = find_report_kind(folder) if folder.is_dir() else None
    if kind is None:
        raise HistoryError(
            "there is no run, suite or audit",
            "`chaos report` lists what there is; give one of its folders.",
            location=str(path),
        )
    return StoredReport(kind, folder.resolve(), _parse_stamp(folder))


def describe_outcome(item: StoredReport) -> str:
    """Return the outcome in a word or two, without reading a history."""
    try:
        if item.kind == "run":
            return _describe_verdict(item.path)
        if item.kind == "suite":
            runs = load_suite(item.path).runs
            pass_count = sum(run.standing == "expected" for run in runs)
            return f"{pass_count} of {len(runs)} as expected"
        card = json.loads(read_small_file(item.path / AUDIT))
        pass_count = sum(run["status"] == "pass" for run in card["runs"])
        return f"survives {pass_count} of {len(card['runs'])}"
    except _UNREADABLE:
        return "-"


def _describe_verdict(path: Path) -> str:
    verdict = json.loads(read_small_file(path / "verdict.json"))
    if is_stale(path, verdict.get("history")):
        return STALE_WORD
    expected = ", expected" if verdict["as_expected"] else ""
    return f"{verdict['status']}{'' if verdict['status'] == 'pass' else expected}"


def is_stale(path: Path, judged_digest: str | None) -> bool:
    """Return whether the history of a run is another than the one that was judged.

    `judged_digest` is the digest of that one; None where an older chaos wrote none.
    """
    return judged_digest is not None and judged_digest != digest_history(path / HISTORY)


def load_run(path: Path) -> FinishedRun:
    """Return an old run with its recorded verdict; judged now where it has none."""
    directory = RunDirectory(path.resolve())
    plan, history = directory.load_plan(), load_recorded_history(directory)
    baseline = directory.load_baseline()
    # The verdict stays the one that was recorded: a report of an old run is no new judgement. Where
    # the history is another than was judged, neither holds.
    verdict = directory.load_verdict() or judge(plan, history, baseline, load_external_checks())
    if is_stale(directory.path, verdict.history):
        verdict = _mark_verdict_undecided(verdict)
    seconds = (history[-1].time_ns - history[0].time_ns) / 1e9 if len(history) else 0.0
    summary = _read_summary(directory.path)
    return FinishedRun(
        plan=plan,
        env=directory.load_env(),
        history=history,
        baseline=baseline,
        verdict=verdict,
        directory=format_path(directory.path),
        duration_s=seconds if summary is None else summary.duration_s,
    )


def load_summary(path: Path) -> RunSummary:
    """Return a run in figures: as written down with it, else from its history."""
    return _read_summary(path) or build_summary(build_suite_row(load_run(path)))


def load_summaries(path: Path) -> Sequence[RunSummary]:
    """Return the runs at a path, in figures.

    A run is itself, a suite its rows, and a folder of runs (`reports/<scenario>`) all of them:
    repeats of one scenario.
    """
    kind = find_report_kind(path)
    if kind == "suite":
        return [_check_staleness(run, path.resolve().parents[1]) for run in load_suite(path).runs]
    if kind == "run":
        return [load_summary(path)]
    run_folders = (
        sorted(
            folder_path for folder_path in path.glob("*") if find_report_kind(folder_path) == "run"
        )
        if path.is_dir()
        else []
    )
    if not run_folders:
        find_report(path)  # raises where there is nothing
        raise HistoryError(
            "an audit cannot be compared",
            "Give runs, suites, or a folder of runs such as reports/<scenario>.",
            location=str(path),
        )
    return [load_summary(folder) for folder in run_folders]


def load_suite_rows(path: Path) -> Iterator[SuiteRow]:
    """Return a suite's rows as they were, read back from the folders of its runs."""
    reports = path.resolve().parents[1]
    for run in load_suite(path).runs:
        folder = None if run.directory is None else (reports / run.directory)
        if folder is not None and folder.is_dir():
            row = build_suite_row(load_run(folder))
        else:
            reason = run.error or f"{run.headline} (the run's folder is gone)"
            row = build_unrun_row(run.scenario, run.file, reason, duration_s=run.duration_s)
        yield replace(row, repeat=run.repeat)


def _read_summary(path: Path) -> RunSummary | None:
    """Return the recorded figures of a run; None without any, or if another version wrote them."""
    try:
        summary = RunSummary.model_validate_json(read_small_file(path / SUMMARY))
    except (OSError, ValidationError):
        return None
    return _mark_run_undecided(summary) if is_stale(path, summary.history) else summary


def _check_staleness(run: RunSummary, reports: Path) -> RunSummary:
    """Return a suite's figures of a run, as undecided if the run's folder contradicts them."""
    folder = None if run.directory is None else reports / run.directory
    if folder is None or not (folder / HISTORY).exists() or not is_stale(folder, run.history):
        return run
    return _mark_run_undecided(run)


def _mark_verdict_undecided(verdict: Verdict) -> Verdict:
    changes = {"status": "inconclusive", "as_expected": False, "is_news": False, "headline": STALE}
    return verdict.model_copy(update={**changes, "expectation": STALE})


def _mark_run_undecided(run: RunSummary) -> RunSummary:
    changes = {"status": "inconclusive", "standing": "undecided", "broken": None, "headline": STALE}
    return run.model_copy(update=changes)


def _parse_stamp(path: Path) -> str:
    """Return the time of the begin, from the part of a folder's name that looks like a date."""
    parts = (part for part in path.name.split("-") if len(part) == 15 and part[8] == "T")  # noqa: PLR2004 - 20261121T014500
    return next(parts, "")
