"""The check of every surviving number and part of the state."""

import math
from collections.abc import Iterator

from chaos.check.analysis import RunAnalysis
from chaos.check.divergence import difference, no_control, stated_tolerance
from chaos.check.fix_hints import value
from chaos.check.numbers import TOGETHER, NumberComparison, widest
from chaos.check.result import (
    Measures,
    conclude,
    inconclusive,
    nothing_due,
    of_another_size,
    own_check,
)
from chaos.check.state_at_resume import SHIPPED
from chaos.check.state_comparison import StateComparison, states_of
from chaos.check.values import NumberPair
from chaos.model.events.state import group_of
from chaos.model.launcher import LauncherWords
from chaos.model.verdict import Anomaly, CheckResult
from chaos.words import plural, ranks

TRAJECTORY = "trajectory"


@own_check(
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
        return nothing_due(TRAJECTORY, "no fault was planned, so there is nothing to compare")
    comparison = analysis.comparison
    if comparison is None:
        return inconclusive(TRAJECTORY, f"{analysis.no_reference} to compare with")
    compared = comparison.losses.compared + comparison.metrics.compared
    if analysis.allowance.stated is not None:
        compared += comparison.together.compared
    if comparison.resized and not compared:
        return nothing_due(TRAJECTORY, of_another_size(analysis).removeprefix("; "))
    control = analysis.too_few_for_a_band or no_control(analysis, comparison)
    doubts = [control] if control else [*_unproven(analysis, comparison)]
    first = None if control else comparison.first
    states = None if control else states_of(analysis)
    anomalies = list[Anomaly]()
    if first is not None:
        anomalies += [Anomaly(message=_message(first, comparison), events=(first.number,))]
    if states is not None and not anomalies:
        lasting = states.of(SHIPPED)
        anomalies += _state_apart(lasting, analysis.terms)
        doubts += _state_doubts(lasting)
    return conclude(
        TRAJECTORY,
        anomalies=anomalies,
        doubts=doubts,
        evidence=compared,
        summary=_summary(analysis, comparison, states),
        measures={**_measures(comparison), **_of_states(states), **_hidden(analysis, comparison)},
    )


def _state_apart(states: StateComparison, terms: LauncherWords) -> Iterator[Anomaly]:
    first = states.first
    if not first:
        return
    name, group = first[0].due.name, group_of(first[0].due.name)
    ours, due = value(first[0].ours, group), value(first[0].due, group)
    values = f"{ours} instead of {due}" if ours != due else "not the same to the last bit"
    who = ranks([pair.at[0] for pair in first])
    others = sorted({pair.due.name for pair in states.differing} - {name})
    more = f", and so do {', '.join(others)}" if others else ""
    yield Anomaly(
        message=f"from {terms.place(*first[0].at[1:])} on ({who}) {name} differs from the "
        f"baseline's although no loss and no metric does: {values}{more}; "
        f"{len(states.differing)} of {states.compared} differ",
        events=tuple(pair.number for pair in first),
        parts=(name, *others),
    )


def _state_doubts(states: StateComparison) -> Iterator[str]:
    if states.unproven:
        named = ", ".join(sorted(states.unproven))
        yield (
            f"{named} of the state differ from the baseline's after the fault, and nothing before "
            "it shows whether they repeat themselves"
        )
    if states.missing:
        named = ", ".join(sorted(states.missing))
        yield f"{named} of the state was seen in the baseline, and not at the same places here"


def _unproven(analysis: RunAnalysis, comparison: NumberComparison) -> Iterator[str]:
    for attempt in comparison.silent:
        yield f"nothing that attempt {attempt} did could be compared with the baseline's"
    if not comparison.unproven:
        return
    named = ", ".join(f"`{name}`" for name in comparison.unproven)
    what = "restart" if analysis.restarts else "fault"
    is_one = len(comparison.unproven) == 1
    differ, repeat = ("differs", "it repeats itself") if is_one else ("differ", "they repeat")
    yield (
        f"{named} {differ} from the baseline's after the {what}, and no report before the fault "
        f"shows whether {repeat}; what need not repeat can be listed in "
        "`expect.ignore_metrics`"
    )


def _message(first: NumberPair, comparison: NumberComparison) -> str:
    place = f"epoch {first.epoch}" + ("" if first.step is None else f", step {first.step}")
    what = f"metric `{first.what}`" if first.step is None else first.what
    tally = comparison.metrics if first.step is None else comparison.losses
    who = f" (rank {first.rank})"
    if first.what == TOGETHER:
        tally, who = comparison.together, ""
    most = widest(tally)
    by = f", by up to {most:.3g}" if most else ""
    return (
        f"from {place} on{who} the {what} differs from the baseline's: "
        f"{difference(first)}; {len(tally.differing)} of {tally.compared} differ{by}"
    )


def _summary(
    analysis: RunAnalysis, comparison: NumberComparison, states: StateComparison | None
) -> str:
    how = "to the last bit"
    if not analysis.plan.expect.is_exact:
        how = f"within expect.{stated_tolerance(analysis)}"
    losses = plural(comparison.losses.compared, "loss", "losses")
    metrics = plural(comparison.metrics.compared, "metric value")
    apart = comparison.steps_apart
    but = f"; {plural(apart, 'step')} could not be compared" if apart else ""
    but += of_another_size(analysis)
    if (bands := analysis.allowance.bands) is not None:
        usual, most = bands.hides
        but += (
            f"; a defect that moves a loss by less than {usual:.2g} of it "
            f"(at most {most:.2g}) would not be seen"
            if not usual > 1
            else "; clean runs differ so much that losses cannot be compared"
        )
        if hidden := _hidden_of(analysis, comparison):
            but += f", nor one that moves {', '.join(hidden)}"
    if states is not None and states.differing:
        named = ", ".join(sorted({apart.due.name for apart in states.differing}))
        but += f"; {named} of the state differ, and nothing that lasts follows from it"
    what = f"{losses} and {metrics}"
    if states is not None and states.compared:
        what = f"{losses}, {metrics} and {plural(states.compared, 'part')} of the state"
    elif states is None and analysis.run.snapshots.names:
        but += "; the state, which need not be the same there, is compared at resumes alone"
    return f"{what} equal the baseline's {how}{but}"


def _of_states(states: StateComparison | None) -> Measures:
    if states is None:
        return {}
    return {"parts_compared": states.compared, "parts_differing": len(states.differing)}


def _hidden(analysis: RunAnalysis, comparison: NumberComparison) -> Measures:
    """Return the size of a defect that the band would hide, as a part of a loss."""
    bands = analysis.allowance.bands
    if bands is None:
        return {}
    usual, most = bands.hides
    return {
        "band_runs": bands.runs,
        "hidden_relative_median": _finite(usual),
        "hidden_relative_max": _finite(most),
        "hidden_of_metrics": ", ".join(_hidden_of(analysis, comparison)) or None,
    }


def _hidden_of(analysis: RunAnalysis, comparison: NumberComparison) -> list[str]:
    """Return in words by how much each compared metric can be off within the band."""
    bands = analysis.allowance.bands
    left_out = {*comparison.not_compared, *comparison.unproven, *comparison.ignored}
    hides = {} if bands is None else bands.hides_of
    return [f"`{name}` by {part:.2g}" for name, part in hides.items() if name not in left_out]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _measures(comparison: NumberComparison) -> Measures:
    return {
        "losses_compared": comparison.losses.compared,
        "losses_differing": len(comparison.losses.differing),
        "loss_difference_max": widest(comparison.losses),
        "metrics_compared": comparison.metrics.compared,
        "metrics_differing": len(comparison.metrics.differing),
        "metrics_not_compared": ", ".join(comparison.not_compared) or None,
        "metrics_without_control": ", ".join(comparison.unproven) or None,
        "metrics_ignored": ", ".join(comparison.ignored) or None,
        "steps_not_compared": comparison.steps_apart + comparison.resized,
        "control_losses": comparison.control.compared,
        "mean_losses_of_other_sizes": comparison.together.compared,
        "mean_losses_relative_difference_max": comparison.nearness,
    }
