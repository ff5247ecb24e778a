"""The steps after a restart, compared with those that an earlier start made after the same save."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from math import comb, frexp, isclose
from statistics import fmean, quantiles

import msgspec

from chaos.check.trained_again import describe_samples_trained_again
from chaos.guard.records import Finding, Step

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


def salted(step: Step, salt: bytes) -> Step:
    """Return a step whose inputs are known by digests that are keyed by a salt of at most 64 bytes.

    A digest of a sample that is not keyed could be looked up in a list of those of known samples.
    """
    return msgspec.structs.replace(
        step,
        inputs=_keyed(step.inputs, salt),
        samples="".join(_keyed(one, salt) for one in samples_of(step)),
    )


def _keyed(digest: str, salt: bytes) -> str:
    size = len(digest) // 2
    return hashlib.blake2b(digest.encode(), digest_size=size, key=salt).hexdigest() if size else ""


def name_of(salt: bytes) -> str:
    """Return the name of a salt, which does not tell it."""
    return hashlib.blake2b(salt, digest_size=4).hexdigest()


@dataclass(frozen=True)
class Replay:
    """The steps that two starts have made after one save."""

    steps: int
    same_inputs: int
    same_losses: int
    #: the first step with the same inputs and another loss, rounding apart, and both losses
    differs: tuple[int, float, float] | None = None
    #: those whose loss is the same one, rounding apart; to the last bit where no inputs are seen
    equal_losses: int = 0
    #: the last step before which, and in which, all is the same to the last bit; 0 without one, or
    #: where losses have so few bits that most changes of the weights move none of them
    equal_until: int = 0
    #: all steps of the restart so far are the same, and the earlier start made more of them
    is_unfinished: bool = False


def replay_of(old: Sequence[Step], new: Sequence[Step]) -> Replay:
    """Compare the steps of a restart with those of the same numbers of an earlier start."""
    before = {step.number: step for step in old}
    every = ((before[step.number], step) for step in new if step.number in before)
    # An optimizer that wraps another one makes a step of its own, without inputs and losses.
    pairs = [(a, b) for a, b in every if _shows_anything(a) or _shows_anything(b)]
    alike = [(a, b) for a, b in pairs if a.inputs and a.inputs == b.inputs]
    differing = (
        (b.number, a.loss, b.loss)
        for a, b in alike
        if a.loss is not None
        and b.loss is not None
        and not isclose(a.loss, b.loss, rel_tol=ROUNDING)
    )
    same = sum(a.loss is not None and a.loss == b.loss for a, b in alike)
    equal = [b for a, b in takewhile(_is_equal, pairs)]
    is_from_first = bool(new) and new[0].number in before
    is_known = is_from_first and any(map(_is_fine, equal))
    return Replay(
        len(pairs),
        len(alike),
        same,
        next(differing, None),
        equal_losses=sum(_is_near(pair) or _is_equal(pair) for pair in pairs),
        equal_until=equal[-1].number if is_known else 0,
        is_unfinished=len(equal) == len(pairs) and _has_more(old, new),
    )


def _shows_anything(step: Step) -> bool:
    return bool(step.inputs) or step.loss is not None


def _is_equal(pair: tuple[Step, Step]) -> bool:
    a, b = pair
    return a.inputs == b.inputs and a.loss is not None and a.loss == b.loss


def _is_fine(step: Step) -> bool:
    """Return whether a loss has more bits than a number of 16 bits could."""
    return step.loss is not None and frexp(step.loss)[0] * 2**HALF_BITS % 1 != 0


def _is_near(pair: tuple[Step, Step]) -> bool:
    a, b = pair
    if not a.inputs or a.inputs != b.inputs or a.loss is None or b.loss is None:
        return False
    return isclose(a.loss, b.loss, rel_tol=ROUNDING)


def _has_more(old: Sequence[Step], new: Sequence[Step]) -> bool:
    return bool(old) and (not new or old[-1].number > new[-1].number)


def inputs_continue(old: Sequence[Step], new: Sequence[Step]) -> bool:
    """Return whether a restart begins with the inputs that were next, as far as steps show it.

    They are those that the earlier start had next. Where it came to no other step, they are none
    that it had before, and none of their samples was trained in the pass.
    """
    first = next(iter(new), None)
    if first is None or not first.inputs:
        return False
    earlier = {step.number: step.inputs for step in old}
    if first.number in earlier:
        return earlier[first.number] == first.inputs
    if first.inputs in earlier.values():
        return False
    return first.begins or _pass_before(old, first.number).isdisjoint(samples_of(first))


def data_findings(
    old: Sequence[Step], new: Sequence[Step], generators: Sequence[str] | None
) -> Iterator[Finding]:
    """Yield what the inputs after a restart show: samples that are trained twice, or passed over.

    `old` are steps of the earlier start, before the save and after it, `new` those since the
    restart. Nothing is said where the earlier start shows no other step after the save.
    `generators` are those that did not go on, None where that is not known.
    """
    before = {step.number: step for step in old}
    first = next(iter(new), None)
    if first is None or first.number not in before or not first.inputs:
        return
    if before[first.number].inputs == first.inputs:
        return
    shift = _shift(before, new)
    if shift is not None:
        last = [step for step in new if step.inputs][SHIFT_STEPS - 1].number
        had = (
            f"data: steps {first.number} to {last} have the inputs that steps "
            f"{first.number + shift} to {last + shift} had before the restart"
        )
        if generators != () and _is_order_of_a_pass(old, first.number, shift):
            why = f"; {describe_stopped(generators)}" if generators else ""
            yield Finding("notice", "data", f"{had}{why}")
            return
        what = "are trained again" if shift < 0 else "follow, and those between were passed over"
        yield Finding("mismatch", "data", f"{had}: these {what}")
        return
    yield from _trained_before(old, new, first.number)


def _shift(before: Mapping[int, Step], new: Sequence[Step]) -> int | None:
    """Return by how many steps the inputs are those of others; None if they are of none."""
    head = [step for step in new if step.inputs][:SHIFT_STEPS]
    if len(head) < SHIFT_STEPS:
        return None
    first = head[0]
    shifts = [n - first.number for n, step in before.items() if step.inputs == first.inputs]
    found = [
        shift
        for shift in shifts
        if all(_inputs(before, step.number + shift) == step.inputs for step in head)
    ]
    return min(found, key=abs, default=None)


def _inputs(steps: Mapping[int, Step], number: int) -> str | None:
    return steps[number].inputs if number in steps else None


def _is_order_of_a_pass(old: Sequence[Step], first: int, shift: int) -> bool:
    """Return whether a pass over the data begins at a step, in the order of an earlier pass.

    So it is in a job that saves between passes and seeds itself alike at each start: nothing is
    lost. Not if the pass right before is made again, unless the start before began with that one:
    then both have the order of a start.
    """
    target, before = first + shift, {step.number: step for step in old}
    if shift > 0 or not _is_over(old, before[first]):
        return False
    if target == min(before):
        return True
    between = [step for step in old if target <= step.number < first]
    samples = [one for step in between for one in samples_of(step)]
    is_of_one_pass = len(samples) == len(set(samples)) and not any(s.begins for s in between[1:])
    return not is_of_one_pass and _is_over(old, before[target])


def describe_stopped(generators: Sequence[str]) -> str:
    """Return that generators begin anew, or drew once more, in words."""
    return f"{', '.join(generators)} did not go on where they stood"


def _is_over(old: Sequence[Step], step: Step) -> bool:
    """Return whether a step begins a pass: by its loader, or by samples of the pass before."""
    return step.begins or not _pass_before(old, step.number).isdisjoint(samples_of(step))


def _trained_before(old: Sequence[Step], new: Sequence[Step], first: int) -> Iterator[Finding]:
    """Yield that most samples of the first steps had been trained before the save.

    Not where a loader's pass begins with the first of them.
    """
    after = [step for step in old if step.number >= first][: len(new)]
    followed = [one for step in after for one in samples_of(step)]
    resumed = [one for step in new for one in samples_of(step)]
    passed = _pass_before(old, first)
    text = describe_samples_trained_again(resumed, passed, followed, where="before the restart")
    if text is not None and not after[0].begins:
        yield Finding("mismatch", "data", f"data: {text}")


def _pass_before(old: Sequence[Step], first: int) -> set[str]:
    """Return the samples of the pass over the data that a step lies in, as far as none repeats."""
    found: set[str] = set()
    for step in sorted((s for s in old if s.number < first), key=lambda s: -s.number):
        own = samples_of(step)
        if not own or not found.isdisjoint(own):
            break
        found.update(own)
    return found


def samples_of(step: Step) -> list[str]:
    """Return the digests of a step's samples."""
    return [step.samples[at : at + _DIGITS] for at in range(0, len(step.samples), _DIGITS)]


def loss_findings(
    replay: Replay,
    window: Sequence[float],
    new: Sequence[Step],
    generators: Sequence[str] | None,
    *,
    is_same_state: bool,
) -> Iterator[Finding]:
    """Yield what the losses after a restart show, beside what state and data do.

    With the same state and inputs the losses are compared one by one. Else those of the first
    `BLOCK` steps are compared with the `window` of losses before the save.
    """
    if replay.differs is not None and is_same_state:
        number, due, found = replay.differs
        text = f"losses: {found:.6g} at step {number}, where it was {due:.6g} with the same inputs"
        if generators:
            yield Finding("notice", "generators", f"{text}; {describe_stopped(generators)}")
        elif abs(found - due) > 1e-3 * max(abs(due), 1e-6):
            yield Finding("notice", "loss", text)
        return
    head = [step.loss for step in new if step.loss is not None][:BLOCK]
    if replay.same_losses or not has_risen(head, window):
        return
    most = max(means_in(window))
    yield Finding(
        "notice",
        "loss",
        f"losses: {fmean(head):.6g} is the mean of the first {BLOCK} steps, above that of any "
        f"{BLOCK} of the {len(window)} steps before the save (most {most:.6g})",
    )


def has_risen(head: Sequence[float], window: Sequence[float]) -> bool:
    """Return whether `BLOCK` losses lie above those of a window before them.

    Each of them lies above so high a loss of the window that `RARE` of all orders of these losses
    have that, or fewer: if they come in any order alike, this is how often it errs, whatever
    their distribution (exceedances: Gumbel and von Schelling 1950). Losses of steps near to each
    other may be alike, so their mean must lie above every mean of as many in the window too, by
    more than the distance between the quartiles of these.
    """
    if len(head) < BLOCK or len(window) < WINDOW_MIN:
        return False
    if min(head) <= sorted(window)[-_place(len(window))]:
        return False
    means = means_in(window)
    low, _, high = quantiles(means, n=4)
    return fmean(head) > max(means) + (high - low)


@cache
def _place(count: int) -> int:
    """Return the last place, from the highest, of a window's loss that is rarely below all."""
    orders = RARE * comb(count + BLOCK, BLOCK)
    return max(place for place in range(1, count) if comb(BLOCK + place - 1, BLOCK) <= orders)


def means_in(window: Sequence[float]) -> list[float]:
    """Return the means of all `BLOCK` losses in a row."""
    return [fmean(window[at : at + BLOCK]) for at in range(len(window) - BLOCK + 1)]
