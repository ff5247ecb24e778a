"""The kill map: every place of a job for a fault, or a sample that covers them."""

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from chaos.audit.card import GroupCoverage, SaveStep
from chaos.audit.job_profile import JobProfile
from chaos.audit.run_row import RunRow
from chaos.audit.site_category import (
    INSIDE_LOAD,
    INSIDE_SAVE,
    PUT_ANSWER_LOST,
    SEVERAL_FAULTS,
    SEVERAL_RETRIES_CATEGORIES,
    SITE_CATEGORIES,
    SiteCategory,
    list_site_categories,
    needs_nodes,
)
from chaos.audit.site_groups import FaultSite, SiteGroup, SiteSubgroup, build_place_groups
from chaos.audit.site_order import find_last_resume_point, interleave_queues, spread_numbers
from chaos.audit.table import count_places_by_column
from chaos.model.places import EpochRank
from chaos.model.trigger import AtRecovery, AtStep, Trigger
from chaos.wording import plural

# Of the places at steps: a job of thousands is sampled, as each is a run.
STEP_PLACES_MAX = 96


def choose_fault_sites(
    profile: JobProfile,
    *,
    seed: int,
    exhaustive: bool = False,
    limit: int = STEP_PLACES_MAX,
    wanted_groups: Collection[SiteCategory] = SITE_CATEGORIES,
) -> tuple[FaultSite, ...]:
    """Return the places of a job with their ops, in the order of groups and places.

    Returns every place, if the job makes at most `limit` steps on all ranks together or
    with `exhaustive`; otherwise about `limit` of them, drawn from the seed: of every group
    that the job has, spread over its epochs and ranks. Places inside loads are known only
    after a restart. They are sampled separately (the average number per group), so that
    discovering them does not change the rest of the sample.
    """
    chosen_groups = [
        group for group in build_place_groups(profile, seed=seed) if group.category in wanted_groups
    ]
    if exhaustive or profile.step_place_count <= limit:
        return _sort_places(
            group.make_site(n) for group in chosen_groups for n in range(group.size)
        )
    groups_by_subgroup: dict[SiteSubgroup, list[SiteGroup]] = {}
    for place_group in sorted(
        chosen_groups, key=lambda group: SITE_CATEGORIES.index(group.category)
    ):
        groups_by_subgroup.setdefault(place_group.subgroup, []).append(place_group)
    load_groups = groups_by_subgroup.pop((INSIDE_LOAD, "", ""), [])
    queues = [
        _draw_places(subgroup_groups, profile, seed=seed, limit=limit)
        for subgroup_groups in groups_by_subgroup.values()
    ]
    places = [*islice(interleave_queues(queues), max(limit, len(queues)))]
    if load_groups:
        share = max(1, limit // max(1, len(queues)))
        places += islice(_draw_places(load_groups, profile, seed=seed, limit=limit), share)
    return _sort_places(places)


def find_existing_sites(
    profile: JobProfile, earlier_places: Collection[FaultSite], *, seed: int
) -> Iterator[FaultSite]:
    """Yield those places of an earlier audit that the job has now.

    Places with several faults were drawn from the seed, so a job of another length yields different
    ones. Those of the earlier audit are kept if the job still reaches each of their triggers.
    """
    keys, epochs = (
        {place.key for place in earlier_places},
        {place.epoch for place in earlier_places},
    )
    groups = (
        place_group
        for place_group in build_place_groups(profile, seed=seed)
        if place_group.epoch in epochs
    )
    all_places = (
        place_group.make_site(number)
        for place_group in groups
        for number in range(place_group.size)
    )
    existing_places = {place.key: place for place in all_places if place.key in keys}
    yield from existing_places.values()
    for place in earlier_places:
        is_drawn = len(place.ops) > 1 and place.key not in existing_places
        if is_drawn and all(_can_reach_trigger(profile, op.at) for op in place.ops):
            yield place


def _can_reach_trigger(profile: JobProfile, trigger: Trigger) -> bool:
    """Return whether training comes by a place, as far as a clean run can tell."""
    if isinstance(trigger, AtRecovery):
        return True
    if isinstance(trigger, AtStep):
        return trigger.step <= profile.steps.get(EpochRank(trigger.epoch, trigger.rank or 0), 0)
    return trigger.epoch < profile.epoch_count and trigger.rank in profile.ranks


def count_coverage(
    profile: JobProfile,
    places: Sequence[FaultSite],
    runs: Sequence[RunRow] = (),
    *,
    seed: int,
) -> tuple[GroupCoverage, ...]:
    """Count, for each group, all places, those that were chosen, and those that were tried."""
    all_groups, rows = build_place_groups(profile, seed=seed), []
    for group in list_site_categories(profile.facts):
        matching_groups = [
            place_group for place_group in all_groups if place_group.category == group
        ]
        by_epoch = Counter[int]()
        for place_group in matching_groups:
            by_epoch[place_group.epoch] += place_group.size
        rows.append(
            GroupCoverage(
                group=group,
                tried=sum(run.group == group and not run.is_combined for run in runs),
                chosen=sum(place.group == group for place in places),
                places=by_epoch.total(),
                why_none=None if matching_groups else _explain_omission(group, profile),
                resumes=any(_can_resume(place_group, profile) for place_group in matching_groups),
                by_column=count_places_by_column(by_epoch, profile.epoch_count),
            )
        )
    return tuple(rows)


def count_save_operations(
    profile: JobProfile, runs: Sequence[RunRow], *, seed: int
) -> tuple[SaveStep, ...]:
    """Return the operations of a save, in their order, with the runs that had a fault there."""
    units = {place_group.subgroup for place_group in build_place_groups(profile, seed=seed)}
    steps = []
    for operation in profile.operations:
        unit: SiteSubgroup = INSIDE_SAVE, operation.moment, operation.trigger_path or ""
        operation_runs = [run for run in runs if run.place.subgroup == unit and not run.is_combined]
        if unit in units:
            wrong_count = sum(run.is_wrong for run in operation_runs)
            tried_count = sum(run.is_tried for run in operation_runs)
            steps.append(SaveStep(name=str(operation), tried=tried_count, wrong=wrong_count))
    return tuple(steps)


def _can_resume(place_group: SiteGroup, profile: JobProfile) -> bool:
    """Return whether a restart resumes from a checkpoint at the last of its places."""
    return find_last_resume_point(place_group.make_site(place_group.size - 1), profile) is not None


def _sort_places(places: Iterable[FaultSite]) -> tuple[FaultSite, ...]:
    return tuple(sorted(places, key=lambda s: (SITE_CATEGORIES.index(s.group), s.order)))


def _draw_places(
    unit_groups: Sequence[SiteGroup], profile: JobProfile, *, seed: int, limit: int
) -> Iterator[FaultSite]:
    """Yield a group's places so that the first few of them are spread over epochs and ranks.

    The first one resumes from a checkpoint, if any does: a restart from scratch shows no
    defect of resuming.
    """
    draws = random.Random(f"{seed}:{unit_groups[0].category}")  # noqa: S311 (repeatable is the point)
    order = _spread_groups(unit_groups, shift=draws.random())
    first = next((n for n, place_group in enumerate(order) if _can_resume(place_group, profile)), 0)
    order.insert(0, order.pop(first))
    picks: dict[int, list[int]] = {}
    for turn in range(min(limit, max(place_group.size for place_group in unit_groups))):
        for number, place_group in enumerate(order):
            if turn >= place_group.size:
                continue
            if number not in picks:
                picks[number] = draws.sample(range(place_group.size), min(place_group.size, limit))
            yield place_group.make_site(picks[number][turn])


def _spread_groups(unit_groups: Sequence[SiteGroup], *, shift: float) -> list[SiteGroup]:
    """Order groups so that epochs are spread evenly, and neighbours are of different ranks."""
    by_epoch: dict[int, list[SiteGroup]] = {}
    for place_group in unit_groups:
        by_epoch.setdefault(place_group.epoch, []).append(place_group)
    groups_by_epoch = [row for _, row in sorted(by_epoch.items())]
    order = spread_numbers(len(groups_by_epoch), shift=shift)
    turns = range(max(len(row) for row in groups_by_epoch))
    positions = (
        (groups_by_epoch[n], (turn + offset) % len(groups_by_epoch[n]))
        for turn in turns
        for offset, n in enumerate(order)
        if turn < len(groups_by_epoch[n])
    )
    return [row[index] for row, index in positions]


def _explain_omission(group: SiteCategory, profile: JobProfile) -> str:
    if profile.most_faults is not None and group in SEVERAL_RETRIES_CATEGORIES:
        faults = plural(profile.most_faults, "fault")
        return f"as it is configured, the script begins again after {faults}, and it needs more"
    if (reason := profile.facts.sites.unavailable.get(group)) is not None:
        return reason
    node_reason = profile.facts.explain_missing_node(
        group, needs_node=needs_nodes(group), has_remote_ranks=bool(profile.remote_ranks)
    )
    return node_reason or _explain_no_place(group, profile)


def _explain_no_place(group: SiteCategory, profile: JobProfile) -> str:
    if group in _OMISSION_REASONS:
        return _OMISSION_REASONS[group]
    if group in ("upload begins", "upload ends"):
        storage_reason = "none was seen: the script puts its checkpoints into storage by itself"
        return storage_reason if profile.saved_epochs else "no upload was seen"
    if group == SEVERAL_FAULTS:
        epochs = len({epoch for epoch, _ in profile.steps} or profile.epochs)
        return f"it needs three epochs with steps or reports; the job has {epochs}"
    if not profile.steps:
        return "no optimizer step was seen"
    if profile.reports_by_clock and group in ("epoch boundary", "last epoch", "twice in one epoch"):
        return "the job reports by the clock: what comes after a report for sure is one step"
    longest_epoch = max(profile.steps.values())
    epochs = len(profile.epochs) or len({epoch for epoch, _ in profile.steps})
    return f"the job has {plural(epochs, 'epoch')} of up to {plural(longest_epoch, 'step')}"


_OMISSION_REASONS: Mapping[SiteCategory, str] = {
    "during validation": "the model that trains was not seen to be called in evaluation mode",
    "inside a save": "no file was seen to be written, renamed, linked or removed in training",
    "save fails beside training": "no sharded save was seen in a thread beside training",
    PUT_ANSWER_LOST: "no object was seen to be put into a store in training",
    "loader process lost": "no process of a torch data loader was seen at a step",
    "inside a load": "no run with a fault was seen to read a file that was saved before",
    "notice before the loss": "training is over too soon after any place for a notice to run out",
    "fewer workers after it": "the job is not elastic: `num_workers` is a number, not (min, max)",
}
