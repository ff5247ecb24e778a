"""The steps after a restart, judged by those of the start before."""

import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from chaos.extensions.guard.records import LOSSES_KEPT, RankStep
from chaos.extensions.guard.steps import (
    BLOCK,
    RARE,
    WINDOW_MIN,
    RepeatedTrainingSteps,
    compare_replay,
    find_data_defects,
    find_loss_defects,
    has_risen,
    salt_step,
    split_samples,
)
from tests.accepted import expect_text

EPOCH, BATCH = 8, 4


def steps(
    numbers: Sequence[int], *, of: int = 0, seed: int = 0, loss: float = 1.0
) -> list[RankStep]:
    """Return steps; a step's inputs are those of the step `of` later, in a shuffled order."""
    found = []
    for number in numbers:
        epoch, batch = divmod(number - 1 + of, EPOCH)
        order = list(range(EPOCH * BATCH))
        random.Random(f"{seed}-{epoch}").shuffle(order)
        own = order[batch * BATCH : (batch + 1) * BATCH]
        samples = "".join(f"{one:08x}" for one in own)
        found.append(RankStep(number, loss, samples, samples))
    return found


def told(old: Sequence[RankStep], new: Sequence[RankStep]) -> list[str]:
    return [finding.text for finding in find_data_defects(old, new, ())]


@given(st.integers(1, 40), st.integers(1, 20))
def test_the_same_inputs_at_the_same_steps_are_right(saved: int, made: int) -> None:
    old = steps(range(1, saved + made + 1))
    new = steps(range(saved + 1, saved + 9))
    assert told(old, new) == []
    assert compare_replay(old, new).same_inputs == min(made, 8)


def levels(
    old: Sequence[RankStep],
    new: Sequence[RankStep],
    *,
    generators: Sequence[str] | None = ("rng.torch",),
) -> list[str]:
    return [finding.level for finding in find_data_defects(old, new, generators)]


@given(st.integers(9, 30).filter(lambda saved: saved % EPOCH))
def test_inputs_of_earlier_steps_are_trained_once_more(saved: int) -> None:
    old = steps(range(1, saved + 6))
    new = steps(range(saved + 1, saved + 9), of=-saved)
    (text,) = told(old, new)
    assert text.startswith(f"data: steps {saved + 1} to {saved + 4} have")
    assert " that steps 1 to 4 had before" in text
    assert text.endswith(" are trained again")


def test_inputs_of_later_steps_pass_over_samples() -> None:
    (text,) = told(steps(range(1, 40)), steps(range(21, 29), of=3))
    expect_text(text)


@given(st.integers(1, 6), st.integers(1, 9), st.integers(4, 9))
def test_a_pass_in_the_order_of_the_first_one_is_no_mismatch(
    epochs: int, lost: int, made: int
) -> None:
    saved = EPOCH * epochs
    old = steps(range(1, saved + lost + 1))
    new = steps(range(saved + 1, saved + made + 1), of=-saved)
    (finding,) = find_data_defects(old, new, ("rng.torch",))
    assert finding.level == "notice"
    assert finding.text.startswith(f"data: steps {saved + 1} to {saved + 4} have")
    assert " that steps 1 to 4 had before" in finding.text
    assert "; rng.torch did not go on" in finding.text
    assert levels(old, new, generators=None) == ["notice"]  # a rank that saves nothing
    assert levels(old, new, generators=()) == ["mismatch"]  # the number of the pass was lost


@given(st.integers(2, 6), st.integers(1, 9))
def test_a_pass_in_the_order_of_one_long_before_is_no_mismatch(back: int, lost: int) -> None:
    saved = EPOCH * 7
    new = steps(range(saved + 1, saved + 9), of=-EPOCH * back)
    assert levels(steps(range(1, saved + lost + 1)), new) == ["notice"]


def augmented(made: Sequence[RankStep], start: int, *, begins: Sequence[int]) -> list[RankStep]:
    """Return steps whose samples occur in no other pass, but in one that begins as a start did."""
    return [
        RankStep(
            step.number,
            step.loss,
            f"{start}{step.inputs}",
            "".join(f"{(int(one, 16) + 64 * (start + 1)):08x}" for one in split_samples(step)),
            step.number in begins,
        )
        for step in made
    ]


def test_augmented_data_show_their_passes_by_the_loader() -> None:
    whole = [augmented(steps(range(9 + 8 * at, 17 + 8 * at)), at, begins=[9]) for at in range(2)]
    first = augmented(steps(range(1, 9)), 7, begins=[1])
    at_end = [*first, *augmented(whole[0], 3, begins=[9])]
    new = augmented(steps(range(9, 17), of=-8), 7, begins=[9])
    assert levels(at_end, new[:2]) == []  # by samples: others followed, in a pass of their own
    assert levels(at_end, new) == ["notice"]
    # Within a pass there is no way round.
    within = [*first, *augmented(whole[0], 3, begins=[])]
    assert levels(within, new[:2]) == levels(within, new) == ["mismatch"]


@given(st.integers(2, 6), st.integers(1, 9))
def test_the_pass_that_was_saved_is_made_again(epochs: int, lost: int) -> None:
    saved = EPOCH * epochs
    new = steps(range(saved + 1, saved + 9), of=-EPOCH)
    assert levels(steps(range(1, saved + lost + 1)), new) == ["mismatch"]


@given(st.integers(2, 6), st.integers(1, EPOCH - 4))
def test_the_end_of_the_pass_that_was_saved_is_made_again(epochs: int, back: int) -> None:
    saved = EPOCH * epochs
    new = steps(range(saved + 1, saved + 9), of=-back)
    assert levels(steps(range(1, saved + 4)), new) == ["mismatch"]


@given(st.integers(1, 40), st.integers(1, 9))
def test_an_order_drawn_anew_is_not_blamed_where_a_pass_begins(epochs: int, seed: int) -> None:
    saved = EPOCH * epochs
    assert told(steps(range(1, saved + 4)), steps(range(saved + 1, saved + 9), seed=seed)) == []


def test_the_rest_of_a_pass_in_another_order_is_right_and_its_beginning_is_not() -> None:
    old = steps(range(1, 8))
    rest = "".join(step.samples for step in old[4:])
    turned = [rest[at : at + 8] for at in range(0, len(rest), 8)][::-1]
    new = [RankStep(5 + at, 1.0, f"x{at}", "".join(turned[at * 4 : at * 4 + 4])) for at in range(3)]
    assert told(old, new) == []
    head = "".join(step.samples for step in old[:3])
    again = [head[at : at + 8] for at in range(0, len(head), 8)][::-1]
    new = [RankStep(5 + at, 1.0, f"x{at}", "".join(again[at * 4 : at * 4 + 4])) for at in range(3)]
    (text,) = told(old, new)
    expect_text(text)


def test_samples_that_are_drawn_with_replacement_are_not_blamed() -> None:
    drawn = random.Random(0)

    def some(numbers: Sequence[int]) -> list[RankStep]:
        return [
            RankStep(
                n, 1.0, f"{drawn.random()}", "".join(f"{drawn.randrange(64):08x}" for _ in "abcd")
            )
            for n in numbers
        ]

    for _ in range(200):
        assert told(some(range(1, 30)), some(range(21, 37))) == []


def test_nothing_is_said_where_the_start_before_made_no_step_after_the_save() -> None:
    assert told(steps(range(1, 9)), steps(range(9, 17), of=-8)) == []


@given(st.binary(min_size=1, max_size=32), st.integers(9, 30))
def test_a_salt_hides_digests_and_changes_no_answer(salt: bytes, saved: int) -> None:
    old, new = steps(range(1, saved + 6)), steps(range(saved + 1, saved + 9), of=-saved)
    keyed = [salt_step(step, salt) for step in old], [salt_step(step, salt) for step in new]
    assert told(*keyed) == told(old, new)
    assert {len(step.samples) for step in keyed[0]} == {8 * BATCH}
    plain = {one for step in old for one in split_samples(step)}
    assert plain.isdisjoint(one for step in keyed[0] for one in split_samples(step))
    assert salt_step(RankStep(1, 0.5, "", ""), salt) == RankStep(1, 0.5, "", "")


def told_of_losses(
    replay: RepeatedTrainingSteps, new: Sequence[RankStep], window: Sequence[float] = ()
) -> list[str]:
    found = find_loss_defects(replay, window, new, ["rng.torch"], is_same_state=True)
    return [f"{finding.level} {finding.kind}" for finding in found]


def test_a_loss_that_differs_with_the_same_inputs_is_a_notice() -> None:
    new = steps(range(9, 12))
    assert told_of_losses(RepeatedTrainingSteps(3, 3, 3), new) == []
    assert told_of_losses(RepeatedTrainingSteps(3, 3, 0, (9, 1.0, 2.0)), new) == [
        "notice generators"
    ]


def test_a_loss_is_another_one_if_more_than_its_rounding_is() -> None:
    losses = 0.87699501, 0.87699502, 0.9
    old, *new = ([RankStep(9, loss, "in", "")] for loss in losses)
    assert [compare_replay(old, one).first_difference for one in new] == [
        None,
        (9, 0.87699501, 0.9),
    ]


@given(st.integers(0, 10_000))
def test_losses_of_the_same_noise_lie_in_the_window(seed: int) -> None:
    drawn = random.Random(seed)
    window = [drawn.gauss(1.0, 0.1) for _ in range(256)]
    after = [RankStep(n, drawn.gauss(1.0, 0.1), "", "") for n in range(8)]
    assert told_of_losses(RepeatedTrainingSteps(0, 0, 0), after, window) == []


def test_losses_far_above_the_window_are_a_notice() -> None:
    drawn = random.Random(0)
    window = [drawn.gauss(1.0, 0.1) for _ in range(256)]
    after = [RankStep(n, drawn.gauss(2.3, 0.1), "", "") for n in range(8)]
    assert told_of_losses(RepeatedTrainingSteps(0, 0, 0), after, window) == ["notice loss"]


@given(st.integers(WINDOW_MIN, LOSSES_KEPT))
def test_of_losses_in_any_order_one_restart_in_a_thousand_has_all_that_are_due_above(
    count: int,
) -> None:
    window = list(map(float, range(count)))
    due = next(at for at in window if has_risen([at + 0.5, *[1e9] * (BLOCK - 1)], window))
    above = count - int(due)  # the place of the loss that all of the first lie above
    orders = [
        hypergeom.pmf(BLOCK, count + BLOCK, BLOCK, BLOCK + place - 1)
        for place in (above, above + 1)
    ]
    assert orders[0] <= RARE < orders[1]


def test_one_spike_after_a_restart_is_no_rise() -> None:
    drawn = random.Random(0)
    window = [drawn.gauss(1.0, 0.1) for _ in range(256)]
    head = [100.0, *(drawn.gauss(1.0, 0.1) for _ in range(BLOCK - 1))]
    assert not has_risen(head, window)
    assert has_risen([1.5] * BLOCK, window)


def test_a_few_losses_show_no_rise() -> None:
    assert not has_risen([9.0] * BLOCK, [1.0] * (WINDOW_MIN - 1))
    assert not has_risen([9.0] * (BLOCK - 1), [1.0] * WINDOW_MIN)
