"""The comparison of two runs without faults: does the job repeat itself?"""

import math
from collections.abc import Sequence
from pathlib import PurePath

from chaos.audit.job_profile import saves_of_training
from chaos.check.analysis import RunTables
from chaos.check.compare import Aligned
from chaos.check.divergence import difference
from chaos.check.files import series_of
from chaos.check.lineage import Lineage
from chaos.check.numbers import NumberComparison, Sides
from chaos.check.prediction_band import HIDDEN_MAX
from chaos.check.regrid import Grid
from chaos.check.steps import Step
from chaos.check.tolerance import EXACT, Bands
from chaos.model.event import FileSaveBegun, WroteOutside
from chaos.model.events.harness import REFUSED
from chaos.model.history import History
from chaos.model.places import RankName
from chaos.model.scenario import Profile
from chaos.record import Record
from chaos.words import plural


class Repetition(Record):
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

    def _band(self) -> str:
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
        apart = self.inputs_apart or self.reports_apart
        return self.losses_differing > 0 or apart is not None

    @property
    def is_alike(self) -> bool:
        """Whether one run can replace the other: report by report, or step by step."""
        return not self.differs or self.is_by_steps

    @property
    def is_settled(self) -> bool:
        """Whether they are alike, and no file of one run alone is why they share no place."""
        return self.is_alike and not self.is_of_one_run

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
            same = f"; step by step they agree in {losses} to the last bit"
            what = "reported or saved at other steps"
            return f"two clean runs {what}: {self.reports_apart}{same if self.is_by_steps else ''}"
        if self.losses_compared == 0:
            return "no loss was seen, so losses cannot be compared"
        if self.first is not None:
            return (
                f"{self.losses_differing} of {losses} differ between two clean runs: {self.first}"
                f"{self._band()}"
            )
        others = f"; not so: {', '.join(self.metrics_differing)}" if self.metrics_differing else ""
        return f"two clean runs agree in {losses} to the last bit{others}"


def hidden_part(profile: Profile, runs: Sequence[History]) -> float | None:
    """Return the share of a loss that a defect can change within the band of clean runs."""
    courses = [RunTables(history) for history in runs]
    bands = Bands.of(profile, [(tables.lineage, tables.snapshots) for tables in courses])
    usual, _ = bands.hides
    return usual if math.isfinite(usual) else None


def repetition(first: History, second: History) -> Repetition:
    """Compare the losses and metrics of two clean runs."""
    ours, theirs = RunTables(second), RunTables(first)
    reports_apart = _reports_apart(ours, theirs)
    if reports_apart is not None:
        found = _in_order(ours.lineage, theirs.lineage, reports_apart)
        is_of_one = theirs.reports_nothing and _is_of_one_run(ours, theirs)
        return found.model_copy(update={"is_of_one_run": is_of_one})
    whole = len(second)  # all of it was recorded before any fault
    sides = Sides.of(ours.attempts, ours.lineage, theirs.lineage, began=whole)
    comparison = NumberComparison.of(sides, allowance=EXACT, began=whole)
    apart = comparison.control.first
    place = None
    if apart is not None:
        place = f"epoch {apart.epoch}, step {apart.step}, rank {apart.rank}: {difference(apart)}"
    return Repetition(
        losses_compared=comparison.control.compared,
        losses_differing=len(comparison.control.differing),
        metrics_differing=comparison.not_compared,
        first=place,
        inputs_apart=_inputs_apart(sides.before),
    )


def _reports_apart(run: RunTables, other: RunTables) -> str | None:
    """Return the first report that lies at another step, if the number of steps is the same.

    Of a job that reports nothing, the first save.
    """
    ours, theirs = run.lineage, other.lineage
    # An epoch is what lies between two reports. Of a job that reports by the clock, the same steps
    # are then at other places in each run, and bit-identical losses "differed in 76 of 78". So runs
    # of as many steps are looked at first for where their reports came.
    if ours.steps_done != theirs.steps_done or not ours.steps_done:
        return None  # a run with more steps, or fewer, differs in another way
    one, two = len(theirs.commits), len(ours.commits)
    if one != two:
        return f"{plural(one, 'report')} in one, {two} in the other, over the same steps"
    what = "save" if other.reports_nothing else "report"
    for rank, epoch in sorted(set(ours.steps) | set(theirs.steps), key=lambda key: key[::-1]):
        mine, due = ours.count(rank, epoch), theirs.count(rank, epoch)
        if mine != due:
            return f"{what} {epoch} of rank {rank} came after {plural(due, 'step')}, and {mine}"
    return _save_apart(run, other) if other.reports_nothing else None


def _save_apart(run: RunTables, other: RunTables) -> str | None:
    """Return the first save that only one of two runs made, where epochs are counted by steps."""
    ours, theirs = ({(e.epoch, e.step, e.rank) for e in _saves(tables)} for tables in (run, other))
    apart = min(ours ^ theirs, default=None)
    if apart is None:
        return None
    epoch, step, rank = apart
    return f"rank {rank} saved after epoch {epoch}, step {step} in one of them alone"


def _saves(run: RunTables) -> list[FileSaveBegun]:
    """Return the saves of a run whose place says something about the job.

    Left out are saves beside training, whose files are closed when their thread comes to it, and
    files that the next run finds.
    """
    left = _left_in_place(run.history)
    saves = saves_of_training(run.history)
    return [e for e in saves if not e.is_beside and e.path not in left]


def _is_of_one_run(run: RunTables, other: RunTables) -> bool:
    """Return whether files that one run alone saves are all that is saved at other steps."""
    ours, theirs = _series(run), _series(other)
    # A cache that the first run of all makes is saved by it alone. Files of both that come at other
    # steps are a job's that saves by the clock, which is another finding.
    shared = ours.keys() & theirs.keys()
    return ours != theirs and all(ours[series] == theirs[series] for series in shared)


def _series(run: RunTables) -> dict[RankName, list[int]]:
    """Return the steps done before each save, by rank and by name with `#` for its numbers."""
    grid, found = Grid.of(run.history), dict[RankName, list[int]]()
    for e in _saves(run):
        done = grid.done_at(e.rank, e.epoch, e.step)
        found.setdefault(RankName(e.rank, series_of(PurePath(e.path).name)), []).append(done)
    return found


def _left_in_place(history: History) -> frozenset[str]:
    """Return the files that a run made or changed, and that the next run finds."""
    wrote = (event for _, event in history.of(WroteOutside))
    return frozenset(w.path for w in wrote if not w.removed and w.how not in REFUSED)


def made_by_the_first(first: History, later: History) -> list[str]:
    """Return the files that the first run of all made and left, where a later one made none."""
    ours, theirs = _left_in_place(first), _left_in_place(later)
    return [] if theirs - ours else sorted(ours - theirs)


def _in_order(ours: Lineage, theirs: Lineage, reports_apart: str) -> Repetition:
    """Compare losses and inputs in the order of steps, without regard to reports."""
    pairs = [
        (step, due)
        for rank in theirs.ranks
        # Epochs by the clock differ; the number of steps that a rank has made in all does not.
        for step, due in zip(_steps(ours, rank), _steps(theirs, rank), strict=False)
    ]
    losses = [(step.losses or (), due.losses or ()) for step, due in pairs]
    fed = [(step.inputs, due.inputs, step) for step, due in pairs if step.inputs and due.inputs]
    others = (step for given, due, step in fed if given != due)
    return Repetition(
        losses_compared=sum(max(len(mine), len(due)) for mine, due in losses),
        losses_differing=sum(max(len(mine), len(due)) for mine, due in losses if mine != due),
        metrics_differing=(),
        first=None,
        inputs_apart=next(map(_other_inputs, others), None),
        reports_apart=reports_apart,
    )


def _steps(lineage: Lineage, rank: int) -> list[Step]:
    epochs = lineage.epochs.get(rank, ())
    return [step for epoch in epochs for step in lineage.steps_of(rank, epoch)]


def _inputs_apart(steps: Sequence[Aligned]) -> str | None:
    for group in (group for group in steps if not group.has_equal_inputs):
        for ours, due in group.pairs():
            if due is None or ours.inputs is None or due.inputs is None:
                continue
            if ours.inputs != due.inputs:
                return _other_inputs(ours)
    return None


def _other_inputs(step: Step) -> str:
    return f"epoch {step.epoch}, step {step.step}, rank {step.rank}: other inputs"
