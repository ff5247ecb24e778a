"""Did the other trials of the experiment notice?"""

from collections.abc import Iterator

from chaos.check.result import conclude, nothing_due, plural, unknown
from chaos.check.trial import Trial
from chaos.model.event import BystanderSeen, ExperimentEnded, FaultInvoked
from chaos.model.history import History
from chaos.model.verdict import Anomaly, CheckResult

NAME = "bystanders"


def check(trial: Trial) -> CheckResult:
    """Require that no trial of an experiment notices what is done to another.

    The promise of isolation in Ray Tune: each trial beside the one that is
    struck has one attempt and no failure, its `fit()` returns, and its losses
    are the baseline's (as exactly as the scenario has it: with a tolerance or
    a band they are not compared). One that was not under way when a fault
    struck has shown nothing, and none may be missing of those that Ray Tune
    says it made.
    """
    if trial.plan.job.trial is None:
        return nothing_due(NAME, "the job is no experiment of several trials")
    # Where no fault was planned it is the baseline itself: each trial is its own measure.
    reference = trial.reference if trial.plan.ops else trial.run
    if reference is None:
        return unknown(NAME, trial.no_reference)
    alone, seen = _by_trial(reference.history), _by_trial(trial.history)
    made = [event.trials for _, event in reference.history.of(ExperimentEnded)]
    if made == [1] and not alone and not seen:
        return nothing_due(NAME, "the experiment has no other trial")
    exact = trial.plan.expect.is_exact
    anomalies = [
        Anomaly(message=f"trial {n}, which nothing was done to, {what}", events=(number,))
        for n, (number, event) in sorted(seen.items())
        for what in _noticed(event, alone[n][1] if n in alone and exact else None)
    ]
    return conclude(
        NAME,
        anomalies=anomalies,
        doubts=[
            *_uncounted(made, trials=len(alone) + 1),
            *_doubts(alone, seen),
            *_elsewhen(trial.history, seen),
        ],
        evidence=sum(event.steps for _, event in seen.values()),
        summary=f"{plural(len(seen), 'other trial')} undisturbed, "
        f"{'with the losses of the baseline' if exact else 'losses not compared'}",
    )


def _by_trial(history: History) -> dict[int, tuple[int, BystanderSeen]]:
    return {event.trial: (number, event) for number, event in history.of(BystanderSeen)}


def _noticed(event: BystanderSeen, alone: BystanderSeen | None) -> Iterator[str]:
    if event.error is not None:
        yield f"failed: its fit() raised {event.error}"
    elif not event.finished:
        yield "did not end"
    if event.attempts > 1:
        yield f"was begun again: {plural(event.attempts, 'attempt')}"
    if event.failures:
        yield f"was charged for {plural(event.failures, 'failure')}"
    if alone is not None:
        places = sorted({*event.losses, *alone.losses})
        other = [at for at in places if event.losses.get(at) != alone.losses.get(at)]
        if other:
            more = f" and {len(other) - 1} more places" if len(other) > 1 else ""
            yield f"has other losses than in the baseline: {other[0]}{more}"


def _elsewhen(history: History, seen: dict[int, tuple[int, BystanderSeen]]) -> Iterator[str]:
    struck = [history.time_ns(number) for number, _ in history.of(FaultInvoked)]
    for n, (_, event) in sorted(seen.items()):
        if struck and not any(event.began_ns <= at <= event.ended_ns for at in struck):
            yield f"trial {n} was not under way when a fault struck"


def _uncounted(made: list[int], *, trials: int) -> Iterator[str]:
    """Doubt a baseline that does not hold as many trials as Ray Tune says it made."""
    if not made:
        yield "Ray Tune did not say how many trials it made in the baseline"
    elif made[-1] != trials:
        yield f"Ray Tune made {plural(made[-1], 'trial')} in the baseline, and {trials} were seen"


def _doubts(
    alone: dict[int, tuple[int, BystanderSeen]], seen: dict[int, tuple[int, BystanderSeen]]
) -> Iterator[str]:
    for n in sorted({*alone} - {*seen}):
        yield f"trial {n} was not seen"
    for n in sorted({*seen} - {*alone}):
        yield f"trial {n} was not seen in the baseline"
    for n, (_, event) in sorted(alone.items()):
        if event.attempts != 1 or event.failures or not event.finished:
            yield f"trial {n} did not come through the baseline undisturbed"
        elif not event.losses:
            yield f"trial {n} made no step that was seen"
