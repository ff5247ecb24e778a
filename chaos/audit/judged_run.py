"""The part of a judged run that an audit needs, whether it was judged here or on a node."""

from typing import NamedTuple, TypeAlias

from chaos.audit.folder import AuditFolder
from chaos.audit.run_row import RunRow, build_run_rows
from chaos.audit.site_queue import FaultRun
from chaos.errors import ClusterError, JobError
from chaos.job_failure import find_harm_error
from chaos.model.history import Baseline
from chaos.other_packages import load_external_checks
from chaos.report.outcome import FinishedRun
from chaos.run.directory import RunDirectory
from chaos.run.environment import digest_chaos_code

Judges: TypeAlias = tuple[str, ...]


def needs_extended_baseline(run: FinishedRun) -> bool:
    """Return whether a run could not be judged because no clean run recorded a step's state."""
    doubts = (doubt for result in run.verdict.undecided for doubt in result.doubts)
    return any(doubt.kind == "unwatched-step" for doubt in doubts)


class JudgedRun(NamedTuple):
    """The rows of a run, and what else is to be done after it."""

    rows: tuple[RunRow, ...]
    #: it could not be judged for want of looks at the baseline
    needs_extended_baseline: bool
    #: the job was kept from harming a file
    harm: JobError | None = None

    @classmethod
    def from_run(cls, run: FaultRun, finished_run: FinishedRun) -> "JudgedRun":
        """Return it for a run that was judged in this process."""
        return cls(
            build_run_rows(*run, finished_run),
            needs_extended_baseline(finished_run),
            find_harm_error(finished_run),
        )

    @property
    def seconds(self) -> float:
        """The time of the run, of which each row has a part."""
        return sum(row.seconds for row in self.rows)


def list_judges() -> Judges:
    """Return what judges a run in this process: our code, and the checks of other packages."""
    return digest_chaos_code(), *(
        f"{check.name} of {check.package}" for check in load_external_checks().installed
    )


def judge_on_node(
    directory: RunDirectory,
    seconds: float,
    baseline: Baseline,
    expectation: tuple[FaultRun, Judges],
) -> JudgedRun:
    """Judge a run on the node of its lane, and write history and verdict into its folder there.

    Raises `ClusterError` if the run would be judged otherwise than on the harness's machine.
    """
    run, expected_judges = expectation
    # A check that is not installed there is not missed by any result: a defect would pass.
    if list_judges() != expected_judges:
        raise ClusterError(
            "a node of the cluster has another chaos than this machine, or other packages with "
            "checks for it",
            "Install the same ones on each node, or audit without --address.",
        )
    plan = directory.load_plan()
    finished_run = AuditFolder(directory.path, {}).judge_journals(
        directory, plan, baseline, seconds=seconds
    )
    return JudgedRun.from_run(run, finished_run)
