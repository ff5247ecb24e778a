"""The kill map: every place of a job that is worth striking, or a covering sample of them."""

import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from chaos.audit.extent import Extent
from chaos.audit.group import GROUPS, LOADS, Group
from chaos.audit.stratum import Stratum, strata
from chaos.audit.strike import Strike
from chaos.check.result import plural

STEP_PLACES_MAX = 96
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class Coverage:
    """How many places of a group were chosen, of how many there are.

    `why_none` says why a group has no place in this job.
    """

    group: Group
    chosen: int
    places: int
    why_none: str | None = None


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
        _drawn(of_group, seed=seed, limit=limit) for of_group in by_group.values() if of_group
    ]
    strikes = [*_in_rounds(queues, limit=max(limit, len(queues)))]
    if loads:
        share = max(1, limit // max(1, len(queues)))
        strikes += islice(_drawn(loads, seed=seed, limit=limit), share)
    return _ordered(strikes)


def interleaved(strikes: Sequence[Strike]) -> Iterator[Strike]:
    """Give one strike of each group in turn, so that an audit cut short has seen all groups.

    A group's own strikes come in an order of which any beginning is spread over the job.
    """
    queues = []
    for group in GROUPS:
        of_group = [strike for strike in strikes if strike.group == group]
        queues.append(iter([of_group[n] for n in _evenly(len(of_group))]))
    return _in_rounds(queues, limit=len(strikes))


def coverage(extent: Extent, strikes: Sequence[Strike], *, seed: int) -> tuple[Coverage, ...]:
    """Count, for each group, what was chosen and what there is."""
    rows = []
    known = strata(extent, seed=seed)
    for group in GROUPS:
        places = sum(stratum.size for stratum in known if stratum.group == group)
        chosen = sum(strike.group == group for strike in strikes)
        rows.append(Coverage(group, chosen, places, None if places else _why_none(group, extent)))
    return tuple(rows)


def _ordered(strikes: Iterable[Strike]) -> tuple[Strike, ...]:
    return tuple(sorted(strikes, key=lambda s: (GROUPS.index(s.group), s.place)))


def _drawn(of_group: Sequence[Stratum], *, seed: int, limit: int) -> Iterator[Strike]:
    """Give a group's strikes so that any beginning of them is spread over epochs and ranks."""
    draws = random.Random(f"{seed}:{of_group[0].group}")  # noqa: S311 (repeatable is the point)
    order = _spread(of_group, shift=draws.random())
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
    order = _evenly(len(rows), shift=shift)
    turns = range(max(len(row) for row in rows))
    picked = (
        (rows[n], (turn + place) % len(rows[n]))
        for turn in turns
        for place, n in enumerate(order)
        if turn < len(rows[n])
    )
    return [row[index] for row, index in picked]


def _evenly(count: int, *, shift: float = 0.0) -> list[int]:
    """Order numbers so that any beginning of them leaves no large gap.

    Multiples of the golden ratio fall that way.
    """
    return sorted(range(count), key=lambda n: (shift + n * _GOLDEN) % 1.0)


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
    longest = max(extent.steps.values())
    return f"the job has {plural(len(extent.epochs), 'epoch')} of up to {plural(longest, 'step')}"


_NEEDS: Mapping[Group, str] = {
    "inside a save": "no file was seen to be written with torch.save",
    "inside a load": "no struck run was seen to load, with torch.load, what it had saved before",
    "notice before the loss": "training is over too soon after any place for a notice to run out",
    "fewer workers after it": "the job is not elastic: `num_workers` is a number, not (min, max)",
}
