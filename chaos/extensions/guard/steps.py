"""The steps after a restart, compared with those that an earlier start made after the same save."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from math import comb, frexp, isclose
from statistics import fmean, quantiles

import msgspec

from chaos.check.trained_again import describe_repeated_samples
from chaos.extensions.guard.records import GuardFinding, RankStep

REPLAYED_MAX = 64  # steps after which a restart has been seen for long enough
SHIFT_STEPS = 4  # in a row whose inputs are those of other steps
BLOCK = 8
WINDOW_MIN = 128
RARE = 1e-3
# Of a loss in 32 bits. DDP adds up gradients in another order in its first step (torch 2.13, which
# makes its buckets anew after it): with three ranks or more, rounding differs from there on.
ROUNDING = 1e-5
HALF_BITS = 11  # of the mantissa of a number of 16 bits; bfloat16 has eight
_DIGITS = 8


def salt_step(step: RankStep, salt: bytes) -> RankStep:
    """Return a step whose inputs are known by digests that are keyed by a salt of at most 64 bytes.

    A digest of a sample that is not keyed could be looked up in a list of those of known samples.
    """
    return msgspec.structs.replace(
        step,
        inputs=_salt_digest(step.inputs, salt),
        samples="".join(_salt_digest(digest, salt) for digest in split_samples(step)),
    )


def _salt_digest(digest: str, salt: bytes) -> str:
    size = len(digest) // 2
    return hashlib.blake2b(digest.encode(), digest_size=size, key=salt).hexdigest() if size else ""


def name_salt(salt: bytes) -> str:
    """Return the name of a salt, which does not tell it."""
    return hashlib.blake2b(salt, digest_size=4).hexdigest()


@dataclass(frozen=True)
class RepeatedTrainingSteps:
    """The steps that two starts have made after one save."""

    step_count: int
    same_inputs: int
    same_losses: int
    #: the first step with the same inputs and another loss, rounding apart, and both losses
    first_difference: tuple[int, float, float] | None = None
    #: those whose loss is the same one, rounding apart; to the last bit where no inputs are seen
    equal_losses: int = 0
    #: the last step before which, and in which, all is the same to the last bit; 0 without one, or
    #: where losses have so few bits that most changes of the weights move none of them
    last_equal_step: int = 0
    #: all steps of the restart so far are the same, and the earlier start made more of them
    is_unfinished: bool = False


def compare_replay(
    old_steps: Sequence[RankStep], new_steps: Sequence[RankStep]
) -> RepeatedTrainingSteps:
    """Compare the steps of a restart with those of the same numbers of an earlier start."""
    old_by_number = {step.number: step for step in old_steps}
    step_pairs = (
        (old_by_number[step.number], step) for step in new_steps if step.number in old_by_number
    )
    # An optimizer that wraps another one makes a step of its own, without inputs and losses.
    pairs = [(a, b) for a, b in step_pairs if _has_evidence(a) or _has_evidence(b)]
    equal_input_pairs = [(a, b) for a, b in pairs if a.inputs and a.inputs == b.inputs]
    loss_differences = (
        (b.number, a.loss, b.loss)
        for a, b in equal_input_pairs
        if a.loss is not None
        and b.loss is not None
        and not isclose(a.loss, b.loss, rel_tol=ROUNDING)
    )
    same_loss_count = sum(a.loss is not None and a.loss == b.loss for a, b in equal_input_pairs)
    equal_steps = [b for a, b in takewhile(_is_equal, pairs)]
    is_from_first = bool(new_steps) and new_steps[0].number in old_by_number
    is_known = is_from_first and any(map(_has_fine_loss, equal_steps))
    return RepeatedTrainingSteps(
        len(pairs),
        len(equal_input_pairs),
        same_loss_count,
        next(loss_differences, None),
        equal_losses=sum(_is_nearly_equal(pair) or _is_equal(pair) for pair in pairs),
        last_equal_step=equal_steps[-1].number if is_known else 0,
        is_unfinished=len(equal_steps) == len(pairs) and _has_later_steps(old_steps, new_steps),
    )


def _has_evidence(step: RankStep) -> bool:
    return bool(step.inputs) or step.loss is not None


def _is_equal(pair: tuple[RankStep, RankStep]) -> bool:
    a, b = pair
    return a.inputs == b.inputs and a.loss is not None and a.loss == b.loss


def _has_fine_loss(step: RankStep) -> bool:
    """Return whether a loss has more bits than a number of 16 bits could."""
    return step.loss is not None and frexp(step.loss)[0] * 2**HALF_BITS % 1 != 0


def _is_nearly_equal(pair: tuple[RankStep, RankStep]) -> bool:
    a, b = pair
    if not a.inputs or a.inputs != b.inputs or a.loss is None or b.loss is None:
        return False
    return isclose(a.loss, b.loss, rel_tol=ROUNDING)


def _has_later_steps(old_steps: Sequence[RankStep], new_steps: Sequence[RankStep]) -> bool:
    return bool(old_steps) and (not new_steps or old_steps[-1].number > new_steps[-1].number)


def has_continuous_inputs(old_steps: Sequence[RankStep], new_steps: Sequence[RankStep]) -> bool:
    """Return whether a restart begins with the inputs that were next, as far as steps show it.

    They are those that the earlier start had next. Where it came to no other step, they are none
    that it had before, and none of their samples was trained in the pass.
    """
    first_step = next(iter(new_steps), None)
    if first_step is None or not first_step.inputs:
        return False
    old_inputs = {step.number: step.inputs for step in old_steps}
    if first_step.number in old_inputs:
        return old_inputs[first_step.number] == first_step.inputs
    if first_step.inputs in old_inputs.values():
        return False
    return first_step.begins or _find_earlier_samples(old_steps, first_step.number).isdisjoint(
        split_samples(first_step)
    )


def find_data_defects(
    old_steps: Sequence[RankStep], new_steps: Sequence[RankStep], generators: Sequence[str] | None
) -> Iterator[GuardFinding]:
    """Yield what the inputs after a restart show: samples that are trained twice, or passed over.

    `old_steps` are those of the earlier start, before the save and after it, `new_steps` those
    since the restart. Nothing is said where the earlier start shows no other step after the save.
    `generators` are those that did not go on, None where that is not known.
    """
    old_by_number = {step.number: step for step in old_steps}
    first_step = next(iter(new_steps), None)
    if first_step is None or first_step.number not in old_by_number or not first_step.inputs:
        return
    if old_by_number[first_step.number].inputs == first_step.inputs:
        return
    shift = _find_shift(old_by_number, new_steps)
    if shift is not None:
        last_number = [step for step in new_steps if step.inputs][SHIFT_STEPS - 1].number
        shift_text = (
            f"data: steps {first_step.number} to {last_number} have the inputs that steps "
            f"{first_step.number + shift} to {last_number + shift} had before the restart"
        )
        if generators != () and _begins_repeated_pass(old_steps, first_step.number, shift):
            reason = f"; {describe_stopped(generators)}" if generators else ""
            yield GuardFinding("notice", "data", f"{shift_text}{reason}")
            return
        consequence = (
            "are trained again" if shift < 0 else "follow, and those between were passed over"
        )
        yield GuardFinding("mismatch", "data", f"{shift_text}: these {consequence}")
        return
    yield from _find_repeated_samples(old_steps, new_steps, first_step.number)


def _find_shift(old_by_number: Mapping[int, RankStep], new_steps: Sequence[RankStep]) -> int | None:
    """Return by how many steps the inputs are those of others; None if they are of none."""
    first_steps = [step for step in new_steps if step.inputs][:SHIFT_STEPS]
    if len(first_steps) < SHIFT_STEPS:
        return None
    first_step = first_steps[0]
    shifts = [
        number - first_step.number
        for number, step in old_by_number.items()
        if step.inputs == first_step.inputs
    ]
    matching_shifts = [
        shift
        for shift in shifts
        if all(
            _find_inputs(old_by_number, step.number + shift) == step.inputs for step in first_steps
        )
    ]
    return min(matching_shifts, key=abs, default=None)


def _find_inputs(steps: Mapping[int, RankStep], number: int) -> str | None:
    return steps[number].inputs if number in steps else None


def _begins_repeated_pass(old_steps: Sequence[RankStep], first_number: int, shift: int) -> bool:
    """Return whether a pass over the data begins at a step, in the order of an earlier pass.

    So it is in a job that saves between passes and seeds itself alike at each start: nothing is
    lost. Not if the pass right before is made again, unless the start before began with that one:
    then both have the order of a start.
    """
    shifted_number, old_by_number = first_number + shift, {step.number: step for step in old_steps}
    if shift > 0 or not _begins_pass(old_steps, old_by_number[first_number]):
        return False
    if shifted_number == min(old_by_number):
        return True
    steps_between = [step for step in old_steps if shifted_number <= step.number < first_number]
    samples = [sample for step in steps_between for sample in split_samples(step)]
    is_of_one_pass = len(samples) == len(set(samples)) and not any(
        step_between.begins for step_between in steps_between[1:]
    )
    return not is_of_one_pass and _begins_pass(old_steps, old_by_number[shifted_number])


def describe_stopped(generators: Sequence[str]) -> str:
    """Return that generators begin anew, or drew once more, in words."""
    return f"{', '.join(generators)} did not go on where they stood"


def _begins_pass(old_steps: Sequence[RankStep], step: RankStep) -> bool:
    """Return whether a step begins a pass: by its loader, or by samples of the pass before."""
    return step.begins or not _find_earlier_samples(old_steps, step.number).isdisjoint(
        split_samples(step)
    )


def _find_repeated_samples(
    old_steps: Sequence[RankStep], new_steps: Sequence[RankStep], first_number: int
) -> Iterator[GuardFinding]:
    """Yield that most samples of the first steps had been trained before the save.

    Not where a loader's pass begins with the first of them.
    """
    later_steps = [step for step in old_steps if step.number >= first_number][: len(new_steps)]
    later_samples = [sample for step in later_steps for sample in split_samples(step)]
    resumed_samples = [sample for step in new_steps for sample in split_samples(step)]
    pass_samples = _find_earlier_samples(old_steps, first_number)
    text = describe_repeated_samples(
        resumed_samples, pass_samples, later_samples, source_text="before the restart"
    )
    if text is not None and not later_steps[0].begins:
        yield GuardFinding("mismatch", "data", f"data: {text}")


def _find_earlier_samples(old_steps: Sequence[RankStep], first_number: int) -> set[str]:
    """Return the samples of the pass over the data that a step lies in, as far as none repeats."""
    pass_samples: set[str] = set()
    for step in sorted(
        (old_step for old_step in old_steps if old_step.number < first_number),
        key=lambda old_step: -old_step.number,
    ):
        step_samples = split_samples(step)
        if not step_samples or not pass_samples.isdisjoint(step_samples):
            break
        pass_samples.update(step_samples)
    return pass_samples


def split_samples(step: RankStep) -> list[str]:
    """Return the digests of a step's samples."""
    return [
        step.samples[offset : offset + _DIGITS] for offset in range(0, len(step.samples), _DIGITS)
    ]


def find_loss_defects(
    replay: RepeatedTrainingSteps,
    window: Sequence[float],
    new_steps: Sequence[RankStep],
    generators: Sequence[str] | None,
    *,
    is_same_state: bool,
) -> Iterator[GuardFinding]:
    """Yield what the losses after a restart show, beside what state and data do.

    With the same state and inputs the losses are compared one by one. Else those of the first
    `BLOCK` steps are compared with the `window` of losses before the save.
    """
    if replay.first_difference is not None and is_same_state:
        number, expected_loss, actual_loss = replay.first_difference
        text = (
            f"losses: {actual_loss:.6g} at step {number}, where it was {expected_loss:.6g} with "
            "the same inputs"
        )
        if generators:
            yield GuardFinding("notice", "generators", f"{text}; {describe_stopped(generators)}")
        elif abs(actual_loss - expected_loss) > 1e-3 * max(abs(expected_loss), 1e-6):
            yield GuardFinding("notice", "loss", text)
        return
    first_losses = [step.loss for step in new_steps if step.loss is not None][:BLOCK]
    if replay.same_losses or not has_risen(first_losses, window):
        return
    highest_mean = max(compute_means(window))
    yield GuardFinding(
        "notice",
        "loss",
        f"losses: {fmean(first_losses):.6g} is the mean of the first {BLOCK} steps, above that of "
        "any "
        f"{BLOCK} of the {len(window)} steps before the save (most {highest_mean:.6g})",
    )


def has_risen(first_losses: Sequence[float], window: Sequence[float]) -> bool:
    """Return whether `BLOCK` losses lie above those of a window before them.

    Each of them lies above so high a loss of the window that `RARE` of all orders of these losses
    have that, or fewer: if they come in any order alike, this is how often it errs, whatever
    their distribution (exceedances: Gumbel and von Schelling 1950). Losses of steps near to each
    other may be alike, so their mean must lie above every mean of as many in the window too, by
    more than the distance between the quartiles of these.
    """
    if len(first_losses) < BLOCK or len(window) < WINDOW_MIN:
        return False
    if min(first_losses) <= sorted(window)[-_find_rank_position(len(window))]:
        return False
    means = compute_means(window)
    low, _, high = quantiles(means, n=4)
    return fmean(first_losses) > max(means) + (high - low)


@cache
def _find_rank_position(count: int) -> int:
    """Return the last place, from the highest, of a window's loss that is rarely below all."""
    orders = RARE * comb(count + BLOCK, BLOCK)
    return max(
        rank_position
        for rank_position in range(1, count)
        if comb(BLOCK + rank_position - 1, BLOCK) <= orders
    )


def compute_means(window: Sequence[float]) -> list[float]:
    """Return the means of all `BLOCK` losses in a row."""
    return [fmean(window[offset : offset + BLOCK]) for offset in range(len(window) - BLOCK + 1)]
