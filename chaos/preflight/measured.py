"""Costs, length and settings of a job, measured in recorded runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from chaos.check.analysis import RunAnalysis
from chaos.check.attempt import Attempt
from chaos.check.restarts import Restart
from chaos.errors import UsageError
from chaos.model.event import Committed, ControllerState, FitCalled, ReportReturned
from chaos.model.history import BASELINE, HISTORY, History
from chaos.preflight.question import Costs
from chaos.run.directory import RunDirectory


@dataclass(frozen=True)
class Measured:
    """Figures of a job in recorded runs; `settings` are fields of `RaySettings`."""

    costs: Costs
    workers: int
    min_workers: int | None
    steps: int
    checkpoint_every_steps: int
    settings: dict[str, Any]


def measured(analyses: Sequence[RunAnalysis], *, source: str) -> Measured:
    """Return costs, length and settings of a job from a clean run and runs with faults.

    Raises `UsageError` if a needed figure was never seen.
    """
    clean = next(
        (analysis.reference for analysis in analyses if analysis.reference is not None), None
    )
    if clean is None or not clean.attempts:
        raise UsageError("no clean run is recorded, so a step cannot be timed", _HOW, place=source)
    first = clean.attempts[0]
    seen = [(clean.history, first)]
    seen += [
        (analysis.history, attempt) for analysis in analyses for attempt in analysis.run.attempts
    ]
    of_step_s = step_s(seen)
    saves = [commit for commit in first.commits if commit.checkpoint is not None]
    steps = max(sum(1 for s in first.steps if s.rank == rank) for rank in _ranks(first))
    if not saves:
        raise UsageError("the job saves no checkpoint: every loss begins it again", place=source)
    workers, least = _workers(clean.history, first)
    return Measured(
        _costs(
            {
                "step_s": of_step_s,
                "save_s": _save_s(seen, of_step_s),
                "upload_s": _upload_s(clean.history),
                **_restart(analyses, of_step_s, source=source),
            },
            source,
        ),
        workers=workers,
        min_workers=least,
        steps=steps,
        checkpoint_every_steps=max(1, round(steps / len(saves))),
        # For any kind of upload: training stops for `save_s`, and `upload_s` is the time after it.
        settings=_settings(clean.history) | {"checkpoint_upload_mode": "async"},
    )


def _costs(seconds: dict[str, float], source: str) -> Costs:
    return Costs.model_validate({**seconds, "source": source})


_HOW = "Give a run's folder, an audit's, or let --calibrate make the runs."


def _ranks(attempt: Attempt) -> set[int]:
    ranks = {step.rank for step in attempt.steps}
    if not ranks:
        raise UsageError("no optimizer step was seen, so none can be timed", _HOW)
    return ranks


def step_s(seen: Sequence[tuple[History, Attempt]]) -> float:
    """Return the mean time between two steps of a rank within one epoch, over all attempts."""
    apart = []
    for history, attempt in seen:
        for steps in attempt.by_epoch.values():
            times = [history.time_ns(step.number) for step in steps]
            apart += [b - a for a, b in pairwise(times)]
    if not apart:
        raise UsageError("no epoch has two steps, so a step cannot be timed", _HOW)
    return max(1e-6, fmean(apart) / 1e9)


def _save_s(seen: Sequence[tuple[History, Attempt]], of_step_s: float) -> float:
    """Return the time that training stands still around a report with a checkpoint.

    It is the time from an epoch's last step to the next epoch's first, less that step
    itself: for writing, reporting, and all else that the job does there.
    """
    pauses = []
    for history, attempt in seen:
        saved = {commit.epoch for commit in attempt.commits if commit.checkpoint is not None}
        rows = attempt.by_epoch
        pauses += [
            history.time_ns(rows[rank, epoch + 1][0].number) - history.time_ns(steps[-1].number)
            for (rank, epoch), steps in rows.items()
            if epoch in saved and (rank, epoch + 1) in rows
        ]
    return max(0.0, fmean(pauses) / 1e9 - of_step_s) if pauses else 0.0


def _upload_s(history: History) -> float:
    """Return the time from the return of the last rank's `report()` to the commit."""
    returned: dict[int, int] = {}
    for number, event in history.of(ReportReturned):
        returned[event.epoch] = max(returned.get(event.epoch, 0), history.time_ns(number))
    behind = [
        max(0, history.time_ns(number) - returned[event.epoch]) / 1e9
        for number, event in history.of(Committed)
        if event.checkpoint is not None and event.epoch in returned
    ]
    return fmean(behind) if behind else 0.0


def _restart(analyses: Sequence[RunAnalysis], of_step_s: float, *, source: str) -> dict[str, float]:
    rows = [(analysis, restart) for analysis in analyses for restart in analysis.restarts]
    found = [parts for analysis, restart in rows if (parts := _parts(analysis, restart, of_step_s))]
    if not found:
        raise UsageError(
            "no restart is recorded, so what one costs is not known", _HOW, place=source
        )
    return {name: fmean(part[name] for part in found) for name in found[0]}


def _parts(analysis: RunAnalysis, restart: Restart, of_step_s: float) -> dict[str, float] | None:
    seconds, phases = restart.phases.seconds, restart.phases
    detect, group = seconds["detect_s"], seconds["group_s"]
    start, first = seconds["start_s"], seconds["first_step_s"]
    if detect is None or group is None or start is None or first is None:
        return None
    teardown = _teardown_s(analysis.history, phases.decided_ns, phases.group_ns)
    return {
        "detect_s": detect,
        "teardown_s": min(teardown, group),
        "schedule_s": group - min(teardown, group),
        "start_s": start,
        "restore_s": max(0.0, first - of_step_s),
    }


def _teardown_s(history: History, decided_ns: int | None, group_ns: int | None) -> float:
    """Return the time from Ray's decision until it began to schedule; 0 if that was not seen."""
    if decided_ns is None or group_ns is None:
        return 0.0
    for number, event in history.of(ControllerState):
        at_ns = history.time_ns(number)
        if decided_ns <= at_ns <= group_ns and "SCHEDULING" in event.state.upper():
            return (at_ns - decided_ns) / 1e9
    return 0.0


def _workers(history: History, attempt: Attempt) -> tuple[int, int | None]:
    called = _called(history)
    own = None if called is None else called.settings.get("num_workers")
    if isinstance(own, list | tuple) and len(own) == 2 and own[0] < own[1]:  # noqa: PLR2004
        return int(own[1]), int(own[0])
    return attempt.size, None


def _called(history: History) -> FitCalled | None:
    return next((event for _, event in history.of(FitCalled)), None)


def _settings(history: History) -> dict[str, Any]:
    """Return the script's own settings, without chaos's replacements."""
    called = _called(history)
    if called is None:
        return {}
    own = {**called.settings, **called.replaced}
    names = ("max_failures", "max_preemption_failures", "num_to_keep", "checkpoint_score_attribute")
    settings = {name: own[name] for name in names if own.get(name) is not None}
    settings |= {
        ours: str(called.replaced[theirs])
        for theirs, ours in (("storage_path", "storage_path"), ("name", "run_name"))
        if called.replaced.get(theirs) is not None
    }
    return settings | dict(_from_environment(called.settings.get("environment", {})))


_VARIABLES = {
    "RAY_TRAIN_PREEMPTION_POLL_INTERVAL_S": "preemption_poll_s",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "health_check_interval_s",
    "RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S": "health_check_timeout_s",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "group_start_timeout_s",
    "RAY_TRAIN_COLLECTIVE_TIMEOUT_S": "report_timeout_s",
}


def _from_environment(environment: dict[str, str]) -> Iterator[tuple[str, Any]]:
    for variable, name in _VARIABLES.items():
        if environment.get(variable, "None") != "None":  # Ray's value for no limit
            yield name, float(environment[variable])
    if environment.get("RAY_TRAIN_ENABLE_PREEMPTION_WATCHER") == "0":
        yield "preemption_watcher", False


# -- folders of runs ----------------------------------------------------------------------------

RUNS_MAX = 40  # runs of an audit: the mean of so many restarts is stable


def analyses_in(folder: Path) -> tuple[RunAnalysis, ...]:
    """Return the runs of a folder; raises `UsageError` if it holds none."""
    if (folder / HISTORY).is_file():
        return (_trial(RunDirectory(folder), RunDirectory(folder)),)
    runs = sorted(path.parent for path in (folder / "runs").glob(f"*/{HISTORY}"))
    if not runs:
        raise UsageError(
            "this is neither the folder of a run nor that of an audit",
            "Such as reports/<scenario>/<seed>-<start> or reports/audits/<script>-<start>.",
            place=str(folder),
        )
    return tuple(_trial(RunDirectory(path), RunDirectory(folder)) for path in runs[:RUNS_MAX])


def _trial(directory: RunDirectory, beside: RunDirectory) -> RunAnalysis:
    has_baseline = (beside.path / BASELINE).is_file()
    baseline = beside.load_history(BASELINE) if has_baseline else None
    return RunAnalysis(directory.load_plan(), directory.load_history(), baseline)
