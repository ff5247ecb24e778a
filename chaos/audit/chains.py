"""Several places of an audit in one run, as group testing has it (Dorfman, 1943).

Most restarts of most jobs are right, and a job that was restarted rightly continues as the
baseline does. So the same run can be given the next fault, once it has committed a checkpoint
after the restart: a run without a difference answers all its places. If it has one, each of its
places is tried again in a run of its own, and only those runs are evidence for a finding.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import isqrt

from chaos.audit.group import SEVERAL
from chaos.audit.job_profile import JobProfile
from chaos.audit.place_groups import Strike, place_in_training, point_before
from chaos.model.plan import Op
from chaos.model.trigger import AtRecovery

# More would save little: a run's own cost is spread over as many restarts.
LONGEST = 64


def longest_chain(*, wrong: int, tried: int) -> int:
    """Return how many places may share a run, by the share of places that came out wrong.

    With a share p of defective items, tests are fewest for groups of about 1/sqrt(p) (Dorfman,
    1943, "The detection of defective members of large populations").
    """
    return LONGEST if wrong == 0 else min(LONGEST, max(1, isqrt(tried // wrong)))


def chain_of(
    first: Strike, others: Iterable[Strike], profile: JobProfile, *, longest: int
) -> tuple[Strike, ...]:
    """Return a place and those of the others that can share a run with it, earlier ones first."""
    found = [first]
    if not _can_share(first):
        return (first,)
    for strike in others:
        if len(found) >= longest:
            break
        if not _can_share(strike) or (_costs_a_node(strike) and any(map(_costs_a_node, found))):
            continue
        more = sorted((*found, strike), key=lambda s: s.place)
        if all(_is_apart(one, next_one, profile) for one, next_one in pairwise(more)):
            found = more
    return tuple(found)


def joined(strikes: Sequence[Strike]) -> Strike:
    """Return places that share a run as one, with their ops in order; a single one as it is."""
    if len(strikes) == 1:
        return strikes[0]
    name = f"{len(strikes)} faults in one run, from {strikes[0].name} to {strikes[-1].name}"
    ops = list[Op]()
    for strike in strikes:
        ops += _renumbered(strike.ops, len(ops))
    return Strike(name, SEVERAL, tuple(ops))


def _renumbered(ops: Sequence[Op], first: int) -> list[Op]:
    found = []
    for op in ops:
        at = op.at
        if isinstance(at, AtRecovery):
            at = at.model_copy(update={"recovering_from": first + at.recovering_from})
        found.append(op.model_copy(update={"index": first + op.index, "at": at}))
    return found


def _can_share(strike: Strike) -> bool:
    """Return whether it says by itself when it happens, and leaves the cluster as it was.

    A notice runs out by the clock. A job that lost a node without a spare has fewer workers.
    """
    return strike.group != "fewer workers after it" and not any(
        op.fault.is_announced for op in strike.ops
    )


def _costs_a_node(strike: Strike) -> bool:
    """Return whether it takes the one spare node that a plan has."""
    return any(op.fault.nodes_lost for op in strike.ops)


def _is_apart(one: Strike, other: Strike, profile: JobProfile) -> bool:
    """Return whether a restart from the second resumes from a checkpoint made after the first."""
    point = point_before(other.ops[0], profile)
    if point is None:
        return False
    places = (op for op in one.ops if not isinstance(op.at, AtRecovery))
    return point > max(place_in_training(op, profile) for op in places)
