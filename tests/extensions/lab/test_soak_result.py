"""A soak in figures: what moves over resumes is shown, and only growth without a stop is named."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.extensions.lab.soak_result import (
    SoakResult,
    SoakRun,
    build_soak_run,
    describe_soak,
    is_growing,
)
from chaos.model.event import AnyEvent, ProcessSeen
from chaos.model.history import History, JournalEntry
from chaos.report.outcome import FinishedRun
from chaos.run.process_size import ProcessSize


def size(open_files: int = 12, entries: int = 3, memory: int = 200) -> ProcessSize:
    return ProcessSize(
        open_files=open_files, memory_bytes=memory << 20, children=0, entries=entries
    )


def seen(
    attempt: int, epoch: int, *, rank: int = 0, open_files: int = 12, entries: int = 3
) -> ProcessSeen:
    return ProcessSeen(
        attempt=attempt,
        rank=rank,
        epoch=epoch,
        open_files=open_files,
        memory_bytes=200 << 20,
        children=0,
        entries=entries,
    )


def with_events(history: History, *events: AnyEvent) -> History:
    last = history[-1].time_ns
    more = [
        JournalEntry(time_ns=last + n, source="worker-9", seq=n, event=event)
        for n, event in enumerate(events)
    ]
    return History([*history.entries, *more])


def figures(run: FinishedRun, *events: AnyEvent, without: tuple[AnyEvent, ...] = ()) -> SoakRun:
    baseline = run.baseline
    assert baseline is not None
    return build_soak_run(
        replace(
            run,
            history=with_events(run.history, *events),
            baseline=with_events(baseline, *without),
        )
    )


def told(*runs: SoakRun, own: tuple[ProcessSize, ...] = (size(),)) -> str:
    return "\n".join(describe_soak(SoakResult(seconds=60, runs=runs, own=own)))


def test_the_steps_that_survive_are_those_that_the_plan_leaves(valid_run: FinishedRun) -> None:
    """Four epochs of 23 steps, of which a kill after the fifth of an epoch costs five."""
    one = figures(valid_run)

    assert (one.kept, one.made, one.planned) == (92, 97, 97)
    assert "94.8% of those made; 94.8% where a fault costs the steps of its epoch" in told(one)
    assert one.apart == (0.0, 0.0)


def test_an_epoch_that_is_not_saved_costs_more_than_the_plan_has_it(
    valid_run: FinishedRun,
) -> None:
    one = figures(valid_run).model_copy(update={"made": 120})

    assert "76.7% of those made; 94.8% where" in told(one)


def test_descriptors_that_grow_in_every_epoch_are_named(valid_run: FinishedRun) -> None:
    leaking = [seen(0, epoch, open_files=12 + epoch) for epoch in range(8)]
    one = figures(valid_run, *leaking)

    assert [growth.values for growth in one.growths] == [(13, 14, 15, 16, 17, 18, 19)]
    assert (
        "grew: open files of rank 0 in attempt 0, seed 7, by epoch: 13, 14, 15, 16, 17, 18, 19"
        in told(one)
    )


def test_what_grows_without_a_fault_is_said_to(valid_run: FinishedRun) -> None:
    leaking = tuple(seen(0, epoch, open_files=12 + epoch) for epoch in range(8))

    assert "; without faults as well" in told(figures(valid_run, *leaking, without=leaking))


@pytest.mark.parametrize(
    "counts",
    [
        [12, 13, 14, 15, 15, 15, 15, 15],  # shards that are opened once
        [12, 40, 40, 40, 40, 40, 40, 40],  # all at the beginning
        [12, 13, 12, 14, 12, 15, 12, 16],  # a file that is rotated
        [12, 13, 14, 15, 16],  # too few to tell
    ],
)
def test_a_right_job_that_opens_files_is_not_named(
    valid_run: FinishedRun, counts: list[int]
) -> None:
    events = [seen(0, epoch, open_files=count) for epoch, count in enumerate(counts)]
    one = figures(valid_run, *events)

    assert not one.growths
    assert "nothing grew from each reading to the next" in told(one)


def test_a_file_for_every_attempt_is_named(valid_run: FinishedRun) -> None:
    events = [seen(attempt, attempt, entries=3 + attempt) for attempt in range(6)]

    assert (
        "grew: names in the working directory of rank 0 after its first epoch, seed 7, by attempt: "
        "3, 4, 5, 6, 7, 8" in told(figures(valid_run, *events))
    )


def test_each_scenario_has_its_own_block_and_chaos_its_own(valid_run: FinishedRun) -> None:
    one = figures(valid_run)
    other = one.model_copy(update={"scenario": "another", "as_expected": False})
    own = tuple(size(open_files=20 + n) for n in range(5))
    text = told(one, one, one, other, own=own)

    assert text.count("3 runs, 3 as expected, 3 resumes") == 1
    assert text.count("1 run, 0 as expected, 1 resume") == 1
    assert "grew: open files by run: 20, 21, 22, 23, 24" in text
    assert "3.5 s at restart 1" in text


def test_a_drift_shows_between_the_first_and_the_last_attempt(valid_run: FinishedRun) -> None:
    drifting = [
        figures(valid_run).model_copy(update={"apart": (0.0, 0.001, 0.002 * n)}) for n in (1, 2, 3)
    ]

    assert "0 at attempt 1, 0.004 at attempt 3, 0.006 at most" in told(*drifting)


def test_the_bounds_of_each_figure_are_kept(valid_run: FinishedRun) -> None:
    one = figures(valid_run, seen(0, 0, entries=9), seen(0, 1, open_files=30), seen(1, 1))

    assert (one.least, one.most) == (size(), size(open_files=30, entries=9))
    assert "200 MiB, 12 to 30 open files, 0 child processes, 3 to 9 names" in told(one)


def test_a_soak_that_made_no_run_says_nothing() -> None:
    assert told() == ""


@given(st.lists(st.integers(0, 9), max_size=12))
def test_growth_is_every_reading_above_the_one_before(values: list[int]) -> None:
    assert is_growing(values) == (len(values) >= 5 and values == sorted(set(values)))
