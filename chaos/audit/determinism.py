"""The comparison of two runs without faults: does the job repeat itself?"""

import math
from collections.abc import Sequence
from pathlib import PurePath

from chaos.audit.job_profile import find_training_saves
from chaos.check.analysis import RunTables
from chaos.check.compare import AlignedSteps
from chaos.check.divergence import describe_difference
from chaos.check.numbers import AlignedRuns, NumberComparison
from chaos.check.prediction_band import HIDDEN_MAX
from chaos.check.tolerance import EXACT, PredictionBands
from chaos.model.event import FileSaveBegun, WroteOutside
from chaos.model.events.harness import REFUSED
from chaos.model.expect import Profile
from chaos.model.history import History
from chaos.model.places import RankName
from chaos.record import Record
from chaos.resume.files import mask_path_numbers
from chaos.resume.lineage import Lineage
from chaos.resume.regrid import ReportGrid
from chaos.resume.steps import Step
from chaos.wording import plural


class CleanRunComparison(Record):
    """The comparison of two clean runs.

    If reports come at other steps, an epoch lies between two of them: then the runs share no place,
    and are compared step by step.
    """

    losses_compared: int
    losses_differing: int
    #: the metrics that differ (such as a wall-clock time): no evidence against the job
    metrics_differing: tuple[str, ...]
    #: the place at which their losses part
    first: str | None
    #: if losses differ, the share of a loss that a defect can change within the band of all clean
    #: runs, as the median over steps
    hidden_part: float | None = None
    #: the first place with other data
    inputs_apart: str | None = None
    #: the first of the reports (without reports, saves) that came at another step, as of a job that
    #: saves by the clock
    reports_apart: str | None = None
    #: no file that both save comes at other steps; one run alone saves some file, such as a cache
    #: that the first run of all makes
    is_of_one_run: bool = False

    @property
    def hides_much(self) -> bool:
        """Whether a defect can move a loss by more than a few percent unseen."""
        return self.losses_differing > 0 and (self.hidden_part or HIDDEN_MAX + 1) > HIDDEN_MAX

    def _describe_band(self) -> str:
        if self.hidden_part is None:
            return ""
        if self.hidden_part > 1:
            return "; five clean runs differ so much that losses cannot be compared"
        return (
            "; judged by the band of five clean runs, in which a defect that moves a loss by less "
            f"than {100 * self.hidden_part:.2g} % is not seen"
        )

    @property
    def differs(self) -> bool:
        """Whether losses, inputs or the places of reports differ."""
        first_difference = self.inputs_apart or self.reports_apart
        return self.losses_differing > 0 or first_difference is not None

    @property
    def is_equivalent(self) -> bool:
        """Whether one run can replace the other: report by report, or step by step."""
        return not self.differs or self.is_by_steps

    @property
    def is_settled(self) -> bool:
        """Whether they are alike, and no file of one run alone is why they share no place."""
        return self.is_equivalent and not self.is_of_one_run

    @property
    def is_by_steps(self) -> bool:
        """Whether the runs report at other steps, but are equal step by step."""
        is_same = self.is_deterministic and self.inputs_apart is None
        return self.reports_apart is not None and is_same

    @property
    def is_exact(self) -> bool:
        """Whether the runs are equal to the last bit, report by report."""
        return self.is_deterministic and not self.differs

    @property
    def is_deterministic(self) -> bool:
        """Whether every loss is equal to the last bit."""
        return self.losses_compared > 0 and self.losses_differing == 0

    def __str__(self) -> str:
        losses = plural(self.losses_compared, "loss", "losses")
        if self.reports_apart is not None:
            agreement = f"; step by step they agree in {losses} to the last bit"
            event = "reported or saved at other steps"
            return (
                f"two clean runs {event}: "
                f"{self.reports_apart}{agreement if self.is_by_steps else ''}"
            )
        if self.losses_compared == 0:
            return "no loss was seen, so losses cannot be compared"
        if self.first is not None:
            return (
                f"{self.losses_differing} of {losses} differ between two clean runs: {self.first}"
                f"{self._describe_band()}"
            )
        metrics_text = (
            f"; not so: {', '.join(self.metrics_differing)}" if self.metrics_differing else ""
        )
        return f"two clean runs agree in {losses} to the last bit{metrics_text}"


def measure_hidden_part(profile: Profile, runs: Sequence[History]) -> float | None:
    """Return the share of a loss that a defect can change within the band of clean runs."""
    run_tables = [RunTables(history) for history in runs]
    bands = PredictionBands.from_runs(
        profile, [(tables.lineage, tables.snapshots) for tables in run_tables]
    )
    median_part, _ = bands.hidden_loss_errors
    return median_part if math.isfinite(median_part) else None


def compare_clean_runs(first_history: History, second_history: History) -> CleanRunComparison:
    """Compare the losses and metrics of two clean runs."""
    second_tables, first_tables = RunTables(second_history), RunTables(first_history)
    report_difference = _find_report_difference(second_tables, first_tables)
    if report_difference is not None:
        step_comparison = _compare_by_steps(
            second_tables.lineage, first_tables.lineage, report_difference
        )
        is_one_sided = first_tables.has_no_reports and _has_one_sided_files(
            second_tables, first_tables
        )
        return step_comparison.replace(is_of_one_run=is_one_sided)
    entry_count = len(second_history)  # all of it was recorded before any fault
    sides = AlignedRuns.from_lineages(
        second_tables.attempts, second_tables.lineage, first_tables.lineage, first_fault=entry_count
    )
    comparison = NumberComparison.from_runs(sides, allowance=EXACT, first_fault=entry_count)
    first_difference = comparison.control.earliest_pair
    training_place = None
    if first_difference is not None:
        training_place = (
            f"epoch {first_difference.epoch}, step {first_difference.step}, rank "
            f"{first_difference.rank}: {describe_difference(first_difference)}"
        )
    return CleanRunComparison(
        losses_compared=comparison.control.compared_count,
        losses_differing=len(comparison.control.differing_pairs),
        metrics_differing=comparison.unstable_metrics,
        first=training_place,
        inputs_apart=_find_input_difference(sides.control_steps),
    )


def _find_report_difference(run: RunTables, other_run: RunTables) -> str | None:
    """Return the first report that lies at another step, if the number of steps is the same.

    Of a job that reports nothing, the first save.
    """
    lineage, other_lineage = run.lineage, other_run.lineage
    # An epoch is what lies between two reports. Of a job that reports by the clock, the same steps
    # are then at other places in each run, and bit-identical losses "differed in 76 of 78". So runs
    # of as many steps are looked at first for where their reports came.
    if lineage.step_count != other_lineage.step_count or not lineage.step_count:
        return None  # a run with more steps, or fewer, differs in another way
    other_count, run_count = len(other_lineage.commits), len(lineage.commits)
    if other_count != run_count:
        return (
            f"{plural(other_count, 'report')} in one, {run_count} in the other, over the same steps"
        )
    event_name = "save" if other_run.has_no_reports else "report"
    for rank, epoch in sorted(
        set(lineage.steps) | set(other_lineage.steps), key=lambda key: key[::-1]
    ):
        steps, other_steps = (
            lineage.count_steps(rank, epoch),
            other_lineage.count_steps(rank, epoch),
        )
        if steps != other_steps:
            return (
                f"{event_name} {epoch} of rank {rank} came after {plural(other_steps, 'step')}, "
                f"and {steps}"
            )
    return _find_save_difference(run, other_run) if other_run.has_no_reports else None


def _find_save_difference(run: RunTables, other_run: RunTables) -> str | None:
    """Return the first save that only one of two runs made, where epochs are counted by steps."""
    run_saves, other_saves = (
        {(e.epoch, e.step, e.rank) for e in _find_saves(tables)} for tables in (run, other_run)
    )
    differing_save = min(run_saves ^ other_saves, default=None)
    if differing_save is None:
        return None
    epoch, step, rank = differing_save
    return f"rank {rank} saved after epoch {epoch}, step {step} in one of them alone"


def _find_saves(run: RunTables) -> list[FileSaveBegun]:
    """Return the saves of a run whose place says something about the job.

    Left out are saves beside training, whose files are closed when their thread comes to it, and
    files that the next run finds.
    """
    left_files = _find_left_files(run.history)
    saves = find_training_saves(run.history)
    return [e for e in saves if not e.is_beside and e.path not in left_files]


def _has_one_sided_files(run: RunTables, other_run: RunTables) -> bool:
    """Return whether files that one run alone saves are all that is saved at other steps."""
    run_series, other_series = _group_save_steps(run), _group_save_steps(other_run)
    # A cache that the first run of all makes is saved by it alone. Files of both that come at other
    # steps are a job's that saves by the clock, which is another finding.
    shared_names = run_series.keys() & other_series.keys()
    return run_series != other_series and all(
        run_series[series] == other_series[series] for series in shared_names
    )


def _group_save_steps(run: RunTables) -> dict[RankName, list[int]]:
    """Return the steps done before each save, by rank and by name with `#` for its numbers."""
    grid, steps_by_file = ReportGrid.from_history(run.history), dict[RankName, list[int]]()
    for e in _find_saves(run):
        step_count = grid.count_steps(e.rank, e.epoch, e.step)
        steps_by_file.setdefault(
            RankName(e.rank, mask_path_numbers(PurePath(e.path).name)), []
        ).append(step_count)
    return steps_by_file


def _find_left_files(history: History) -> frozenset[str]:
    """Return the files that a run made or changed, and that the next run finds."""
    writes = (event for _, event in history.select_events(WroteOutside))
    return frozenset(
        write.path for write in writes if not write.removed and write.operation not in REFUSED
    )


def find_first_run_files(first_history: History, later_history: History) -> list[str]:
    """Return the files that the first run of all made and left, where a later one made none."""
    first_files, later_files = _find_left_files(first_history), _find_left_files(later_history)
    return [] if later_files - first_files else sorted(first_files - later_files)


def _compare_by_steps(
    lineage: Lineage, expected_lineage: Lineage, report_difference: str
) -> CleanRunComparison:
    """Compare losses and inputs in the order of steps, without regard to reports."""
    pairs = [
        (step, expected)
        for rank in expected_lineage.ranks
        # Epochs by the clock differ; the number of steps that a rank has made in all does not.
        for step, expected in zip(
            _list_steps(lineage, rank), _list_steps(expected_lineage, rank), strict=False
        )
    ]
    loss_pairs = [(step.losses or (), expected.losses or ()) for step, expected in pairs]
    input_pairs = [
        (step.inputs, expected.inputs, step)
        for step, expected in pairs
        if step.inputs and expected.inputs
    ]
    differing_steps = (step for run_pairs, expected, step in input_pairs if run_pairs != expected)
    return CleanRunComparison(
        losses_compared=sum(
            max(len(run_value), len(expected)) for run_value, expected in loss_pairs
        ),
        losses_differing=sum(
            max(len(run_value), len(expected))
            for run_value, expected in loss_pairs
            if run_value != expected
        ),
        metrics_differing=(),
        first=None,
        inputs_apart=next(map(_describe_inputs, differing_steps), None),
        reports_apart=report_difference,
    )


def _list_steps(lineage: Lineage, rank: int) -> list[Step]:
    epochs = lineage.epochs_by_rank.get(rank, ())
    return [step for epoch in epochs for step in lineage.select_steps(rank, epoch)]


def _find_input_difference(steps: Sequence[AlignedSteps]) -> str | None:
    for group in (group for group in steps if not group.has_equal_inputs):
        for step, expected in group.pairs():
            if expected is None or step.inputs is None or expected.inputs is None:
                continue
            if step.inputs != expected.inputs:
                return _describe_inputs(step)
    return None


def _describe_inputs(step: Step) -> str:
    return f"epoch {step.epoch}, step {step.step}, rank {step.rank}: other inputs"
