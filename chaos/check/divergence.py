"""The place where a run first leaves its baseline, by anything that was compared."""

from collections.abc import Iterator

from chaos.check.analysis import RunAnalysis
from chaos.check.numbers import NumberComparison
from chaos.check.prediction_band import HIDDEN_MAX
from chaos.check.values import NumberPair, Value
from chaos.model.events.state import find_group
from chaos.model.places import SortablePlace
from chaos.resume.state_snapshots import find_differing_parts

_TEXT_MAX = 40


def find_divergence_place(analysis: RunAnalysis) -> SortablePlace | None:
    """Return the first place whose loss, metric, inputs or model differ; None without one."""
    return min(_find_differing_places(analysis), default=None)


def find_unequal_place(analysis: RunAnalysis) -> SortablePlace | None:
    """Return the place where the run first leaves its baseline, even by rounding alone."""
    differing_losses: list[SortablePlace] = [
        SortablePlace(step.epoch, step.step)
        for group in analysis.aligned_steps
        if not group.has_equal_losses
        for step, baseline_step in group.pairs()
        if baseline_step is None or step.losses != baseline_step.losses
    ]
    other_divergence = find_divergence_place(analysis)
    return min(
        [*differing_losses, *([other_divergence] if other_divergence is not None else [])],
        default=None,
    )


def _find_differing_places(analysis: RunAnalysis) -> Iterator[SortablePlace]:
    differing_number = find_divergence(analysis)
    if differing_number is not None:
        yield differing_number.training_place
    if analysis.inputs is not None and analysis.inputs.is_repeatable:
        yield from (
            SortablePlace(difference.epoch, difference.first_step.step)
            for difference in analysis.inputs.differing_epochs
        )
    yield from _find_differing_models(analysis)


def _find_differing_models(analysis: RunAnalysis) -> Iterator[SortablePlace]:
    if analysis.reference is None:
        return
    baseline_snapshots, allowance = (
        analysis.reference.snapshots.latest_snapshots,
        analysis.allowance,
    )
    for state_place, run_snapshot in analysis.run.snapshots.latest_snapshots.items():
        baseline_snapshot = baseline_snapshots.get(state_place)
        if baseline_snapshot is None or baseline_snapshot.components == run_snapshot.components:
            continue
        if run_snapshot.attempt in analysis.resized_attempts:
            continue
        names = (
            set(find_differing_parts(run_snapshot, baseline_snapshot, allowance))
            - analysis.unstable_components
        )
        if any(find_group(name) == "model" for name in names):
            # A model that differs at an entry left the baseline before its next step.
            yield SortablePlace(
                run_snapshot.epoch,
                run_snapshot.step + (0.5 if run_snapshot.moment == "entered" else 0),
            )


def has_diverged(analysis: RunAnalysis, epoch: int, step: int) -> bool:
    """Return whether the run had left its baseline before a rank continued after this place."""
    differing_place = find_divergence_place(analysis)
    return differing_place is not None and differing_place <= (epoch, step)


def find_divergence(analysis: RunAnalysis) -> NumberPair | None:
    """Return the first number that differs; None without one, or where that cannot be known."""
    comparison = analysis.comparison
    if (
        comparison is None
        or analysis.no_band_reason
        or explain_missing_control(analysis, comparison)
    ):
        return None
    return comparison.earliest_difference


def describe_difference(pair: NumberPair) -> str:
    """Return in words how two numbers differ, with as many digits as it takes to see it."""
    run_text, baseline_text = _format_value(pair.run_value), _format_value(pair.baseline_value)
    if run_text == baseline_text:
        run_text, baseline_text = repr(pair.run_value), repr(pair.baseline_value)
    relative_text = (
        "" if pair.relative_difference is None else f" ({100 * pair.relative_difference:.2g} %)"
    )
    return f"{run_text} instead of {baseline_text}{relative_text}"


def _format_value(value: Value) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str | bool):
        text = repr(value)
        return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"
    return f"{value:.4g}"


def explain_missing_control(analysis: RunAnalysis, comparison: NumberComparison) -> str | None:
    """Return why other losses prove nothing: nothing shows that the job repeats itself."""
    # The numbers before the run's first fault are the control (docs/notes, 2). If they are not the
    # baseline's, nothing that differs later is the fault's; without any, that cannot be known.
    # A wide band is no control either: a defect of a few percent would lie within it, and five runs
    # do not show the tails of a sixth.
    control = comparison.control
    remedy = "state `expect.band` or `expect.loss_tolerance`"
    if not analysis.plan.expect.is_exact:
        remedy = f"`expect.{find_tolerance_setting(analysis)}` is too narrow"
    if control.earliest_pair is not None:
        differing_pair = control.earliest_pair
        return (
            f"the job does not repeat itself here: before any fault "
            f"{len(control.differing_pairs)} of "
            f"{control.compared_count} losses differ from the baseline's, first at epoch "
            f"{differing_pair.epoch}, "
            f"step {differing_pair.step}, rank {differing_pair.rank}: "
            f"{describe_difference(differing_pair)}; {remedy}, or, if the baseline is "
            "out of date, list what the job reads in `job.inputs` or delete the folder "
            "`.baselines` under reports"
        )
    bands = analysis.allowance.bands
    if (
        bands is not None
        and bands.hidden_loss_errors[0] > HIDDEN_MAX
        and comparison.earliest_difference is not None
    ):
        differing_pair, usual_difference = (
            comparison.earliest_difference,
            bands.hidden_loss_errors[0],
        )
        distance_text = (
            f"up to {100 * usual_difference:.2g} % apart"
            if usual_difference <= 1
            else "too far apart to be compared"
        )
        return (
            f"epoch {differing_pair.epoch} has {describe_difference(differing_pair)}, and "
            f"between {bands.runs} clean runs losses "
            f"lie {distance_text}: so few runs do not show how far one "
            "more may lie; seed the job, or state `expect.loss_tolerance`"
        )
    if control.compared_count == 0 and comparison.losses.earliest_pair is not None:
        return (
            "losses differ from the baseline's, and none was recorded before the fault that "
            "would show whether the job repeats itself here"
        )
    return None


def find_tolerance_setting(analysis: RunAnalysis) -> str:
    """Return the name of the setting of `expect` that sets the tolerance of a run."""
    return "band" if analysis.plan.expect.band is not None else "loss_tolerance"
