"""The place where an attempt goes on by the files that its ranks read."""

from typing import Any

import pytest
import torch

from chaos.model.event import (
    Repositioned,
)
from chaos.probe.saves import ResumedSave
from tests.probe.saving_rank import New, Rank, place
from tests.probe.saving_rank import new as new  # noqa: PLC0414 - a fixture

# -- a job that keeps its own files ---------------------------------------------------------------


def saved_at(rank: Rank, *, step: int, then_reports: bool) -> None:
    rank.cursor.step = step
    rank.files.leave_step()
    torch.save({"epoch": rank.cursor.epoch, "step": step}, rank.path)
    if then_reports:
        rank.files.report_begun()


@pytest.mark.parametrize(
    ("step", "then_reports", "goes_on"),
    [(4, True, (2, 0)), (2, False, (1, 2)), (0, False, (1, 0)), (0, True, (1, 0))],
)
def test_a_rank_goes_on_from_where_its_file_was_saved(
    new: New, step: int, then_reports: bool, goes_on: tuple[int, int]
) -> None:
    saved_at(new(epoch=1), step=step, then_reports=then_reports)

    rank = new(attempt=1)
    torch.load(rank.path)
    rank.files.enter_step()

    assert (rank.cursor.epoch, rank.cursor.step) == goes_on
    assert [(e.epoch, e.step, e.path) for e in rank.of(Repositioned)] == [
        (*goes_on, str(rank.path))
    ]
    assert rank.saves.find_furthest_position(1) == ResumedSave(1, 0, *goes_on, str(rank.path))


def test_a_step_after_the_save_means_that_it_did_not_end_its_epoch(new: New) -> None:
    first = new(epoch=1)
    saved_at(first, step=2, then_reports=False)
    first.cursor.step = 3
    first.files.leave_step()
    first.files.report_begun()

    rank = new(attempt=1)
    torch.load(rank.path)
    rank.files.enter_step()

    assert (rank.cursor.epoch, rank.cursor.step) == (1, 2)


def test_a_rank_that_loads_nothing_follows_the_one_that_did(new: New) -> None:
    saved_at(new(epoch=1), step=4, then_reports=True)
    leader = new(attempt=1, ranks=2)
    torch.load(leader.path)

    follower = new(attempt=1, rank=1, ranks=2)
    follower.files.enter_step()
    leader.files.enter_step()

    for rank in (leader, follower):
        assert (rank.cursor.epoch, rank.cursor.step) == (2, 0)
        assert [e.rank for e in rank.of(Repositioned)] == [rank.rank]
    assert leader.saves.find_furthest_position(1) is not None


@pytest.mark.parametrize("given", [{"attempt": 0}, {"attempt": 1, "may_move": False}])
def test_nobody_is_moved_in_the_first_attempt_or_with_a_checkpoint_of_rays(
    new: New, given: dict[str, Any]
) -> None:
    saved_at(new(epoch=1), step=4, then_reports=True)

    rank = new(**given)
    torch.load(rank.path)
    rank.files.enter_step()

    assert rank.cursor.epoch == 0


@pytest.mark.parametrize("returned", [True, False])
def test_a_rank_that_ends_without_a_step_is_moved_if_it_returned(new: New, returned: bool) -> None:
    saved_at(new(epoch=1), step=4, then_reports=True)

    rank = new(attempt=1)
    torch.load(rank.path)
    rank.files.train_fn_ended(returned=returned)

    assert rank.cursor.epoch == (2 if returned else 0)
    assert len(rank.of(Repositioned)) == returned


def test_a_file_that_is_read_after_the_first_step_moves_nobody(new: New) -> None:
    saved_at(new(epoch=1), step=4, then_reports=True)

    rank = new(attempt=1)
    rank.files.enter_step()
    torch.load(rank.path)

    assert rank.of(Repositioned) == []


def test_of_several_files_the_furthest_counts(new: New) -> None:
    saved_at(new(epoch=1), step=2, then_reports=False)
    early = (new().folder / "own.pt").rename(new().folder / "early.pt")
    saved_at(new(epoch=3), step=1, then_reports=False)

    rank = new(attempt=1)
    torch.load(rank.path)
    torch.load(early)
    rank.files.enter_step()

    assert (rank.cursor.epoch, rank.cursor.step) == (3, 1)


def side_by_side(new: New, *, logs: bool, state: bool, is_fresh: bool = False) -> list[Rank]:
    """Return two ranks of a second attempt that have read their logs, the state, or both.

    The state is of the end of epoch 0, the logs of step 3 and of step 2 of the next.
    """
    first = new()
    saved_at(first, step=4, then_reports=True)
    own = first.path.rename(first.folder / "state.pt")
    first.cursor.epoch, first.cursor.step = 1, 0
    written = []
    for step in (3, 2):
        saved_at(first, step=step, then_reports=False)
        written.append(first.path.rename(first.folder / f"log_{step}.pt"))
    found = []
    for number, log in enumerate(written):
        rank = new(attempt=1, rank=number, ranks=2)
        if state:
            torch.load(own)
        if logs:
            torch.load(log)
        found.append(rank)
    for rank in found:
        rank.resumes(is_fresh=is_fresh)
    return found


@pytest.mark.parametrize("logs", [False, True])
def test_ranks_go_on_by_the_file_on_which_they_agree(new: New, logs: bool) -> None:
    ranks = side_by_side(new, logs=logs, state=True)

    assert [place(rank) for rank in ranks] == [(1, 0), (1, 0)]
    assert {e.path for rank in ranks for e in rank.of(Repositioned)} == {str(ranks[0].path)}


@pytest.mark.parametrize(
    ("is_fresh", "places"), [(False, [(1, 3), (1, 2)]), (True, [(0, 0), (0, 0)])]
)
def test_where_they_agree_on_none_the_model_says_whether_anything_was_restored(
    new: New, is_fresh: bool, places: list[tuple[int, int]]
) -> None:
    ranks = side_by_side(new, logs=True, state=False, is_fresh=is_fresh)

    assert [place(rank) for rank in ranks] == places
    assert [len(rank.of(Repositioned)) for rank in ranks] == [int(not is_fresh)] * 2


def test_a_log_that_rank_0_alone_reads_moves_nobody_who_begins_with_a_fresh_model(
    new: New,
) -> None:
    saved_at(new(), step=3, then_reports=False)

    ranks = [new(attempt=1, rank=number, ranks=2) for number in (1, 0)]
    torch.load(ranks[0].path)
    for rank in ranks:
        rank.resumes(is_fresh=True)

    assert [place(rank) for rank in ranks] == [(0, 0), (0, 0)]
    assert ranks[0].saves.find_furthest_position(1) is None


def test_what_a_later_attempt_will_ask_of_the_first_is_settled_with_its_first_save(
    new: New,
) -> None:
    rank, settled = new(), list[str]()
    rank.listener.answer(first_save_done=lambda: settled.append("once"))

    torch.save([1], rank.path)
    torch.save([2], rank.path)

    assert settled == ["once"]
