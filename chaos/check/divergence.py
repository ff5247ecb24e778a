"""The place where a run first leaves its baseline, by anything that was compared."""

from collections.abc import Iterator

from chaos.check.analysis import RunAnalysis
from chaos.check.numbers import NumberComparison
from chaos.check.prediction_band import HIDDEN_MAX
from chaos.check.state_snapshots import differing
from chaos.check.values import NumberPair, Value
from chaos.model.events.state import group_of
from chaos.model.places import FloatPlace

_TEXT_MAX = 40


def divergence_place(analysis: RunAnalysis) -> FloatPlace | None:
    """Return the first place whose loss, metric, inputs or model differ; None without one."""
    return min(_places(analysis), default=None)


def _places(analysis: RunAnalysis) -> Iterator[FloatPlace]:
    first = divergence(analysis)
    if first is not None:
        yield first.place
    if analysis.inputs is not None and analysis.inputs.repeat:
        yield from (FloatPlace(apart.epoch, apart.first.step) for apart in analysis.inputs.apart)
    yield from _models(analysis)


def _models(analysis: RunAnalysis) -> Iterator[FloatPlace]:
    if analysis.reference is None:
        return
    due, allowance = analysis.reference.snapshots.by_place, analysis.allowance
    for place, seen in analysis.run.snapshots.by_place.items():
        theirs = due.get(place)
        if theirs is None or theirs.components == seen.components:
            continue
        if seen.attempt in analysis.resized:
            continue
        names = set(differing(seen, theirs, allowance)) - analysis.unstable
        if any(group_of(name) == "model" for name in names):
            # A model that differs at an entry left the baseline before its next step.
            yield FloatPlace(seen.epoch, seen.step + (0.5 if seen.moment == "entered" else 0))


def left_before(analysis: RunAnalysis, epoch: int, step: int) -> bool:
    """Return whether the run had left its baseline before a rank continued after this place."""
    where = divergence_place(analysis)
    return where is not None and where <= (epoch, step)


def divergence(analysis: RunAnalysis) -> NumberPair | None:
    """Return the first number that differs; None without one, or where that cannot be known."""
    comparison = analysis.comparison
    if comparison is None or analysis.too_few_for_a_band or no_control(analysis, comparison):
        return None
    return comparison.first


def difference(first: NumberPair) -> str:
    """Return in words how two numbers differ, with as many digits as it takes to see it."""
    ours, due = _digits(first.ours), _digits(first.baseline)
    if ours == due:
        ours, due = repr(first.ours), repr(first.baseline)
    part = "" if first.relative is None else f" ({100 * first.relative:.2g} %)"
    return f"{ours} instead of {due}{part}"


def _digits(value: Value) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str | bool):
        text = repr(value)
        return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"
    return f"{value:.4g}"


def no_control(analysis: RunAnalysis, comparison: NumberComparison) -> str | None:
    """Return why other losses prove nothing: nothing shows that the job repeats itself."""
    # The numbers before the run's first fault are the control (docs/notes, 2). If they are not the
    # baseline's, nothing that differs later is the fault's; without any, that cannot be known.
    # A wide band is no control either: a defect of a few percent would lie within it, and five runs
    # do not show the tails of a sixth.
    control = comparison.control
    remedy = "state `expect.band` or `expect.loss_tolerance`"
    if not analysis.plan.expect.is_exact:
        remedy = f"`expect.{stated_tolerance(analysis)}` is too narrow"
    if control.first is not None:
        at = control.first
        return (
            f"the job does not repeat itself here: before any fault {len(control.differing)} of "
            f"{control.compared} losses differ from the baseline's, first at epoch {at.epoch}, "
            f"step {at.step}, rank {at.rank}: {difference(at)}; {remedy}, or, if the baseline is "
            "out of date, list what the job reads in `job.inputs` or delete the folder "
            "`.baselines` under reports"
        )
    bands = analysis.allowance.bands
    if bands is not None and bands.hides[0] > HIDDEN_MAX and comparison.first is not None:
        at, usual = comparison.first, bands.hides[0]
        far = f"up to {100 * usual:.2g} % apart" if usual <= 1 else "too far apart to be compared"
        return (
            f"epoch {at.epoch} has {difference(at)}, and between {bands.runs} clean runs losses "
            f"lie {far}: so few runs do not show how far one "
            "more may lie; seed the job, or state `expect.loss_tolerance`"
        )
    if control.compared == 0 and comparison.losses.first is not None:
        return (
            "losses differ from the baseline's, and none was recorded before the fault that "
            "would show whether the job repeats itself here"
        )
    return None


def stated_tolerance(analysis: RunAnalysis) -> str:
    """Return the name of the setting of `expect` that sets the tolerance of a run."""
    return "band" if analysis.plan.expect.band is not None else "loss_tolerance"
