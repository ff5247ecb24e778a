"""The kill map: every place of a job that is worth striking, or a covering sample of them."""

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from chaos.audit.extent import Extent
from chaos.audit.group import GROUPS, LOADS, Group
from chaos.audit.order import resumes_from
from chaos.audit.spread import evenly
from chaos.audit.stratum import Stratum, strata
from chaos.audit.strike import Strike
from chaos.check.result import plural

STEP_PLACES_MAX = 96


@dataclass(frozen=True)
class Coverage:
    """How many places of a group were chosen, of how many there are.

    `why_none` says why a group has no place in this job. `resumes`: it has
    places at which a restart goes on from a checkpoint. `by_epoch` counts
    the places in each epoch.
    """

    group: Group
    chosen: int
    places: int
    why_none: str | None = None
    resumes: bool = False
    by_epoch: Mapping[int, int] = field(default_factory=dict)


def kill_map(
    extent: Extent,
    *,
    seed: int,
    exhaustive: bool = False,
    limit: int = STEP_PLACES_MAX,
    choose: Collection[Group] = GROUPS,
) -> tuple[Strike, ...]:
    """Give the strikes for a job, in the order of groups and places.

    Every place, where the job makes at most `limit` steps on all ranks together
    or all are asked for; otherwise about `limit` of them: every group that the
    job has, spread over its epochs and ranks, drawn from the seed. Places that
    only a restart shows come on top, as many as a group has on average: the
    others are the same whether or not these are known yet.
    """
    chosen = [s for s in strata(extent, seed=seed) if s.group in choose]
    if exhaustive or extent.step_places <= limit:
        return _ordered(s.strike(n) for s in chosen for n in range(s.size))
    by_group = {group: [s for s in chosen if s.group == group] for group in GROUPS}
    loads = by_group.pop(LOADS)
    queues = [
        _drawn(of_group, extent, seed=seed, limit=limit)
        for of_group in by_group.values()
        if of_group
    ]
    strikes = [*_in_rounds(queues, limit=max(limit, len(queues)))]
    if loads:
        share = max(1, limit // max(1, len(queues)))
        strikes += islice(_drawn(loads, extent, seed=seed, limit=limit), share)
    return _ordered(strikes)


def coverage(extent: Extent, strikes: Sequence[Strike], *, seed: int) -> tuple[Coverage, ...]:
    """Count, for each group, what was chosen and what there is."""
    rows = []
    known = strata(extent, seed=seed)
    for group in GROUPS:
        mine = [stratum for stratum in known if stratum.group == group]
        by_epoch = Counter[int]()
        for stratum in mine:
            by_epoch[stratum.epoch] += stratum.size
        rows.append(
            Coverage(
                group=group,
                chosen=sum(strike.group == group for strike in strikes),
                places=by_epoch.total(),
                why_none=None if mine else _why_none(group, extent),
                resumes=any(_resumes(stratum, extent) for stratum in mine),
                by_epoch=by_epoch,
            )
        )
    return tuple(rows)


def _resumes(stratum: Stratum, extent: Extent) -> bool:
    """Say whether a restart goes on from a checkpoint, at the last of its places."""
    return resumes_from(stratum.strike(stratum.size - 1), extent) is not None


def _ordered(strikes: Iterable[Strike]) -> tuple[Strike, ...]:
    return tuple(sorted(strikes, key=lambda s: (GROUPS.index(s.group), s.place)))


def _drawn(
    of_group: Sequence[Stratum], extent: Extent, *, seed: int, limit: int
) -> Iterator[Strike]:
    """Give a group's strikes so that any beginning of them is spread over epochs and ranks.

    The first one goes on from a checkpoint, if any does: a restart from scratch
    shows no defect of resuming.
    """
    draws = random.Random(f"{seed}:{of_group[0].group}")  # noqa: S311 (repeatable is the point)
    order = _spread(of_group, shift=draws.random())
    first = next((n for n, stratum in enumerate(order) if _resumes(stratum, extent)), 0)
    order.insert(0, order.pop(first))
    picks: dict[int, list[int]] = {}
    for turn in range(min(limit, max(stratum.size for stratum in of_group))):
        for number, stratum in enumerate(order):
            if turn >= stratum.size:
                continue
            if number not in picks:
                picks[number] = draws.sample(range(stratum.size), min(stratum.size, limit))
            yield stratum.strike(picks[number][turn])


def _spread(of_group: Sequence[Stratum], *, shift: float) -> list[Stratum]:
    """Order strata so that epochs fall evenly, and neighbours in the order are of other ranks."""
    by_epoch: dict[int, list[Stratum]] = {}
    for stratum in of_group:
        by_epoch.setdefault(stratum.epoch, []).append(stratum)
    rows = [row for _, row in sorted(by_epoch.items())]
    order = evenly(len(rows), shift=shift)
    turns = range(max(len(row) for row in rows))
    picked = (
        (rows[n], (turn + place) % len(rows[n]))
        for turn in turns
        for place, n in enumerate(order)
        if turn < len(rows[n])
    )
    return [row[index] for row, index in picked]


def _in_rounds(queues: Sequence[Iterator[Strike]], *, limit: int) -> Iterator[Strike]:
    waiting, given = list(queues), 0
    while waiting and given < limit:
        for queue in list(waiting):
            strike = next(queue, None)
            if strike is None:
                waiting.remove(queue)
            elif given < limit:
                given += 1
                yield strike


def _why_none(group: Group, extent: Extent) -> str:
    if group in _NEEDS:
        return _NEEDS[group]
    if group in ("upload begins", "upload ends"):
        # Asynchronous, or made by the script itself (NO_UPLOAD).
        beside = "none was seen within report(): one that runs beside training has no place"
        return beside if extent.saved else "no upload was seen"
    if group == "three times in a run":
        epochs = len({epoch for epoch, _ in extent.steps} or extent.epochs)
        return f"it needs three epochs with steps or reports; the job has {epochs}"
    if not extent.steps:
        return "no optimizer step was seen"
    if extent.by_clock and group in ("epoch boundary", "last epoch", "twice in one epoch"):
        return "the job reports by the clock: what comes after a report for sure is one step"
    longest = max(extent.steps.values())
    return f"the job has {plural(len(extent.epochs), 'epoch')} of up to {plural(longest, 'step')}"


_NEEDS: Mapping[Group, str] = {
    "inside a save": "no file was seen to be written with torch.save",
    "inside a load": "no struck run was seen to load, with torch.load, what it had saved before",
    "notice before the loss": "training is over too soon after any place for a notice to run out",
    "fewer workers after it": "the job is not elastic: `num_workers` is a number, not (min, max)",
}
