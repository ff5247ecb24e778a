"""The check of every surviving number and part of the state."""

import math
from collections.abc import Iterator

from chaos.check.analysis import RunAnalysis
from chaos.check.divergence import (
    describe_difference,
    explain_missing_control,
    find_tolerance_setting,
)
from chaos.check.fix_hints import describe_value
from chaos.check.numbers import TOGETHER, NumberComparison, find_largest_difference
from chaos.check.result import (
    Measures,
    builtin_check,
    conclude,
    describe_resized_steps,
    inconclusive,
    not_applicable,
)
from chaos.check.state_at_resume import SHIPPED
from chaos.check.state_comparison import StateComparison, compare_states
from chaos.check.values import NumberPair
from chaos.model.events.state import find_group
from chaos.model.launcher import LauncherWords
from chaos.model.verdict import Anomaly, CheckResult
from chaos.wording import describe_ranks, plural

TRAJECTORY = "trajectory"


@builtin_check(
    TRAJECTORY,
    asks="Did training come out the same, number by number and part by part of the state?",
)
def check_trajectory(analysis: RunAnalysis) -> CheckResult:
    """Require that every surviving loss, metric and part of the state equals the baseline's.

    The promise of the trajectory. Equal means to the last bit, or within `expect.loss_tolerance`,
    or within the band that five baselines show (`expect.band`); a bound alone would hide a lost RNG
    state (0.08 % of the loss where it was measured). The numbers before the fault are the control:
    if losses differ there already, the job does not repeat here and nothing follows; a metric that
    differs there is left out by name. Inconclusive where a metric that was not reported there
    differs, and where nothing of a resumed attempt was compared, or the band is wide: five runs do
    not show how far a sixth one may lie.

    A rank of an attempt with another number of workers has no counterpart in the baseline. Where
    all ranks together saw the baseline's samples at a step, the summary tells how near their mean
    loss is to its, and `expect.loss_tolerance` is required of it.

    Where all numbers are equal, the state beneath them may still be another: a model that was
    averaged otherwise is used after the last loss. What lasts (the model, its average, what the job
    declares) is compared where equality to the last bit is required; another part that differs
    beneath an equal model is noted in the summary.
    """
    if not analysis.plan.ops:
        return not_applicable(TRAJECTORY, "no fault was planned, so there is nothing to compare")
    comparison = analysis.comparison
    if comparison is None:
        return inconclusive(TRAJECTORY, f"{analysis.no_baseline_reason} to compare with")
    compared_count = comparison.losses.compared_count + comparison.metrics.compared_count
    if analysis.allowance.stated is not None:
        compared_count += comparison.mean_losses.compared_count
    if comparison.resized_steps and not compared_count:
        return not_applicable(TRAJECTORY, describe_resized_steps(analysis).removeprefix("; "))
    control_doubt = analysis.no_band_reason or explain_missing_control(analysis, comparison)
    doubts = [control_doubt] if control_doubt else [*_find_number_doubts(analysis, comparison)]
    first_difference = None if control_doubt else comparison.earliest_difference
    states = None if control_doubt else compare_states(analysis)
    anomalies = list[Anomaly]()
    if first_difference is not None:
        anomalies += [
            Anomaly(
                message=_describe_difference(first_difference, comparison),
                events=(first_difference.number,),
            )
        ]
    if states is not None and not anomalies:
        lasting_states = states.select_groups(SHIPPED)
        anomalies += _find_state_anomalies(lasting_states, analysis.terms)
        doubts += _find_state_doubts(lasting_states)
    return conclude(
        TRAJECTORY,
        anomalies=anomalies,
        doubts=doubts,
        evidence=compared_count,
        summary=_summarize(analysis, comparison, states),
        measures={
            **_collect_measures(comparison),
            **_measure_states(states),
            **_measure_hidden_errors(analysis, comparison),
        },
    )


def _find_state_anomalies(states: StateComparison, terms: LauncherWords) -> Iterator[Anomaly]:
    first_pairs = states.earliest_differences
    if not first_pairs:
        return
    name, group = first_pairs[0].expected.name, find_group(first_pairs[0].expected.name)
    run_text, baseline_text = (
        describe_value(first_pairs[0].actual, group),
        describe_value(first_pairs[0].expected, group),
    )
    values = (
        f"{run_text} instead of {baseline_text}"
        if run_text != baseline_text
        else "not the same to the last bit"
    )
    ranks_text = describe_ranks([pair.state_place[0] for pair in first_pairs])
    other_names = sorted({pair.expected.name for pair in states.differing} - {name})
    others_text = f", and so do {', '.join(other_names)}" if other_names else ""
    yield Anomaly(
        message=f"from {terms.describe_place(*first_pairs[0].state_place[1:])} on "
        f"({ranks_text}) {name} differs from the "
        f"baseline's although no loss and no metric does: {values}{others_text}; "
        f"{len(states.differing)} of {states.compared} differ",
        events=tuple(pair.number for pair in first_pairs),
        parts=(name, *other_names),
    )


def _find_state_doubts(states: StateComparison) -> Iterator[str]:
    if states.unproven:
        names = ", ".join(sorted(states.unproven))
        yield (
            f"{names} of the state differ from the baseline's after the fault, and nothing before "
            "it shows whether they repeat themselves"
        )
    if states.missing:
        names = ", ".join(sorted(states.missing))
        yield f"{names} of the state was seen in the baseline, and not at the same places here"


def _find_number_doubts(analysis: RunAnalysis, comparison: NumberComparison) -> Iterator[str]:
    for attempt in comparison.silent_attempts:
        yield f"nothing that attempt {attempt} did could be compared with the baseline's"
    if not comparison.unproven_metrics:
        return
    names = ", ".join(f"`{name}`" for name in comparison.unproven_metrics)
    event_word = "restart" if analysis.restarts else "fault"
    is_one = len(comparison.unproven_metrics) == 1
    differ, repeat = ("differs", "it repeats itself") if is_one else ("differ", "they repeat")
    yield (
        f"{names} {differ} from the baseline's after the {event_word}, and no report before the "
        f"fault "
        f"shows whether {repeat}; what need not repeat can be listed in "
        "`expect.ignore_metrics`"
    )


def _describe_difference(first: NumberPair, comparison: NumberComparison) -> str:
    place_text = f"epoch {first.epoch}" + ("" if first.step is None else f", step {first.step}")
    value_text = f"metric `{first.value_name}`" if first.step is None else first.value_name
    tally = comparison.metrics if first.step is None else comparison.losses
    rank_text = f" (rank {first.rank})"
    if first.value_name == TOGETHER:
        tally, rank_text = comparison.mean_losses, ""
    largest_difference = find_largest_difference(tally)
    range_text = f", by up to {largest_difference:.3g}" if largest_difference else ""
    return (
        f"from {place_text} on{rank_text} the {value_text} differs from the baseline's: "
        f"{describe_difference(first)}; {len(tally.differing_pairs)} of {tally.compared_count} "
        f"differ{range_text}"
    )


def _summarize(
    analysis: RunAnalysis, comparison: NumberComparison, states: StateComparison | None
) -> str:
    exactness = "to the last bit"
    if not analysis.plan.expect.is_exact:
        exactness = f"within expect.{find_tolerance_setting(analysis)}"
    losses = plural(comparison.losses.compared_count, "loss", "losses")
    metrics = plural(comparison.metrics.compared_count, "metric value")
    unmatched = comparison.unpaired_steps
    notes = f"; {plural(unmatched, 'step')} could not be compared" if unmatched else ""
    notes += describe_resized_steps(analysis)
    if (bands := analysis.allowance.bands) is not None:
        median_error, largest_error = bands.hidden_loss_errors
        notes += (
            f"; a defect that moves a loss by less than {median_error:.2g} of it "
            f"(at most {largest_error:.2g}) would not be seen"
            if not median_error > 1
            else "; clean runs differ so much that losses cannot be compared"
        )
        if hidden_metrics := _describe_hidden_metrics(analysis, comparison):
            notes += f", nor one that moves {', '.join(hidden_metrics)}"
    if states is not None and states.differing:
        names = ", ".join(sorted({unmatched.expected.name for unmatched in states.differing}))
        notes += f"; {names} of the state differ, and nothing that lasts follows from it"
    compared_text = f"{losses} and {metrics}"
    if states is not None and states.compared:
        compared_text = f"{losses}, {metrics} and {plural(states.compared, 'part')} of the state"
    elif states is None and analysis.run.snapshots.part_names:
        notes += "; the state, which need not be the same there, is compared at resumes alone"
    return f"{compared_text} equal the baseline's {exactness}{notes}"


def _measure_states(states: StateComparison | None) -> Measures:
    if states is None:
        return {}
    return {"parts_compared": states.compared, "parts_differing": len(states.differing)}


def _measure_hidden_errors(analysis: RunAnalysis, comparison: NumberComparison) -> Measures:
    """Return the size of a defect that the band would hide, as a part of a loss."""
    bands = analysis.allowance.bands
    if bands is None:
        return {}
    median_error, largest_error = bands.hidden_loss_errors
    return {
        "band_runs": bands.runs,
        "hidden_relative_median": _drop_infinite(median_error),
        "hidden_relative_max": _drop_infinite(largest_error),
        "hidden_of_metrics": ", ".join(_describe_hidden_metrics(analysis, comparison)) or None,
    }


def _describe_hidden_metrics(analysis: RunAnalysis, comparison: NumberComparison) -> list[str]:
    """Return in words by how much each compared metric can be off within the band."""
    bands = analysis.allowance.bands
    excluded_metrics = {
        *comparison.unstable_metrics,
        *comparison.unproven_metrics,
        *comparison.ignored_metrics,
    }
    hidden_errors = {} if bands is None else bands.hidden_metric_errors
    return [
        f"`{name}` by {error:.2g}"
        for name, error in hidden_errors.items()
        if name not in excluded_metrics
    ]


def _drop_infinite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _collect_measures(comparison: NumberComparison) -> Measures:
    return {
        "losses_compared": comparison.losses.compared_count,
        "losses_differing": len(comparison.losses.differing_pairs),
        "loss_difference_max": find_largest_difference(comparison.losses),
        "metrics_compared": comparison.metrics.compared_count,
        "metrics_differing": len(comparison.metrics.differing_pairs),
        "metrics_not_compared": ", ".join(comparison.unstable_metrics) or None,
        "metrics_without_control": ", ".join(comparison.unproven_metrics) or None,
        "metrics_ignored": ", ".join(comparison.ignored_metrics) or None,
        "steps_not_compared": comparison.unpaired_steps + comparison.resized_steps,
        "control_losses": comparison.control.compared_count,
        "mean_losses_of_other_sizes": comparison.mean_losses.compared_count,
        "mean_losses_relative_difference_max": comparison.mean_loss_difference,
    }
