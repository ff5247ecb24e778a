"""Did training come out the same, number by number and part by part of the state?"""

import math
from collections.abc import Iterator

from chaos.check.band import HIDDEN_MAX
from chaos.check.comparison import Comparison, Divergence
from chaos.check.components import group_of
from chaos.check.remedy import value
from chaos.check.result import (
    Measures,
    conclude,
    nothing_due,
    of_another_size,
    plural,
    ranks,
    unknown,
)
from chaos.check.sightings import Place
from chaos.check.state_course import Clean, StateCourse, state_course, surviving
from chaos.check.trial import Course, Trial
from chaos.check.values import Value
from chaos.model.history import Baseline
from chaos.model.verdict import Anomaly, CheckResult

NAME = "trajectory"

# What a person takes away from a run, and what was named as its state. Other parts (an
# optimizer's) are means to it: where they differ and this does not, nothing followed.
SHIPPED = ("model", "buffers", "averaged model", "declared")

_TEXT_MAX = 40


def check(trial: Trial) -> CheckResult:
    """Require that every surviving loss, metric and part of the state equals the baseline's.

    The promise of the trajectory. To the last bit, or within
    `expect.loss_tolerance`, or within the band that five baselines show
    (`expect.band`); a bound alone would hide a lost RNG state (0.08 % of the
    loss where it was measured). What was recorded before the fault
    is the control: if losses differ there already, the job does not repeat
    here and nothing follows; a metric that differs there is left out by
    name. Unknown where a metric that was not reported there differs, and
    where nothing of a resumed attempt was compared, or the band is wide: five
    runs do not show how far a sixth one may lie. An attempt with another
    number of workers has no counterpart in the baseline. Where all numbers
    are equal, the state that was seen beneath them may still be another: a
    model that was averaged otherwise is used after the last loss. What lasts
    (the model, its average, what the job declares) is compared where equality
    to the last bit is asked for; another part that differs beneath a model
    that does not is told in the summary.
    """
    if not trial.plan.ops:
        return nothing_due(NAME, "no fault was planned, so there is nothing to compare")
    comparison = trial.comparison
    if comparison is None:
        return unknown(NAME, f"{trial.no_reference} to compare with")
    if comparison.resized and comparison.losses.compared + comparison.metrics.compared == 0:
        steps = plural(comparison.resized, "surviving step")
        what = "was made" if comparison.resized == 1 else "were made"
        return nothing_due(NAME, f"{steps} {what} with another number of workers")
    control = trial.too_few_for_a_band or _doubt(trial, comparison)
    doubts = [control] if control else [*_silences(comparison), *_unproven(trial, comparison)]
    first = None if control else comparison.first
    states = None if control else states_of(trial)
    anomalies = (
        [Anomaly(message=_message(first, comparison), events=(first.number,))] if first else []
    )
    if states is not None and not anomalies:
        lasting = states.of(SHIPPED)
        anomalies, doubts = list(_state_apart(lasting)), [*doubts, *_state_doubts(lasting)]
    return conclude(
        NAME,
        anomalies=anomalies,
        doubts=doubts,
        evidence=comparison.losses.compared + comparison.metrics.compared,
        summary=_summary(trial, comparison, states),
        measures={**_measures(comparison), **_of_states(states), **_hidden(trial, comparison)},
    )


def divergence(trial: Trial) -> Divergence | None:
    """Give where the run first left its baseline, None if it did not or that cannot be told."""
    comparison = trial.comparison
    if comparison is None or trial.too_few_for_a_band or _doubt(trial, comparison):
        return None
    return comparison.first


def difference(first: Divergence) -> str:
    """Say how two numbers differ, with as many digits as it takes to see it."""
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


def states_of(trial: Trial) -> StateCourse | None:
    """Compare the state that was seen in surviving work; None where that is not to be equal."""
    if trial.reference is None or not trial.leeway.is_exact:
        return None
    baseline, seen = trial.counterpart, trial.run.sightings
    repeats = baseline.repeats if isinstance(baseline, Baseline) else ()
    clean = Clean(
        reference=trial.reference.sightings,
        before=[state for number, state in seen.all if number < trial.began],
        repeats=[Course(history, trial.reference).sightings for history in repeats],
        unstable=trial.unstable,
    )
    return state_course(surviving(seen, trial.run.attempts, without=trial.resized), clean)


def _state_apart(states: StateCourse) -> Iterator[Anomaly]:
    first = states.first
    if not first:
        return
    name, group = first[0].due.name, group_of(first[0].due.name)
    ours, due = value(first[0].ours, group), value(first[0].due, group)
    values = f"{ours} instead of {due}" if ours != due else "not the same to the last bit"
    who = ranks([apart.place[0] for apart in first])
    others = sorted({apart.due.name for apart in states.apart} - {name})
    more = f", and so do {', '.join(others)}" if others else ""
    yield Anomaly(
        message=f"from {_where(first[0].place)} on ({who}) {name} differs from the baseline's "
        f"although no loss and no metric does: {values}{more}; {len(states.apart)} of "
        f"{states.compared} differ",
        events=tuple(apart.number for apart in first),
        parts=(name, *others),
    )


def _where(place: Place) -> str:
    _, epoch, step, moment = place
    return f"the report of epoch {epoch}" if moment == "left" else f"epoch {epoch}, step {step}"


def _state_doubts(states: StateCourse) -> Iterator[str]:
    if states.unproven:
        named = ", ".join(sorted(states.unproven))
        yield (
            f"{named} of the state differ from the baseline's after the fault, and nothing before "
            "it shows whether they repeat themselves"
        )
    if states.missing:
        named = ", ".join(sorted(states.missing))
        yield f"{named} of the state was seen in the baseline, and not at the same places here"


def _doubt(trial: Trial, comparison: Comparison) -> str | None:
    control = comparison.control
    remedy = "state `expect.band` or `expect.loss_tolerance`"
    if not trial.plan.expect.is_exact:
        remedy = f"`expect.{_leeway(trial)}` is too narrow"
    if control.first is not None:
        at = control.first
        return (
            f"the job does not repeat itself here: before any fault {control.differing} of "
            f"{control.compared} losses differ from the baseline's, first at epoch {at.epoch}, "
            f"step {at.step}, rank {at.rank}: {difference(at)}; {remedy}, or, if the baseline is "
            "out of date, list what the job reads in `job.inputs` or delete the folder "
            "`.baselines` under reports"
        )
    bands = trial.leeway.bands
    if bands is not None and bands.hides[0] > HIDDEN_MAX and comparison.first is not None:
        at = comparison.first
        return (
            f"epoch {at.epoch} has {difference(at)}, and between {bands.runs} clean runs losses "
            f"lie up to {100 * bands.hides[0]:.2g} % apart: so few runs do not show how far one "
            "more may lie; seed the job, or state `expect.loss_tolerance`"
        )
    if control.compared == 0 and comparison.losses.first is not None:
        return (
            "losses differ from the baseline's, and none was recorded before the fault that "
            "would show whether the job repeats itself here"
        )
    return None


def _silences(comparison: Comparison) -> Iterator[str]:
    for attempt in comparison.silent:
        yield f"nothing that attempt {attempt} did could be compared with the baseline's"


def _unproven(trial: Trial, comparison: Comparison) -> Iterator[str]:
    if not comparison.unproven:
        return
    named = ", ".join(f"`{name}`" for name in comparison.unproven)
    what = "restart" if trial.restarts else "fault"
    is_one = len(comparison.unproven) == 1
    differ, repeat = ("differs", "it repeats itself") if is_one else ("differ", "they repeat")
    yield (
        f"{named} {differ} from the baseline's after the {what}, and no report before the fault "
        f"shows whether {repeat}; what need not repeat can be listed in "
        "`expect.ignore_metrics`"
    )


def _message(first: Divergence, comparison: Comparison) -> str:
    place = f"epoch {first.epoch}" + ("" if first.step is None else f", step {first.step}")
    what = f"metric `{first.what}`" if first.step is None else first.what
    tally = comparison.metrics if first.step is None else comparison.losses
    widest = f", by up to {tally.difference_max:.3g}" if tally.difference_max else ""
    return (
        f"from {place} on (rank {first.rank}) the {what} differs from the baseline's: "
        f"{difference(first)}; {tally.differing} of {tally.compared} differ{widest}"
    )


def _summary(trial: Trial, comparison: Comparison, states: StateCourse | None) -> str:
    how = "to the last bit"
    if not trial.plan.expect.is_exact:
        how = f"within expect.{_leeway(trial)}"
    losses = plural(comparison.losses.compared, "loss", "losses")
    metrics = plural(comparison.metrics.compared, "metric value")
    apart = comparison.steps_apart
    but = f"; {plural(apart, 'step')} could not be compared" if apart else ""
    but += of_another_size(trial)
    if (bands := trial.leeway.bands) is not None:
        usual, most = bands.hides
        but += (
            f"; a defect that moves a loss by less than {usual:.2g} of it "
            f"(at most {most:.2g}) would not be seen"
        )
        if hidden := _hidden_of(trial, comparison):
            but += f", nor one that moves {', '.join(hidden)}"
    if states is not None and states.apart:
        named = ", ".join(sorted({apart.due.name for apart in states.apart}))
        but += f"; {named} of the state differ, and nothing that lasts follows from it"
    what = f"{losses} and {metrics}"
    if states is not None and states.compared:
        what = f"{losses}, {metrics} and {plural(states.compared, 'part')} of the state"
    elif states is None and trial.run.sightings.names:
        but += "; the state, which need not be the same there, is compared at resumes alone"
    return f"{what} equal the baseline's {how}{but}"


def _leeway(trial: Trial) -> str:
    return "band" if trial.plan.expect.band is not None else "loss_tolerance"


def _of_states(states: StateCourse | None) -> Measures:
    if states is None:
        return {}
    return {"parts_compared": states.compared, "parts_differing": len(states.apart)}


def _hidden(trial: Trial, comparison: Comparison) -> Measures:
    """Say how large a defect the band would hide, as a part of a loss."""
    bands = trial.leeway.bands
    if bands is None:
        return {}
    usual, most = bands.hides
    return {
        "band_runs": bands.runs,
        "hidden_relative_median": _finite(usual),
        "hidden_relative_max": _finite(most),
        "hidden_of_metrics": ", ".join(_hidden_of(trial, comparison)) or None,
    }


def _hidden_of(trial: Trial, comparison: Comparison) -> list[str]:
    """Say by how much each metric that is compared can be off within the band."""
    bands = trial.leeway.bands
    left_out = {*comparison.not_compared, *comparison.unproven, *comparison.ignored}
    hides = {} if bands is None else bands.hides_of
    return [f"`{name}` by {part:.2g}" for name, part in hides.items() if name not in left_out]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _measures(comparison: Comparison) -> Measures:
    return {
        "losses_compared": comparison.losses.compared,
        "losses_differing": comparison.losses.differing,
        "loss_difference_max": comparison.losses.difference_max,
        "metrics_compared": comparison.metrics.compared,
        "metrics_differing": comparison.metrics.differing,
        "metrics_not_compared": ", ".join(comparison.not_compared) or None,
        "metrics_without_control": ", ".join(comparison.unproven) or None,
        "metrics_ignored": ", ".join(comparison.ignored) or None,
        "steps_not_compared": comparison.steps_apart + comparison.resized,
        "control_losses": comparison.control.compared,
    }
