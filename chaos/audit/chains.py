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

from chaos.audit.group import SEVERAL
from chaos.audit.job_profile import JobProfile
from chaos.audit.place_groups import FaultPlace, place_in_training, point_before
from chaos.model.plan import Op
from chaos.model.trigger import AtRecovery

# More would save little: a run's own cost is spread over as many restarts.
LONGEST = 64
# The places of a group among which one that fits into a run is looked for.
LIKELY = 60


def longest_chain(*, wrong: int, tried: int) -> int:
    """Return how many places may share a run, by the share of places that came out wrong.

    With a share p of defective items, tests are fewest for groups of about 1/sqrt(p) (Dorfman,
    1943, "The detection of defective members of large populations").
    """
    return LONGEST if wrong == 0 else min(LONGEST, max(1, isqrt(tried // wrong)))


def chain_of(
    first: FaultPlace, others: Iterable[FaultPlace], profile: JobProfile, *, longest: int
) -> tuple[FaultPlace, ...]:
    """Return a place and those of the others that can share a run with it, earlier ones first."""
    found = [first]
    for place in others:
        if len(found) >= longest:
            break
        if _fits(place, found, profile):
            found.append(place)
    return tuple(sorted(found, key=lambda place: place.order))


def fitted(
    due: Iterable[FaultPlace], spare: Iterable[FaultPlace], profile: JobProfile
) -> list[FaultPlace]:
    """Return one place for each that is due, in an order by which they share the fewest runs.

    One that can share no run with those before it gives way to a spare one of its unit that can:
    an answer needs a place of each unit, and not that one. Those of several faults come first,
    which fit in least.
    """
    waiting, left, found = sorted(due, key=lambda place: -len(place.ops)), [*spare], []
    while waiting:
        chain = [waiting.pop(0)]
        for place in [*waiting]:
            others = (other for other in left if other.unit == place.unit)
            likely = chain_from([place], islice(others, LIKELY))
            fit = next((one for one in likely if _fits(one, chain, profile)), None)
            if fit is not None:
                waiting.remove(place)
                left = [other for other in left if other is not fit]
                chain.append(fit)
        found += chain
    return found


def _fits(place: FaultPlace, chain: Sequence[FaultPlace], profile: JobProfile) -> bool:
    """Return whether a place can share a run with those of a chain."""
    if not (can_share(place) and all(map(can_share, chain))):
        return False
    has_spares = not profile.facts.restarts_elsewhere
    if has_spares and _costs_a_node(place) and any(map(_costs_a_node, chain)):
        return False
    more = sorted((*chain, place), key=lambda one: one.order)
    at = next(n for n, one in enumerate(more) if one is place)
    beside = more[max(0, at - 1) : at + 2]  # the others are apart already
    return all(_is_apart(one, other, profile) for one, other in pairwise(beside))


def joined(places: Sequence[FaultPlace]) -> FaultPlace:
    """Return places that share a run as one, with their ops in order; a single one as it is."""
    if len(places) == 1:
        return places[0]
    name = f"{len(places)} faults in one run, from {places[0].name} to {places[-1].name}"
    ops = list[Op]()
    for place in places:
        ops += _renumbered(place.ops, len(ops))
    return FaultPlace(name, SEVERAL, tuple(ops))


def _renumbered(ops: Sequence[Op], first: int) -> list[Op]:
    found = []
    for op in ops:
        at = op.at
        if isinstance(at, AtRecovery):
            at = at.model_copy(update={"recovering_from": first + at.recovering_from})
        found.append(op.model_copy(update={"index": first + op.index, "at": at}))
    return found


def can_share(place: FaultPlace) -> bool:
    """Return whether it says by itself when it happens, and leaves the cluster as it was.

    A notice runs out by the clock, and a loader's loss is noticed some batches later, if it is. A
    job that lost a node without a spare has fewer workers.
    """
    return place.group != "fewer workers after it" and place.ends_attempts


def _costs_a_node(place: FaultPlace) -> bool:
    """Return whether it takes a node, of which a plan may have one to spare."""
    return any(op.fault.nodes_lost for op in place.ops)


def _is_apart(one: FaultPlace, other: FaultPlace, profile: JobProfile) -> bool:
    """Return whether a restart from the second resumes from a checkpoint made after the first."""
    point = point_before(other.ops[0], profile)
    if point is None:
        return False
    ended = (op for op in one.ops if not isinstance(op.at, AtRecovery))
    return point > max(place_in_training(op, profile) for op in ended)
