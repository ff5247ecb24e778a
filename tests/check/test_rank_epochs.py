"""Epochs of ranks that do not step together: a length that each rank counts to by itself."""

from collections.abc import Mapping, Sequence

import pytest

from chaos.check.rank_epochs import (
    find_stepped_epochs,
    refuse_lone_steps,
    refuse_uneven_epochs,
)
from chaos.errors import JobError
from chaos.job_failure import check_rank_epochs
from chaos.model import event as ev
from chaos.model.history import Baseline, History
from tests.check.scribe import history_of
from tests.check.story import Story
from tests.check.test_terms import plan_under_torchrun

PLAN = plan_under_torchrun(Story().plan())


def build_run(lengths: Mapping[int, Sequence[int]], saving_ranks: Sequence[int] = (0,)) -> History:
    """Return a run of ranks with epochs of these lengths, of which some save at each end."""
    events: list[ev.AnyEvent] = [
        ev.WorkerGroupStarted(
            attempt=0,
            workers=tuple(
                ev.WorkerPlace(rank=rank, pid=rank, node_id="n", node_ip="::1") for rank in lengths
            ),
        )
    ]
    for rank, rank_lengths in lengths.items():
        for epoch, length in enumerate(rank_lengths):
            events += [
                ev.StepDone(attempt=0, rank=rank, epoch=epoch, step=step + 1, losses=())
                for step in range(length)
            ]
            if rank in saving_ranks:
                events.append(
                    ev.FileSaveBegun(attempt=0, rank=rank, epoch=epoch, step=length, path="/s/a.pt")
                )
    return history_of(*events)


@pytest.mark.parametrize(
    "lengths",
    [
        pytest.param({0: [8, 8, 8], 1: [8, 8, 8]}, id="all ranks end an epoch together"),
        pytest.param({0: [8, 8], 1: [8, 8, 8]}, id="one rank has more work"),
        pytest.param({0: [8, 8]}, id="there is one rank"),
        pytest.param({}, id="no rank makes a step"),
    ],
)
def test_epochs_that_no_two_ranks_end_elsewhere_stay_as_they_are(
    lengths: Mapping[int, Sequence[int]],
) -> None:
    assert find_stepped_epochs(PLAN, [build_run(lengths)]) is None


def interleave(own_steps: int, shared_steps: int, *, others: int = 1) -> History:
    """Return a run whose rank 0 makes steps of its own before all ranks step together."""
    ranks = [0] * own_steps + [*range(1 + others)] * shared_steps
    return history_of(
        *(
            ev.StepDone(attempt=0, rank=rank, epoch=0, step=number + 1, losses=())
            for number, rank in enumerate(ranks)
        )
    )


def test_a_job_whose_first_rank_trains_alone_at_first_is_refused() -> None:
    with pytest.raises(JobError, match="rank 0 makes 12 optimizer steps before any other rank"):
        refuse_lone_steps(PLAN, [interleave(12, 32, others=3)])


def test_ranks_that_are_far_apart_in_one_run_alone_are_not_refused() -> None:
    refuse_lone_steps(PLAN, [interleave(12, 32), interleave(0, 32)])


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(interleave(0, 32), id="all step together"),
        pytest.param(interleave(1, 32), id="one step more"),
        pytest.param(interleave(12, 32, others=0), id="there is one rank"),
        pytest.param(build_run({0: [8, 8], 1: [8, 8, 8]}), id="another rank has more work"),
        pytest.param(History([]), id="no step"),
    ],
)
def test_ranks_that_step_together_or_have_other_work_are_not_refused(history: History) -> None:
    refuse_lone_steps(PLAN, [history])


SAVE = ev.FileSaveBegun(attempt=0, rank=0, epoch=0, step=8, path="last.pt")


def test_a_rank_with_fewer_batches_in_each_epoch_than_the_one_that_saves_is_refused() -> None:
    history = History([*build_run({0: [8, 8, 8], 1: [8, 7]}), *history_of(SAVE)])

    with pytest.raises(JobError, match="rank 1 makes 15 steps and rank 0, which saves, 24"):
        refuse_uneven_epochs(PLAN, [history])
    refuse_uneven_epochs(PLAN.replace(job=PLAN.job.replace(epoch_steps=4)), [history])


@pytest.mark.parametrize(
    "lengths", [{0: [8, 8], 1: [8, 8]}, {0: [8, 8], 1: [8, 7]}, {0: [8, 8], 1: [8, 8, 8]}, {0: [8]}]
)
def test_ranks_whose_epochs_are_as_many_are_not_refused(lengths: dict[int, list[int]]) -> None:
    refuse_uneven_epochs(PLAN, [History([*build_run(lengths), *history_of(SAVE)])])


@pytest.mark.parametrize(
    ("lengths", "steps", "ends"),
    [
        pytest.param(
            {0: [8, 8, 8], 1: [8, 16]}, 8, "after step 16 of rank 0 and after step 24 of rank 1",
            id="rank 1 was ahead of the second save",
        ),
        pytest.param(
            {0: [8, 8, 8], 1: [24]}, 8, "after step 8 of rank 0 and after step 24 of rank 1",
            id="rank 1 was ahead of each save",
        ),
        pytest.param(
            {0: [4, 8, 12], 1: [24]}, 5, "after step 4 of rank 0 and after step 24 of rank 1",
            id="the saves have no even distance",
        ),
    ],
)  # fmt: skip
def test_ranks_that_end_an_epoch_elsewhere_count_to_the_next_save(
    lengths: Mapping[int, Sequence[int]], steps: int, ends: str
) -> None:
    together = build_run({0: [8, 8, 8], 1: [8, 8, 8]})

    epochs = find_stepped_epochs(PLAN, [together, build_run(lengths)])

    assert epochs is not None
    assert epochs.steps == steps
    assert epochs.describe_ends().endswith(f"different steps, {ends}")
    assert epochs.set_length(PLAN).job.epoch_steps == steps


def test_epochs_that_do_not_end_with_saves_are_left_alone() -> None:
    run = build_run({0: [8, 8], 1: [16]})
    report = history_of(ev.ReportBegun(attempt=0, rank=0, epoch=0))
    stepped_plan = PLAN.replace(job=PLAN.job.replace(epoch_steps=4))

    assert find_stepped_epochs(PLAN, [History([*run, *report])]) is None
    assert find_stepped_epochs(stepped_plan, [run]) is None


def test_a_scenario_is_refused_with_the_number_to_write() -> None:
    check_rank_epochs(PLAN, Baseline([build_run({0: [8, 8], 1: [8, 8]})]))

    with pytest.raises(JobError) as caught:
        check_rank_epochs(PLAN, Baseline([build_run({0: [8, 8], 1: [16]})]))

    text = str(caught.value)
    assert "different steps, after step 8" in text
    assert "Write `epoch_steps: 8` below `job`" in text
