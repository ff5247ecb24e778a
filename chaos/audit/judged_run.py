"""The part of a judged run that an audit needs, whether it was judged here or on a node."""

from typing import NamedTuple, TypeAlias

from chaos.audit.folder import AuditFolder
from chaos.audit.looks import are_due
from chaos.audit.queue import Run
from chaos.audit.run_row import RunRow, run_rows
from chaos.errors import ClusterError, JobError
from chaos.extensions import other_checks
from chaos.job_failure import why_harmful
from chaos.model.history import Baseline
from chaos.report.outcome import FinishedRun
from chaos.run.directory import RunDirectory
from chaos.run.environment import own_code

Judges: TypeAlias = tuple[str, ...]


class JudgedRun(NamedTuple):
    """The rows of a run, and what else is to be done after it."""

    rows: tuple[RunRow, ...]
    #: it could not be judged for want of looks at the baseline
    lacks_looks: bool
    #: the job was kept from harming a file
    harm: JobError | None = None

    @classmethod
    def of(cls, run: Run, done: FinishedRun) -> "JudgedRun":
        """Return it for a run that was judged in this process."""
        return cls(run_rows(*run, done), are_due(done), why_harmful(done))

    @property
    def seconds(self) -> float:
        """The time of the run, of which each row has a part."""
        return sum(row.seconds for row in self.rows)


def judges() -> Judges:
    """Return what judges a run in this process: our code, and the checks of other packages."""
    return own_code(), *(f"{check.name} of {check.package}" for check in other_checks().installed)


def judged_there(
    directory: RunDirectory, seconds: float, baseline: Baseline, words: tuple[Run, Judges]
) -> JudgedRun:
    """Judge a run on the node of its lane, and write history and verdict into its folder there.

    Raises `ClusterError` if the run would be judged otherwise than on the harness's machine.
    """
    run, expected = words
    # A check that is not installed there is not missed by any result: a defect would pass.
    if judges() != expected:
        raise ClusterError(
            "a node of the cluster has another chaos than this machine, or other packages with "
            "checks for it",
            "Install the same ones on each node, or audit without --address.",
        )
    plan = directory.load_plan()
    done = AuditFolder(directory.path, {}).settle(directory, plan, baseline, seconds=seconds)
    return JudgedRun.of(run, done)
