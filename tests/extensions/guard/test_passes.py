"""The pass over the data that a restart fell into."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.passes import ByStep, find_pass_defects, group_samples
from chaos.extensions.guard.records import RankStep
from chaos.extensions.guard.report import load_judged_restarts
from tests.accepted import expect_text
from tests.extensions.guard.restarts import restart
from tests.extensions.guard.saved_states import start

COUNT, BATCH = 64, 4
PASS = COUNT // BATCH
Order = list[int]


def shuffled(seed: object, samples: Sequence[int] = range(COUNT)) -> Order:
    order = list(samples)
    random.Random(f"{seed}").shuffle(order)
    return order


def steps(order: Sequence[int], *, first: int = 1, batch: int = BATCH) -> ByStep:
    batches = [order[at : at + batch] for at in range(0, len(order), batch)]
    return {first + at: [f"{one:08x}" for one in own] for at, own in enumerate(batches)}


def epochs(count: int) -> Order:
    return [one for epoch in range(count) for one in shuffled(epoch)]


def levels(old: ByStep, new: ByStep, save: int) -> list[str]:
    return [finding.level for finding in find_pass_defects(old, new, save)]


def told(consumed: Order, new: Order, *, save: int, lost: int) -> list[str]:
    """Judge a restart after a save; `consumed` is what the start before it had for its steps."""
    old = steps(consumed[: (save + lost) * BATCH])
    return levels(old, steps(new, first=save + 1), save)


saved = st.integers(2 * PASS + 2, 5 * PASS)
lost_steps = st.integers(0, PASS)


@given(saved, lost_steps, st.integers(0, 3 * PASS))
def test_data_that_go_on_where_the_save_was_are_right(save: int, lost: int, more: int) -> None:
    every = epochs(9)
    new = every[save * BATCH : (save + more) * BATCH]
    assert told(every, new, save=save, lost=lost) == []


@given(saved, lost_steps, st.integers())
def test_the_rest_of_the_pass_in_another_order_is_right(save: int, lost: int, seed: int) -> None:
    every = epochs(9)
    end = -(-save // PASS) * PASS * BATCH
    rest = shuffled(seed, every[save * BATCH : end])
    assert told(every, rest + every[end:], save=save, lost=lost) == []


def test_data_that_go_on_where_the_start_before_ended_leave_samples_out() -> None:
    every = epochs(5)
    save, lost = 2 * PASS + 6, 3
    (found,) = find_pass_defects(
        steps(every[: (save + lost) * BATCH]),
        steps(every[(save + lost) * BATCH :], first=save + 1),
        save,
    )
    assert found.level == "mismatch"
    expect_text(found.text)


def test_a_pass_that_is_begun_anew_cannot_be_told_from_the_next_and_is_a_notice() -> None:
    every = epochs(5)
    save = 2 * PASS + 6
    for seed in range(200):
        assert told(every, shuffled(f"x{seed}"), save=save, lost=3) == ["notice"]
    assert told(every, every[3 * COUNT :], save=save, lost=3) == ["notice"]


def test_nothing_is_said_before_the_pass_is_over() -> None:
    every = epochs(5)
    save, lost = 2 * PASS + 6, 3
    new = every[(save + lost) * BATCH : (3 * PASS - 1) * BATCH]
    assert told(every, new, save=save, lost=lost) == []


def right_jobs(seed: object) -> Iterator[Order]:
    """Yield the samples of jobs of which none has to train all of its data in each pass."""
    drawn = random.Random(f"{seed}")
    part = [shuffled(f"{seed}-{epoch}")[:-BATCH] for epoch in range(9)]
    yield [one for epoch in part for one in epoch]  # the last batch is dropped
    yield [drawn.randrange(COUNT) for _ in range(9 * COUNT)]  # drawn with replacement
    yield list(range(9 * COUNT))  # a stream
    halves = [shuffled(f"h{seed}-{epoch}")[: COUNT // 2] for epoch in range(18)]
    yield [one for epoch in halves for one in epoch]  # a part for each pass
    yield [drawn.randrange(1 << 31) for _ in range(9 * COUNT)]  # augmented at random
    # As in PPO: four passes over what was played, and then it plays on.
    played = [
        [1000 * at + one for one in shuffled(f"{at}-{of}")] for at in range(9) for of in "abcd"
    ]
    yield [one for rollout in played for one in rollout]
    # A curriculum: other data from the fourth pass on.
    yield epochs(3) + [one + COUNT // 2 for epoch in range(6) for one in shuffled(epoch)]
    # Each batch three times over.
    single = steps(epochs(9))
    yield [int(one, 16) for own in single.values() for _ in range(3) for one in own]
    # Two ranks, padded so that both have as many.
    padded = [[*shuffled(epoch), *shuffled(epoch)[: BATCH // 2]] for epoch in range(9)]
    yield [one for epoch in padded for one in epoch]


@given(st.integers(), saved, lost_steps)
def test_nothing_is_said_of_a_job_whose_passes_are_not_all_the_same(
    seed: int, save: int, lost: int
) -> None:
    for order in right_jobs(seed):
        assert told(order, order[save * BATCH :], save=save, lost=lost) == []


@given(st.integers(), saved, lost_steps)
def test_a_job_that_draws_anew_after_a_restart_is_not_blamed(
    seed: int, save: int, lost: int
) -> None:
    for order, anew in zip(right_jobs(seed), right_jobs(f"{seed} anew"), strict=True):
        assert "mismatch" not in told(order, anew[save * BATCH :], save=save, lost=lost)


@given(st.integers(3 * PASS + 2, 4 * PASS), lost_steps)
def test_a_job_that_leaves_out_data_from_a_pass_on_is_not_blamed(save: int, lost: int) -> None:
    # Right: what is learnt well is trained no more.
    order = epochs(3) + [one for epoch in range(9) for one in shuffled(epoch, range(COUNT // 2))]
    assert "mismatch" not in told(order, order[save * BATCH :], save=save, lost=lost)


def test_samples_are_those_of_all_ranks_in_steps_that_all_have() -> None:
    ranks = [
        [RankStep(1, 0.5, "a", "0000000100000002"), RankStep(2, 0.5, "b", "00000003")],
        [
            RankStep(1, 0.5, "c", "00000004"),
            RankStep(2, 0.5, "", ""),
            RankStep(3, 0.5, "d", "00000005"),
        ],
    ]
    assert group_samples(ranks) == {1: ["00000001", "00000002", "00000004"]}
    assert group_samples([]) == {}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, ["mismatch"]),
        ({"accepts": ("data",)}, ["accepted"]),
        ({"command": ("python", "other.py")}, []),
        ({"ranks": 2}, []),
        ({"salt": "another"}, []),
    ],
    ids=["same", "accepted", "other command", "more ranks", "other salt"],
)
def test_a_report_has_what_the_pass_of_a_restart_shows(
    tmp_path: Path, changed: dict[str, Any], expected: list[str]
) -> None:
    folder, every = GuardFolder(str(tmp_path)), epochs(5)
    save, lost = 2 * PASS + 6, 3
    for number, made in enumerate((every[: (save + lost) * BATCH], every[(save + lost) * BATCH :])):
        folder.write_start(start(number, **(changed if number else {})))
        trail = folder.begin_trail(0, number, 1)
        for step, own in steps(made, first=save * number + 1).items():
            trail.add(RankStep(step, 0.5, "in", "".join(own)))
    folder.write_restart(restart(1, step=save, of_start=0))
    (found,) = load_judged_restarts(folder)
    assert [one.level for one in found.findings] == expected
