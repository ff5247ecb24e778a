"""Did training come out the same, number by number?"""

from chaos.check.comparison import Comparison, Divergence
from chaos.check.result import Measures, conclude, nothing_due, plural, unknown
from chaos.check.trial import Trial
from chaos.model.verdict import Anomaly, CheckResult

NAME = "trajectory"


def check(trial: Trial) -> CheckResult:
    """Require that on the surviving lineage every loss and metric equals the baseline's.

    To the last bit, or within `expect.loss_tolerance`; a bound alone would
    hide a lost RNG state (0.08 % of the loss where it was measured). What was
    recorded before the fault is the control: if losses differ there already,
    the job does not repeat here and nothing follows; a metric that differs
    there, or was not reported there, is left out by name.
    """
    if not trial.plan.ops:
        return nothing_due(NAME, "no fault was planned, so there is nothing to compare")
    comparison = trial.comparison
    if comparison is None:
        return unknown(NAME, "there is no baseline to compare with")
    doubts = [doubt] if (doubt := _doubt(trial, comparison)) else []
    first = None if doubts else comparison.first
    anomalies = (
        [Anomaly(message=_message(first, comparison), events=(first.number,))] if first else []
    )
    return conclude(
        NAME,
        anomalies=anomalies,
        doubts=doubts,
        evidence=comparison.losses.compared + comparison.metrics.compared,
        summary=_summary(trial, comparison),
        measures=_measures(comparison),
    )


def divergence(trial: Trial) -> Divergence | None:
    """Give where the run first left its baseline, None if it did not or that cannot be told."""
    comparison = trial.comparison
    if comparison is None or _doubt(trial, comparison):
        return None
    return comparison.first


def difference(first: Divergence) -> str:
    """Say how two numbers differ, with as many digits as it takes to see it."""
    ours, due = _digits(first.ours), _digits(first.baseline)
    if ours == due:
        ours, due = repr(first.ours), repr(first.baseline)
    part = "" if first.relative is None else f" ({100 * first.relative:.2g} %)"
    return f"{ours} instead of {due}{part}"


def _digits(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.4g}"


def _doubt(trial: Trial, comparison: Comparison) -> str | None:
    control = comparison.control
    remedy = "state `expect.loss_tolerance`"
    if trial.plan.expect.loss_tolerance is not None:
        remedy = "`expect.loss_tolerance` is too narrow"
    if control.first is not None:
        at = control.first
        return (
            f"the job does not repeat itself here: before any fault {control.differing} of "
            f"{control.compared} losses differ from the baseline's, first at epoch {at.epoch}, "
            f"step {at.step}, rank {at.rank}: {difference(at)}; {remedy}"
        )
    if control.compared == 0 and comparison.first is not None:
        return (
            "losses differ from the baseline's, and none was recorded before the fault that "
            "would show whether the job repeats itself here"
        )
    return None


def _message(first: Divergence, comparison: Comparison) -> str:
    place = f"epoch {first.epoch}" + ("" if first.step is None else f", step {first.step}")
    what = first.what if first.what in ("loss", "number of losses") else f"metric `{first.what}`"
    tally = comparison.metrics if first.step is None else comparison.losses
    return (
        f"from {place} on (rank {first.rank}) the {what} differs from the baseline's: "
        f"{difference(first)}; {tally.differing} of {tally.compared} differ, "
        f"by up to {tally.difference_max:.3g}"
    )


def _summary(trial: Trial, comparison: Comparison) -> str:
    how = "to the last bit"
    if trial.plan.expect.loss_tolerance is not None:
        how = "within expect.loss_tolerance"
    losses = plural(comparison.losses.compared, "loss", "losses")
    metrics = plural(comparison.metrics.compared, "metric value")
    return f"{losses} and {metrics} equal the baseline's {how}"


def _measures(comparison: Comparison) -> Measures:
    return {
        "losses_compared": comparison.losses.compared,
        "losses_differing": comparison.losses.differing,
        "loss_difference_max": comparison.losses.difference_max,
        "metrics_compared": comparison.metrics.compared,
        "metrics_differing": comparison.metrics.differing,
        "metrics_not_compared": ", ".join(comparison.not_compared) or None,
        "control_losses": comparison.control.compared,
    }
