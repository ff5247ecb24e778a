"""Several places of an audit in one run, as group testing has it (Dorfman, 1943).

Most restarts of most jobs are right, and a job that was restarted rightly continues as the
baseline does. So the same run can be given the next fault, once it has committed a checkpoint
after the restart: a run without a difference answers all its places. If it has one, each of its
places is tried again in a run of its own, and only those runs are evidence for a finding.
"""

from collections.abc import Iterable, Sequence
from itertools import chain as chain_from
from itertools import islice, pairwise
from math import isqrt

from chaos.audit.job_profile import JobProfile
from chaos.audit.site_category import SEVERAL_FAULTS
from chaos.audit.site_groups import FaultSite, find_resume_point, find_training_place
from chaos.model.plan import Op
from chaos.model.trigger import AtRecovery

# More would save little: a run's own cost is spread over as many restarts.
LONGEST = 64
# The places of a group among which one that fits into a run is looked for.
CANDIDATES_MAX = 60


def longest_chain(*, wrong: int, tried: int) -> int:
    """Return how many places may share a run, by the share of places that came out wrong.

    With a share p of defective items, tests are fewest for groups of about 1/sqrt(p) (Dorfman,
    1943, "The detection of defective members of large populations").
    """
    return LONGEST if wrong == 0 else min(LONGEST, max(1, isqrt(tried // wrong)))


def build_chain(
    first_place: FaultSite, candidates: Iterable[FaultSite], profile: JobProfile, *, longest: int
) -> tuple[FaultSite, ...]:
    """Return a place and those of the others that can share a run with it, earlier ones first."""
    chain = [first_place]
    for place in candidates:
        if len(chain) >= longest:
            break
        if _can_join(place, chain, profile):
            chain.append(place)
    return tuple(sorted(chain, key=lambda place: place.order))


def order_chains(
    needed_places: Iterable[FaultSite], spare_places: Iterable[FaultSite], profile: JobProfile
) -> list[FaultSite]:
    """Return one place for each that is due, in an order by which they share the fewest runs.

    One that can share no run with those before it gives way to a spare one of its unit that can:
    an answer needs a place of each unit, and not that one. Those of several faults come first,
    which fit in least.
    """
    waiting, unused_places, ordered_places = (
        sorted(needed_places, key=lambda place: -len(place.ops)),
        [*spare_places],
        [],
    )
    while waiting:
        chain = [waiting.pop(0)]
        for place in [*waiting]:
            same_unit = (
                spare_place
                for spare_place in unused_places
                if spare_place.subgroup == place.subgroup
            )
            candidates = chain_from([place], islice(same_unit, CANDIDATES_MAX))
            fitting_place = next(
                (candidate for candidate in candidates if _can_join(candidate, chain, profile)),
                None,
            )
            if fitting_place is not None:
                waiting.remove(place)
                unused_places = [
                    spare_place for spare_place in unused_places if spare_place is not fitting_place
                ]
                chain.append(fitting_place)
        ordered_places += chain
    return ordered_places


def _can_join(place: FaultSite, chain: Sequence[FaultSite], profile: JobProfile) -> bool:
    """Return whether a place can share a run with those of a chain."""
    if not (can_share(place) and all(map(can_share, chain))):
        return False
    has_spares = not profile.facts.nodes.restarts_elsewhere
    if has_spares and _loses_node(place) and any(map(_loses_node, chain)):
        return False
    ordered_places = sorted((*chain, place), key=lambda member: member.order)
    index = next(n for n, member in enumerate(ordered_places) if member is place)
    neighbours = ordered_places[max(0, index - 1) : index + 2]  # the others are apart already
    return all(
        _has_middle_checkpoint(member, next_member, profile)
        for member, next_member in pairwise(neighbours)
    )


def join_places(places: Sequence[FaultSite]) -> FaultSite:
    """Return places that share a run as one, with their ops in order; a single one as it is."""
    if len(places) == 1:
        return places[0]
    name = f"{len(places)} faults in one run, from {places[0].name} to {places[-1].name}"
    ops = list[Op]()
    for place in places:
        ops += _renumber_ops(place.ops, len(ops))
    return FaultSite(name, SEVERAL_FAULTS, tuple(ops))


def _renumber_ops(ops: Sequence[Op], first_index: int) -> list[Op]:
    renumbered_ops = []
    for op in ops:
        trigger = op.at
        if isinstance(trigger, AtRecovery):
            trigger = trigger.replace(recovering_from=first_index + trigger.recovering_from)
        renumbered_ops.append(op.replace(index=first_index + op.index, at=trigger))
    return renumbered_ops


def can_share(place: FaultSite) -> bool:
    """Return whether it says by itself when it happens, and leaves the cluster as it was.

    A notice runs out by the clock, and a loader's loss is noticed some batches later, if it is. A
    job that lost a node without a spare has fewer workers.
    """
    return place.group != "fewer workers after it" and place.ends_attempts


def _loses_node(place: FaultSite) -> bool:
    """Return whether it takes a node, of which a plan may have one to spare."""
    return any(op.fault.lost_node_count for op in place.ops)


def _has_middle_checkpoint(
    first_place: FaultSite, second_place: FaultSite, profile: JobProfile
) -> bool:
    """Return whether a restart from the second resumes from a checkpoint made after the first."""
    point = find_resume_point(second_place.ops[0], profile)
    if point is None:
        return False
    ending_ops = (op for op in first_place.ops if not isinstance(op.at, AtRecovery))
    return point > max(find_training_place(op, profile) for op in ending_ops)
