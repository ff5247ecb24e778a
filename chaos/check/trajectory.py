"""The check of every surviving number and part of the state."""

import math
from collections.abc import Iterator

from chaos.check.analysis import RunAnalysis
from chaos.check.anomaly import build_anomaly
from chaos.check.compare import PairTally
from chaos.check.divergence import explain_missing_control, find_tolerance_setting
from chaos.check.kinds.trajectory import (
    NumberFacts,
    NumbersDiffer,
    NumbersDifferAtResume,
    NumbersDifferEarlier,
    NumbersDifferLater,
    NumberType,
    StateDiffersAlone,
)
from chaos.check.numbers import TOGETHER, NumberComparison, find_largest_difference
from chaos.check.part_facts import build_part_value
from chaos.check.result import (
    Measures,
    builtin_check,
    conclude,
    describe_resized_steps,
    inconclusive,
    not_applicable,
)
from chaos.check.state_comparison import StateComparison, compare_states
from chaos.check.values import PASSES, NumberPair
from chaos.model.launcher_facts import LauncherWords
from chaos.model.verdict import Anomaly, CheckResult
from chaos.resume.state_at_resume import SHIPPED
from chaos.wording import plural

TRAJECTORY = "trajectory"


@builtin_check(
    TRAJECTORY,
    asks="Did training come out the same, number by number and part by part of the state?",
)
def check_trajectory(analysis: RunAnalysis) -> CheckResult:
    """Require that every surviving loss, metric and part of the state equals the baseline's.

    Equal means to the last bit, or within `expect.loss_tolerance`, or within the band that five
    baselines show (`expect.band`). A bound alone would hide a lost RNG state (0.08 % of the loss
    where it was measured). The numbers before the fault are the control: if losses differ there
    already, nothing follows; a metric that differs there is left out by name. Inconclusive where a
    metric that was not reported there differs, where nothing of a resumed attempt was compared, or
    where the band is too wide.

    A rank of an attempt with another number of workers has no counterpart in the baseline. Where
    all ranks together saw the baseline's samples at a step, the summary tells how near their mean
    loss is to its, and `expect.loss_tolerance` is required of it.

    Where all numbers are equal, the state beneath them may still be another. What lasts (the model,
    its average, what the job declares) is compared where equality to the last bit is required.
    Another part that differs beneath an equal model is noted in the summary.
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
        anomalies.append(
            build_anomaly(
                _build_number_facts(analysis, first_difference, comparison),
                analysis.launcher_words,
                events=(first_difference.number,),
            )
        )
    if states is not None and not anomalies:
        lasting_states = states.select_groups(SHIPPED)
        anomalies += _find_state_anomalies(lasting_states, analysis.launcher_words)
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
    first_pair = first_pairs[0]
    name = first_pair.expected.name
    _, epoch, step, moment = first_pair.state_place
    other_names = sorted({pair.expected.name for pair in states.differing} - {name})
    facts = StateDiffersAlone(
        name,
        tuple(sorted({pair.state_place.rank for pair in first_pairs})),
        epoch,
        step,
        moment,
        value=build_part_value(first_pair.actual),
        expected_value=build_part_value(first_pair.expected),
        other_parts=tuple(other_names),
        differing_count=len(states.differing),
        compared_count=states.compared,
    )
    yield build_anomaly(
        facts,
        terms,
        events=(pair.number for pair in first_pairs),
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


def _build_number_facts(
    analysis: RunAnalysis, first_pair: NumberPair, comparison: NumberComparison
) -> NumberFacts:
    number_type, tally = _classify_number(first_pair, comparison)
    return _choose_number_kind(analysis, first_pair)(
        number_type,
        first_pair,
        len(tally.differing_pairs),
        tally.compared_count,
        find_largest_difference(tally),
    )


def _classify_number(
    pair: NumberPair, comparison: NumberComparison
) -> tuple[NumberType, PairTally[NumberPair]]:
    """Return what a number is, and the tally of all like it."""
    if pair.step is None:
        return "metric", comparison.metrics
    if pair.value_name == TOGETHER:
        return "mean loss", comparison.mean_losses
    return ("backward passes" if pair.value_name == PASSES else "loss"), comparison.losses


def _choose_number_kind(analysis: RunAnalysis, first_pair: NumberPair) -> type[NumberFacts]:
    """Return the kind that says when numbers differ, beside the epochs that were resumed in."""
    resumed_epochs = {restart.epoch for restart in analysis.restarts if restart.epoch is not None}
    if not resumed_epochs:
        return NumbersDiffer
    if first_pair.epoch in resumed_epochs:
        return NumbersDifferAtResume
    is_later = first_pair.epoch > min(resumed_epochs)
    return NumbersDifferLater if is_later else NumbersDifferEarlier


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
