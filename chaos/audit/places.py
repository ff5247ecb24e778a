"""The kill map: every place of a job for a fault, or a sample that covers them."""

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from chaos.audit.card import Covered, SaveStep
from chaos.audit.group import (
    ANSWERS,
    GROUPS,
    IN_SAVES,
    LOADS,
    OF_ERRORS,
    REPEATED,
    SEVERAL,
    Group,
    groups_of,
    needs,
    needs_nodes,
)
from chaos.audit.job_profile import JobProfile
from chaos.audit.place_groups import FaultPlace, PlaceGroup, Unit, place_groups
from chaos.audit.queue import evenly, in_rounds, resumes_from
from chaos.audit.run_row import RunRow
from chaos.audit.table import by_column
from chaos.model.places import EpochRank
from chaos.model.trigger import AtRecovery, AtStep, Trigger
from chaos.words import plural

# Of the places at steps: a job of thousands is sampled, as each is a run.
STEP_PLACES_MAX = 96


def kill_map(
    profile: JobProfile,
    *,
    seed: int,
    exhaustive: bool = False,
    limit: int = STEP_PLACES_MAX,
    choose: Collection[Group] = GROUPS,
) -> tuple[FaultPlace, ...]:
    """Return the places of a job with their ops, in the order of groups and places.

    Returns every place, if the job makes at most `limit` steps on all ranks together or
    with `exhaustive`; otherwise about `limit` of them, drawn from the seed: of every group
    that the job has, spread over its epochs and ranks. Places that only a restart shows are
    added, as many as a group has on average: so the others do not change once these are known.
    """
    chosen = [s for s in place_groups(profile, seed=seed) if s.group in choose]
    if exhaustive or profile.step_places <= limit:
        return _ordered(s.place(n) for s in chosen for n in range(s.size))
    by_unit: dict[Unit, list[PlaceGroup]] = {}
    for place_group in sorted(chosen, key=lambda s: GROUPS.index(s.group)):
        by_unit.setdefault(place_group.unit, []).append(place_group)
    loads = by_unit.pop((LOADS, "", ""), [])
    queues = [_drawn(unit, profile, seed=seed, limit=limit) for unit in by_unit.values()]
    places = [*islice(in_rounds(queues), max(limit, len(queues)))]
    if loads:
        share = max(1, limit // max(1, len(queues)))
        places += islice(_drawn(loads, profile, seed=seed, limit=limit), share)
    return _ordered(places)


def still_there(
    profile: JobProfile, wanted: Collection[FaultPlace], *, seed: int
) -> Iterator[FaultPlace]:
    """Yield those places of an earlier audit that the job has now.

    Of those that its seed drew, another length of the job makes others: they are tried as they
    were, if each of their faults has a place.
    """
    keys, epochs = {place.key for place in wanted}, {place.epoch for place in wanted}
    groups = (of for of in place_groups(profile, seed=seed) if of.epoch in epochs)
    every = (of.place(number) for of in groups for number in range(of.size))
    found = {place.key: place for place in every if place.key in keys}
    yield from found.values()
    for place in wanted:
        is_drawn = len(place.ops) > 1 and place.key not in found
        if is_drawn and all(_has(profile, op.at) for op in place.ops):
            yield place


def _has(profile: JobProfile, at: Trigger) -> bool:
    """Return whether training comes by a place, as far as a clean run can tell."""
    if isinstance(at, AtRecovery):
        return True
    if isinstance(at, AtStep):
        return at.step <= profile.steps.get(EpochRank(at.epoch, at.rank or 0), 0)
    return at.epoch < profile.epochs_seen and at.rank in profile.ranks


def coverage(
    profile: JobProfile,
    places: Sequence[FaultPlace],
    runs: Sequence[RunRow] = (),
    *,
    seed: int,
) -> tuple[Covered, ...]:
    """Count, for each group, all places, those that were chosen, and those that were tried."""
    known, rows = place_groups(profile, seed=seed), []
    for group in groups_of(profile.facts):
        mine = [place_group for place_group in known if place_group.group == group]
        by_epoch = Counter[int]()
        for place_group in mine:
            by_epoch[place_group.epoch] += place_group.size
        rows.append(
            Covered(
                group=group,
                tried=sum(run.group == group and not run.is_combined for run in runs),
                chosen=sum(place.group == group for place in places),
                places=by_epoch.total(),
                why_none=None if mine else _why_left_out(group, profile),
                resumes=any(_resumes(place_group, profile) for place_group in mine),
                by_column=by_column(by_epoch, profile.epochs_seen),
            )
        )
    return tuple(rows)


def save_steps(profile: JobProfile, runs: Sequence[RunRow], *, seed: int) -> tuple[SaveStep, ...]:
    """Return the operations of a save, in their order, with the runs that had a fault there."""
    units = {of.unit for of in place_groups(profile, seed=seed)}
    found = []
    for one in profile.operations:
        unit: Unit = IN_SAVES, one.moment, one.asked or ""
        mine = [run for run in runs if run.place.unit == unit and not run.is_combined]
        if unit in units:
            wrong = sum(run.is_wrong for run in mine)
            tried = sum(run.is_tried for run in mine)
            found.append(SaveStep(name=str(one), tried=tried, wrong=wrong))
    return tuple(found)


def _resumes(place_group: PlaceGroup, profile: JobProfile) -> bool:
    """Return whether a restart resumes from a checkpoint at the last of its places."""
    return resumes_from(place_group.place(place_group.size - 1), profile) is not None


def _ordered(places: Iterable[FaultPlace]) -> tuple[FaultPlace, ...]:
    return tuple(sorted(places, key=lambda s: (GROUPS.index(s.group), s.order)))


def _drawn(
    of_group: Sequence[PlaceGroup], profile: JobProfile, *, seed: int, limit: int
) -> Iterator[FaultPlace]:
    """Yield a group's places so that the first few of them are spread over epochs and ranks.

    The first one resumes from a checkpoint, if any does: a restart from scratch shows no
    defect of resuming.
    """
    draws = random.Random(f"{seed}:{of_group[0].group}")  # noqa: S311 (repeatable is the point)
    order = _spread(of_group, shift=draws.random())
    first = next((n for n, place_group in enumerate(order) if _resumes(place_group, profile)), 0)
    order.insert(0, order.pop(first))
    picks: dict[int, list[int]] = {}
    for turn in range(min(limit, max(place_group.size for place_group in of_group))):
        for number, place_group in enumerate(order):
            if turn >= place_group.size:
                continue
            if number not in picks:
                picks[number] = draws.sample(range(place_group.size), min(place_group.size, limit))
            yield place_group.place(picks[number][turn])


def _spread(of_group: Sequence[PlaceGroup], *, shift: float) -> list[PlaceGroup]:
    """Order groups so that epochs are spread evenly, and neighbours are of different ranks."""
    by_epoch: dict[int, list[PlaceGroup]] = {}
    for place_group in of_group:
        by_epoch.setdefault(place_group.epoch, []).append(place_group)
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


def _why_left_out(group: Group, profile: JobProfile) -> str:
    if profile.most_faults is not None and group in REPEATED:
        faults = plural(profile.most_faults, "fault")
        return f"as it is configured, the script begins again after {faults}, and it needs more"
    if profile.facts.lacks_part(needs(group)):
        return "it needs Ray Train"
    return _why_no_node(group, profile) or _why_none(group, profile)


def _why_no_node(group: Group, profile: JobProfile) -> str | None:
    """Return why the job has no places that take a node; None for a group that takes none."""
    if not profile.facts.lacks_part("queue"):
        return _IN_A_QUEUE.get(group)
    if profile.facts.restarts_elsewhere and group == "fewer workers after it":
        return "each start of the command has as many ranks"
    if needs_nodes(group) and not (profile.away or profile.facts.loses_nodes):
        return "the job has one node; --nodes 2 gives it two"
    if group == "fewer workers after it" and not profile.facts.loses_nodes:
        return "the job has a fixed number of nodes; --nodes 1:2 lets it go on with one"
    return None


def _why_none(group: Group, profile: JobProfile) -> str:
    if group in _NEEDS:
        return _NEEDS[group]
    if group in ("upload begins", "upload ends"):
        own = "none was seen: the script puts its checkpoints into storage by itself"
        return own if profile.saved else "no upload was seen"
    if group == SEVERAL:
        epochs = len({epoch for epoch, _ in profile.steps} or profile.epochs)
        return f"it needs three epochs with steps or reports; the job has {epochs}"
    if not profile.steps:
        return "no optimizer step was seen"
    if profile.by_clock and group in ("epoch boundary", "last epoch", "twice in one epoch"):
        return "the job reports by the clock: what comes after a report for sure is one step"
    longest = max(profile.steps.values())
    epochs = len(profile.epochs) or len({epoch for epoch, _ in profile.steps})
    return f"the job has {plural(epochs, 'epoch')} of up to {plural(longest, 'step')}"


_IN_A_QUEUE: Mapping[Group, str] = {
    **dict.fromkeys(OF_ERRORS, "Slurm starts no failed job again"),
    "notice before the loss": "no grace is given: --grace names the partition's GraceTime",
    "fewer workers after it": "each start of the job has as many nodes",
    "node lost": "the script asks for one node",
}
_NEEDS: Mapping[Group, str] = {
    "during validation": "the model that trains was not seen to be called in evaluation mode",
    "inside a save": "no file was seen to be written, renamed, linked or removed in training",
    "save fails beside training": "no sharded save was seen in a thread beside training",
    ANSWERS: "no object was seen to be put into a store in training",
    "loader process lost": "no process of a torch data loader was seen at a step",
    "inside a load": "no run with a fault was seen to read a file that was saved before",
    "notice before the loss": "training is over too soon after any place for a notice to run out",
    "fewer workers after it": "the job is not elastic: `num_workers` is a number, not (min, max)",
}
