"""Where a run first leaves its baseline, by anything that was compared."""

from collections.abc import Iterator
from typing import TypeAlias

from chaos.check.components import group_of
from chaos.check.sightings import differing
from chaos.check.trajectory import divergence
from chaos.check.trial import Trial

Moment: TypeAlias = tuple[int, float]  # epoch, step; an epoch's report comes after its steps


def parting(trial: Trial) -> Moment | None:
    """Give the first place whose loss, metric, inputs or model differ; None: there is none."""
    return min(_places(trial), default=None)


def _places(trial: Trial) -> Iterator[Moment]:
    first = divergence(trial)
    if first is not None:
        yield first.place[:2]
    if trial.feeds is not None and trial.feeds.repeat:
        yield from ((apart.epoch, apart.first.step) for apart in trial.feeds.apart)
    yield from _models(trial)


def _models(trial: Trial) -> Iterator[Moment]:
    if trial.reference is None:
        return
    due, leeway = trial.reference.sightings.by_place, trial.leeway
    for place, seen in trial.run.sightings.by_place.items():
        theirs = due.get(place)
        if theirs is None or theirs.components == seen.components:
            continue
        if seen.attempt in trial.resized:
            continue
        names = set(differing(seen, theirs, leeway)) - trial.unstable
        if any(group_of(name) == "model" for name in names):
            # A model that entered differently left the baseline before its next step.
            yield seen.epoch, seen.step + (0.5 if seen.moment == "entered" else 0)


def left_before(trial: Trial, epoch: int, step: int) -> bool:
    """Say whether the run had left its baseline before a rank went on after this place."""
    where = parting(trial)
    return where is not None and where <= (epoch, step)
