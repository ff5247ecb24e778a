"""The pass over the data that a restart fell into, judged once it is over.

That every sample of a pass is due is not taken for granted: only where the start before had made
two passes at least from its beginning to the save, and all of them have the same samples, each
once. A sampler that drops the last batch, draws with replacement, takes a part of the data for each
pass, or data that are augmented at random show no such passes, and a stream shows none at all.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from chaos.check.trained_again import SAMPLES_MIN
from chaos.guard.records import Finding, Step
from chaos.guard.steps import samples_of

WHOLE_MIN = 2  # passes that have to be the same

#: the samples of all ranks, by the number of their step
ByStep = Mapping[int, Sequence[str]]


def by_step(of_ranks: Sequence[Sequence[Step]]) -> ByStep:
    """Return the samples of all ranks in each step that every rank has a record of."""
    own = [{step.number: samples_of(step) for step in steps} for steps in of_ranks]
    common = set[int].intersection(*(set(steps) for steps in own)) if own else set[int]()
    return {
        number: [one for steps in own for one in steps[number]]
        for number in sorted(common)
        if all(steps[number] for steps in own)
    }


@dataclass(frozen=True)
class _Pass:
    """The pass in which a save was made, as the start that made it shows it."""

    #: of a whole pass
    samples: frozenset[str]
    #: up to the save, and in the steps after it that were lost
    trained: frozenset[str]
    lost: frozenset[str]


def pass_findings(old: ByStep, new: ByStep, save: int) -> Iterator[Finding]:
    """Yield that samples were left out of the pass in which a save was made, once that is over.

    `old` are the steps of the start that made it, `new` those of the restart. A pass is over with
    the first step that has a sample of it once more.
    """
    known = _pass_of(old, save)
    seen = set[str]()
    number = save + 1
    while known is not None and number in new:
        own = new[number]
        if not known.samples.issuperset(own):
            return  # another part of the data
        if not (known.trained | seen).isdisjoint(own):
            yield _left_out(known, seen, number)
            return
        seen.update(own)
        if len(known.trained) + len(seen) == len(known.samples):
            return
        number += 1


def _left_out(known: _Pass, seen: set[str], number: int) -> Finding:
    """Return that a pass was over, with a step, before all of its samples were trained.

    If those that are missing were all trained in steps that were lost, the data went on where the
    start before had ended, and not where its save was. Else the pass may have been begun anew, as
    some jobs mean to: it looks like the next one.
    """
    missing = known.samples - known.trained - seen
    of = f"{len(missing)} of the {len(known.samples)} samples that each pass before had"
    if seen and missing <= known.lost:
        return Finding(
            "mismatch",
            "data",
            f"data: {of} were not trained in the pass in which the save was made: steps after the "
            "save had trained them, and these were lost",
        )
    return Finding(
        "notice",
        "data",
        f"data: step {number} trains samples once more in the pass in which the save was made, "
        f"before {of} were trained in it",
    )


def _pass_of(old: ByStep, save: int) -> _Pass | None:
    """Return the pass that a save lies in; None if passes are not seen to be all the same."""
    passes = _passes(old, save)
    if passes is None or len(passes) <= WHOLE_MIN:
        return None
    *whole, current = passes
    every = whole[0]
    is_exact = all(one == every for one in whole) and current < every
    if not is_exact or len(current) < SAMPLES_MIN:
        return None
    lost = set[str]()
    number = save + 1
    while number in old and (current | lost).isdisjoint(old[number]):
        lost.update(old[number])
        number += 1
    if not lost <= every:
        return None
    return _Pass(frozenset(every), frozenset(current), frozenset(lost))


def _passes(old: ByStep, last: int) -> list[set[str]] | None:
    """Return the samples of each pass up to a step; the last of them may have been going on.

    None if a step is not known, or has a sample twice.
    """
    found: list[set[str]] = []
    for number in range(min(old, default=last + 1), last + 1):
        own = old.get(number, ())
        if not own or len(set(own)) < len(own):
            return None
        if not found or not found[-1].isdisjoint(own):
            found.append(set())
        found[-1].update(own)
    return found
