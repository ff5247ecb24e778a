"""Files that a right job keeps beside its checkpoints, and that are no training state."""

from typing import Any

import pytest

from chaos.model import event as ev
from chaos.model.history import History, JournalEntry
from tests.check.each import judge_each
from tests.check.shorthand import plan_of, told_in
from tests.check.story import Story, Strike
from tests.check.tamper import changed, restored_wrong, result_on, rows, verdict_on, without
from tests.findings import expect_finding, expect_in_headline

OWN = Story((Strike(2, 3, 1),), files=True)
RAYS = Story((Strike(2, 3, 1),))
ODD = ev.Component(name="model", digest="odd", size=7.0)


def read_before_training(history: History, *loads: ev.FileLoaded) -> History:
    """Return that ranks of attempt 1 read more files, after all else that they read."""
    at = rows(history, ev.StepDone, lambda e: e.attempt == 1)[0]
    entries = [
        JournalEntry(time_ns=history[at].time_ns, source="x", seq=0, event=load) for load in loads
    ]
    return History([*history.entries[:at], *entries, *history.entries[at:]])


def load(rank: int, path: str, step: int = 3, **more: Any) -> ev.FileLoaded:
    """Return that a rank read a file that its like had saved in epoch 2 of attempt 0."""
    origin = {"saved_attempt": 0, "saved_rank": rank, "saved_epoch": 2, "saved_step": step}
    place = {"attempt": 1, "rank": rank, "epoch": 0, "step": 0}
    return ev.FileLoaded(path=path, digest=path, **{**place, **origin, **more})


def failed(rank: int, path: str) -> ev.FileLoaded:
    unseen: dict[str, Any] = dict.fromkeys(
        ("saved_attempt", "saved_rank", "saved_epoch", "saved_step")
    )
    return load(rank, path, error="EOFError: ran out of input", **unseen)


# -- files of different ages -----------------------------------------------------------------------


@pytest.mark.parametrize("story", [OWN, RAYS])
def test_a_log_of_rank_0_alone_has_no_age_to_agree_on(story: Story) -> None:
    history = read_before_training(story.history(), load(0, "/own/curve.pt"))

    assert verdict_on(story, history).status == "pass"
    assert result_on("agreement", story, without(history, ev.StateSeen)).status == "pass"


@pytest.mark.parametrize("story", [OWN, RAYS])
def test_logs_that_ranks_keep_at_their_own_pace_may_differ_where_all_state_is_right(
    story: Story,
) -> None:
    logs = [load(rank, f"/own/curve_{rank}.pt", step=3 - rank) for rank in (0, 1)]

    history = read_before_training(story.history(), *logs)

    assert verdict_on(story, history).status == "pass"


def of_another_age(history: History) -> History:
    return changed(
        history,
        ev.FileLoaded,
        lambda e: e.rank == 1,
        saved_epoch=0,
        path="/own/rank1_0.pt",
        digest="older",
    )


@pytest.mark.parametrize("is_seen", [True, False])
def test_ranks_that_read_files_of_different_ages_do_not_agree(is_seen: bool) -> None:
    history = of_another_age(OWN.history())
    history = (
        restored_wrong(history, "model", ODD, rank=1) if is_seen else without(history, ev.StateSeen)
    )

    found = verdict_on(OWN, history)

    assert found.broken[0].check == "agreement"
    expect_in_headline(found, "different-ages", attempt=1, files={"0": {"path": "/own/rank0_1.pt"}})


def test_a_file_that_was_the_same_at_several_saves_has_the_age_of_each() -> None:
    """A generator that nothing draws from; rank 1 saved it once more before it was killed."""
    history = without(OWN.history(), ev.StateSeen)
    read = [load(rank, f"/own/random_{rank}.pt", step=2 + rank) for rank in (0, 1)]
    at = rows(history, ev.FileSaved, lambda e: e.attempt == 0)[-1]
    place: dict[str, Any] = {"attempt": 0, "rank": 1, "epoch": 2, "path": "/own/random_1.pt"}
    saved = [
        event
        for step in (2, 3)
        for event in (
            ev.FileSaveBegun(**place, step=step),
            ev.FileSaved(**place, step=step, digest="/own/random_1.pt", bytes=9),
        )
    ]
    entries = [JournalEntry(time_ns=history[at].time_ns, source="x", seq=0, event=e) for e in saved]
    wrote = History([*history.entries[:at], *entries, *history.entries[at:]])

    assert result_on("agreement", OWN, read_before_training(history, *read)).status == "fail"
    assert result_on("agreement", OWN, read_before_training(wrote, *read)).status == "pass"


def test_ranks_that_wait_for_each_other_after_files_of_different_ages_do_not_agree() -> None:
    """The one that read the newer file has nothing left to train, the other waits for it."""
    history = without(of_another_age(OWN.history()), ev.StepDone, lambda e: e.attempt == 1)
    history = without(history, ev.StateSeen, lambda e: e.attempt == 1)

    assert "read files of different ages" in result_on("agreement", OWN, history).summary


def test_what_was_read_does_not_matter_where_a_fault_came_before_the_first_step() -> None:
    baseline = "g s w:a s w:b r c s s r c ."
    run = "g s w:a s w:b x g l:a l:b/ x g s w:a s w:b r c s s r c ."
    history = changed(
        told_in(run), ev.FileLoaded, lambda e: e.rank == 0, path="a", saved_step=2, digest="b"
    )

    results = judge_each(plan_of(run), history, told_in(baseline)).results

    assert next(r for r in results if r.check == "agreement").status == "pass"


# -- files that cannot be read -------------------------------------------------------------------


@pytest.mark.parametrize("is_watched", [True, False])
@pytest.mark.parametrize("ranks", [(0,), (0, 1)])
def test_a_file_beside_a_checkpoint_that_was_read_may_be_missing(
    is_watched: bool, ranks: tuple[int, ...]
) -> None:
    history = OWN.history() if is_watched else without(OWN.history(), ev.StateSeen)
    history = read_before_training(history, *(failed(rank, "/own/best.pt") for rank in ranks))

    assert result_on("start-decision", OWN, history).status == "pass"
    assert result_on("agreement", OWN, history).status == "pass"


def test_a_job_that_could_not_read_its_file_and_began_anew_is_found() -> None:
    run = "g s s w:f r c- s s w:f r c- x g l:f! s s w:f r c- s s w:f r c- ."
    baseline = "g s s w:f r c- s s w:f r c- ."

    (result, *_) = judge_each(plan_of(run), told_in(run), told_in(baseline)).broken

    assert result.check == "start-decision"
    expect_finding(
        result,
        "failed-load-ignored",
        path="f",
        error="EOFError: ran out of input",
        severity="work lost",
    )


def test_a_model_that_could_not_be_read_while_the_cursor_was_is_found() -> None:
    first = next(
        p
        for _, e in OWN.history().select_events(ev.StateSeen)
        for p in e.components
        if p.name == "model"
    )
    history = read_before_training(OWN.history(), failed(0, "/own/model.pt"))
    history = restored_wrong(history, "model", first, moment="entered")

    assert result_on("start-decision", OWN, history).status == "fail"


def test_a_log_that_cannot_be_read_before_the_first_commit_is_no_lost_training() -> None:
    run = "g s w:log s w:log x g l:log! s w:log s w:log r c s s r c ."
    baseline = "g s w:log s w:log r c s s r c ."

    results = judge_each(plan_of(run), told_in(run), told_in(baseline)).results

    assert next(r for r in results if r.check == "start-decision").status == "pass"


def test_the_newest_of_each_kind_is_what_a_rank_read() -> None:
    history = read_before_training(
        OWN.history(),
        load(0, "/own/curve_1.pt", step=1),
        load(0, "/own/curve_2.pt", step=2),
        load(0, "/own/curve_0.pt", step=0),
        load(1, "/own/curve_9.pt", step=2),
    )
    history = without(history, ev.StateSeen)

    assert result_on("agreement", OWN, history).status == "pass"
