"""One run, for every caller: execute a plan in its folder, read its journals, judge it.

A suite, an audit, a self-test, a validation and pytest all use this module. Each keeps and shows of
a run what it needs.
"""

from collections.abc import Callable, Sequence

from chaos.check.analysis import RunAnalysis
from chaos.check.judge import NO_OTHERS, judge_analysis
from chaos.check.others import Others
from chaos.check.resume_place import saved_indexes
from chaos.extensions import other_checks
from chaos.model.history import Entry, History
from chaos.model.plan import Plan
from chaos.plan.first_save import first_save
from chaos.report.outcome import FinishedRun
from chaos.run.directory import FIRST_SAVE, INDEX, RunDirectory, room_in
from chaos.run.ports import Backend
from chaos.run.shown import shown


def execute(
    backend: Backend,
    plan: Plan,
    directory: RunDirectory,
    baseline: History | None,
    show: Callable[[Sequence[Entry]], None] = lambda _: None,
) -> None:
    """Execute a plan; its folder's journals keep the events, and `show` gets them as they come.

    Raises the backend's errors, and `HarnessError` if the disk is full.
    """
    with room_in(directory):
        prepare(plan, directory, baseline)
        backend.execute(plan, directory, show)


def prepare(plan: Plan, directory: RunDirectory, baseline: History | None) -> None:
    """Write what the processes of a run have to know of the baseline into its folder."""
    first = None if baseline is None or not plan.job.restart_args else first_save(baseline)
    if first is not None:
        directory.write(f"saves/{FIRST_SAVE}", first.model_dump_json())
    if plan.expect.align == "reports":
        directory.save_lengths(baseline)
        for rank, content in saved_indexes(baseline).items():
            directory.write(f"saves/{INDEX}{rank}.json", content)


def judged(
    directory: RunDirectory,
    plan: Plan,
    history: History,
    baseline: History | None,
    *,
    duration_s: float,
    others: Others | None = None,
) -> FinishedRun:
    """Return a run with its verdict, and the tables that it was judged by.

    `others`: the checks of other packages; left out, those that are installed. A run without a
    baseline is one itself: chaos's own checks alone decide whether it can serve as one.
    """
    if others is None:
        others = NO_OTHERS if baseline is None else other_checks()
    analysis = RunAnalysis(plan, history, baseline)
    return FinishedRun(
        plan=plan,
        env=directory.load_env(),
        history=history,
        baseline=baseline,
        verdict=judge_analysis(analysis, others),
        directory=shown(directory.path),
        duration_s=duration_s,
        judged=analysis,
    )
