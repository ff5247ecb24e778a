"""Runs that lie in folders, as trials: a run's own folder, or all of an audit's."""

from pathlib import Path

from chaos.check.trial import Trial
from chaos.errors import UsageError
from chaos.model.history import BASELINE, HISTORY
from chaos.run.directory import RunDirectory

RUNS_MAX = 40  # of an audit: means of that many restarts are steady


def trials_in(folder: Path) -> tuple[Trial, ...]:
    """Return the runs of a folder; raises `UsageError` where it holds none."""
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


def _trial(directory: RunDirectory, beside: RunDirectory) -> Trial:
    has_baseline = (beside.path / BASELINE).is_file()
    baseline = beside.load_history(BASELINE) if has_baseline else None
    return Trial(directory.load_plan(), directory.load_history(), baseline)
