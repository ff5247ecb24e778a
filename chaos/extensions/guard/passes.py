"""The pass over the data that a restart fell into, judged once it is over.

That every sample of a pass is due is not taken for granted: only where the start before had made
two passes at least from its beginning to the save, and all of them have the same samples, each
once. A sampler that drops the last batch, draws with replacement, takes a part of the data for each
pass, or data that are augmented at random show no such passes, and a stream shows none at all.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from chaos.check.trained_again import SAMPLES_MIN
from chaos.extensions.guard.records import GuardFinding, RankStep
from chaos.extensions.guard.steps import split_samples

WHOLE_MIN = 2  # passes that have to be the same

#: the samples of all ranks, by the number of their step
ByStep = Mapping[int, Sequence[str]]


def group_samples(rank_steps: Sequence[Sequence[RankStep]]) -> ByStep:
    """Return the samples of all ranks in each step that every rank has a record of."""
    rank_samples = [{step.number: split_samples(step) for step in steps} for steps in rank_steps]
    common_steps = (
        set[int].intersection(*(set(steps) for steps in rank_samples))
        if rank_samples
        else set[int]()
    )
    return {
        number: [sample for steps in rank_samples for sample in steps[number]]
        for number in sorted(common_steps)
        if all(steps[number] for steps in rank_samples)
    }


@dataclass(frozen=True)
class _Pass:
    """The pass in which a save was made, as the start that made it shows it."""

    #: of a whole pass
    samples: frozenset[str]
    #: up to the save, and in the steps after it that were lost
    trained_samples: frozenset[str]
    lost_samples: frozenset[str]


def find_pass_defects(
    old_samples: ByStep, new_samples: ByStep, save_step: int
) -> Iterator[GuardFinding]:
    """Yield that samples were left out of the pass in which a save was made, once that is over.

    `old_samples` are those of the start that made it, `new_samples` those of the restart. A pass is
    over with the first step that has a sample of it once more.
    """
    current_pass = _find_pass(old_samples, save_step)
    trained_samples = set[str]()
    number = save_step + 1
    while current_pass is not None and number in new_samples:
        step_samples = new_samples[number]
        if not current_pass.samples.issuperset(step_samples):
            return  # another part of the data
        if not (current_pass.trained_samples | trained_samples).isdisjoint(step_samples):
            yield _describe_omission(current_pass, trained_samples, number)
            return
        trained_samples.update(step_samples)
        if len(current_pass.trained_samples) + len(trained_samples) == len(current_pass.samples):
            return
        number += 1


def _describe_omission(current_pass: _Pass, trained_samples: set[str], step: int) -> GuardFinding:
    """Return that a pass was over, with a step, before all of its samples were trained.

    If those that are missing were all trained in steps that were lost, the data went on where the
    start before had ended, and not where its save was. Else the pass may have been begun anew, as
    some jobs mean to: it looks like the next one.
    """
    missing = current_pass.samples - current_pass.trained_samples - trained_samples
    missing_text = (
        f"{len(missing)} of the {len(current_pass.samples)} samples that each pass before had"
    )
    if trained_samples and missing <= current_pass.lost_samples:
        return GuardFinding(
            "mismatch",
            "data",
            f"data: {missing_text} were not trained in the pass in which the save was made: steps "
            "after the "
            "save had trained them, and these were lost",
        )
    return GuardFinding(
        "notice",
        "data",
        f"data: step {step} trains samples once more in the pass in which the save was made, "
        f"before {missing_text} were trained in it",
    )


def _find_pass(old_samples: ByStep, save_step: int) -> _Pass | None:
    """Return the pass that a save lies in; None if passes are not seen to be all the same."""
    passes = _split_passes(old_samples, save_step)
    if passes is None or len(passes) <= WHOLE_MIN:
        return None
    *whole_passes, current_samples = passes
    pass_samples = whole_passes[0]
    is_exact = (
        all(whole_pass == pass_samples for whole_pass in whole_passes)
        and current_samples < pass_samples
    )
    if not is_exact or len(current_samples) < SAMPLES_MIN:
        return None
    lost_samples = set[str]()
    number = save_step + 1
    while number in old_samples and (current_samples | lost_samples).isdisjoint(
        old_samples[number]
    ):
        lost_samples.update(old_samples[number])
        number += 1
    if not lost_samples <= pass_samples:
        return None
    return _Pass(frozenset(pass_samples), frozenset(current_samples), frozenset(lost_samples))


def _split_passes(old_samples: ByStep, last_step: int) -> list[set[str]] | None:
    """Return the samples of each pass up to a step; the last of them may have been going on.

    None if a step is not known, or has a sample twice.
    """
    passes: list[set[str]] = []
    for number in range(min(old_samples, default=last_step + 1), last_step + 1):
        step_samples = old_samples.get(number, ())
        if not step_samples or len(set(step_samples)) < len(step_samples):
            return None
        if not passes or not passes[-1].isdisjoint(step_samples):
            passes.append(set())
        passes[-1].update(step_samples)
    return passes
