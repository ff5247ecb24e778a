"""One run, for every caller: execute a plan in its folder, read its journals, judge it.

A suite, an audit, a self-test, a validation and pytest all use this module. Each keeps and shows of
a run what it needs.
"""

from collections.abc import Callable, Sequence

from chaos.check.analysis import RunAnalysis
from chaos.check.external_checks import ExternalChecks
from chaos.check.judge import NO_OTHERS, judge_analysis
from chaos.model.history import History, JournalEntry
from chaos.model.plan import Plan
from chaos.other_packages import load_external_checks
from chaos.plan.first_save import find_first_save
from chaos.report.outcome import FinishedRun
from chaos.resume.resume_place import serialize_indexes
from chaos.run.directory import FIRST_SAVE, INDEX_PREFIX, RunDirectory, explain_full_disk
from chaos.run.display_path import format_path
from chaos.run.ports import Backend


def execute(
    backend: Backend,
    plan: Plan,
    directory: RunDirectory,
    baseline: History | None,
    show: Callable[[Sequence[JournalEntry]], None] = lambda _: None,
) -> None:
    """Execute a plan; its folder's journals keep the events, and `show` gets them as they come.

    Raises the backend's errors, and `HarnessError` if the disk is full.
    """
    with explain_full_disk(directory):
        prepare(plan, directory, baseline)
        backend.execute(plan, directory, show)


def prepare(plan: Plan, directory: RunDirectory, baseline: History | None) -> None:
    """Write what the processes of a run have to know of the baseline into its folder."""
    earliest_save = (
        None if baseline is None or not plan.job.restart_args else find_first_save(baseline)
    )
    if earliest_save is not None:
        directory.write(f"saves/{FIRST_SAVE}", earliest_save.model_dump_json())
    if plan.expect.align == "reports":
        directory.save_lengths(baseline)
        for rank, content in serialize_indexes(baseline).items():
            directory.write(f"saves/{INDEX_PREFIX}{rank}.json", content)


def judge_run(
    directory: RunDirectory,
    plan: Plan,
    history: History,
    baseline: History | None,
    *,
    duration_s: float,
    external_checks: ExternalChecks | None = None,
) -> FinishedRun:
    """Return a run with its verdict, and the tables that it was judged by.

    `external_checks`: the checks of other packages; left out, those that are installed. A run
    without a baseline is one itself: chaos's own checks alone decide whether it can serve as one.
    """
    if external_checks is None:
        external_checks = NO_OTHERS if baseline is None else load_external_checks()
    analysis = RunAnalysis(plan, history, baseline)
    return FinishedRun(
        plan=plan,
        env=directory.load_env(),
        history=history,
        baseline=baseline,
        verdict=judge_analysis(analysis, external_checks),
        directory=format_path(directory.path),
        duration_s=duration_s,
        judged_analysis=analysis,
    )
