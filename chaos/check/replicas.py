"""Are the copies of the model on all ranks still equal?"""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from chaos.check.components import group_of
from chaos.check.result import blind, conclude, nothing_due, plural
from chaos.check.sightings import holds_nothing
from chaos.check.trial import Trial
from chaos.model.event import StateSeen
from chaos.model.verdict import Anomaly, CheckResult

NAME = "replicas"

_COPIED = frozenset({"model", "buffers", "optimizer", "optimizer settings", "averaged model"})
_Place: TypeAlias = tuple[int, int, int, str]  # attempt, epoch, step, moment
_Seen: TypeAlias = tuple[int, StateSeen]


def check(trial: Trial) -> CheckResult:
    """Require equal models and optimizers on all ranks at equal places.

    The promise of replica equality (pytorch/torchtitan PR #4598: a rank joins
    with a stale learning rate, and equal gradients make unequal models). A
    part that is not equal on all ranks in the baseline, such as a shard, or
    before the fault, is no replica.
    """
    theirs = trial.reference is not None and bool(trial.reference.sightings.names)
    unseen = blind(NAME, trial, "state", ours=bool(trial.run.sightings.names), theirs=theirs)
    if unseen is not None:
        return unseen
    assert trial.reference is not None
    due = trial.reference.sightings.all
    copied = _names(due) - set(_split(due))
    copied -= set(_split((n, s) for n, s in trial.run.sightings.all if n < trial.began))
    if len(trial.reference.lineage.ranks) < 2 or not copied:  # noqa: PLR2004
        return nothing_due(NAME, "no part of the state is held by several ranks alike")
    parted = _split(trial.run.sightings.all, only=copied)
    anomalies = [
        Anomaly(
            message=f"from {_at(place)} on, {name} is not the same on all ranks "
            f"(attempt {place[0]})",
            events=events,
        )
        for name, (place, events) in sorted(parted.items(), key=lambda item: item[1][1])
    ]
    return conclude(
        NAME,
        anomalies=anomalies[:1],
        evidence=len(trial.run.sightings.all),
        summary=f"{plural(len(copied), 'part')} equal on all ranks wherever they were seen",
    )


def _names(sightings: Iterable[_Seen]) -> set[str]:
    return {
        part.name
        for _, seen in sightings
        for part in seen.components
        if group_of(part.name) in _COPIED
    }


def _split(
    sightings: Iterable[_Seen], *, only: set[str] | None = None
) -> dict[str, tuple[_Place, tuple[int, ...]]]:
    """Give the parts that are not equal on all ranks somewhere: the first such place each."""
    first: dict[_Place, _Seen] = {}
    found: dict[str, tuple[_Place, tuple[int, ...]]] = {}
    for number, seen in sightings:
        place = (seen.attempt, seen.epoch, seen.step, seen.moment)
        there = first.setdefault(place, (number, seen))
        if there[1].components == seen.components:
            continue
        for name in _unequal(there[1], seen):
            if only is None or name in only:
                found.setdefault(name, (place, (there[0], number)))
    return found


def _unequal(one: StateSeen, other: StateSeen) -> Iterator[str]:
    due = {part.name: part for part in one.components}
    for part in other.components:
        theirs = due.get(part.name)
        if holds_nothing(part) and holds_nothing(theirs):
            continue
        if theirs is None or theirs.digest != part.digest:
            yield part.name


def _at(place: _Place) -> str:
    _, epoch, step, moment = place
    return f"epoch {epoch}, step {step}" if moment != "left" else f"the report of epoch {epoch}"
