"""Where a rank resumed: by its state, its inputs and its losses, else by what was read."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.places import START, TrainingPlace
from chaos.resume.attempt import ResumePoint
from chaos.resume.relocation import relocate_attempts
from chaos.resume.resume_place import (
    InferredPlace,
    ResumePlaceIndex,
    StepKeys,
    find_resume_point,
    get_indexes,
)
from tests.check.story import Story, Strike
from tests.check.tamper import analysis_of, changed, result_on, told, without
from tests.check.tamper import resumed_at as resumed_at_place
from tests.findings import expect_finding

NOTHING = InferredPlace()


def course(inputs: str, *, epoch_steps: int, frozen: bool = False) -> ResumePlaceIndex:
    """Return a baseline's index; a letter is a step's inputs, and each state is another one."""
    found = ResumePlaceIndex()
    for at, letter in enumerate(inputs):
        place = TrainingPlace(*divmod(at, epoch_steps))
        model = "m" if frozen else f"m{at}"
        found.add_keys(place, model, f"o{at}")
        found.steps.append((place, StepKeys(inputs=letter, losses=(float(at),))))
    return found


def first_steps(index: ResumePlaceIndex, at: int, count: int = 3) -> list[StepKeys]:
    """Return what a right job shows that resumed after so many steps."""
    place, _ = index.steps[at]
    model = next((key for key, places in index.models.items() if place in places), "")
    held = next((key for key, places in index.optimizers.items() if place in places), "")
    first, *rest = index.select_steps(place, count)
    return [replace(first, model=model, optimizer=held), *rest]


@given(st.integers(0, 11), st.text("ab", min_size=12, max_size=12), st.sampled_from([3, 4, 12]))
def test_a_right_resume_is_found_whatever_is_assumed(at: int, inputs: str, steps: int) -> None:
    index = course(inputs, epoch_steps=steps)
    place = index.steps[at][0]

    for assumed in (
        NOTHING,
        InferredPlace(index.steps[0][0], "commit"),
        InferredPlace(TrainingPlace(1, 0), "file"),
    ):
        found = find_resume_point(first_steps(index, at), index, assumed)
        is_lost = (
            at == 0 and assumed.training_place != START and inputs[0] in _inputs_at(index, assumed)
        )
        assert found == (
            ResumePoint(assumed.training_place, assumed.evidence)
            if is_lost
            else ResumePoint(place, "state and inputs")
        )


def _inputs_at(index: ResumePlaceIndex, assumed: InferredPlace) -> list[str]:
    return [seen.inputs for seen in index.select_steps(assumed.training_place, 1)]


@given(st.integers(1, 11), st.data())
def test_a_state_and_inputs_of_two_places_are_a_resume_where_the_state_is(
    at: int, data: st.DataObject
) -> None:
    index = course("abcdefghijkl", epoch_steps=4)
    other = data.draw(st.integers(0, 11).filter(lambda n: n != at))
    seen = replace(first_steps(index, at)[0], inputs="abcdefghijkl"[other], losses=(0.5,))

    found = find_resume_point([seen], index, NOTHING)

    assert found == ResumePoint(index.steps[at][0], "state")


def test_a_model_of_one_place_with_the_optimizer_of_another_is_no_evidence_against_a_commit() -> (
    None
):
    index = course("abcdefgh", epoch_steps=4)
    mixed = StepKeys(model="m2", optimizer="o4", inputs="e", losses=(0.5,))

    assert find_resume_point(
        [mixed], index, InferredPlace(TrainingPlace(1, 0), "commit")
    ) == ResumePoint(TrainingPlace(1, 0), "commit")


def test_a_lost_model_does_not_move_a_job_whose_data_go_on() -> None:
    index = course("abcdefgh", epoch_steps=4)
    lost = StepKeys(model="m0", optimizer="o0", inputs="e", losses=(0.5,))

    found = find_resume_point([lost], index, InferredPlace(TrainingPlace(1, 0), "commit"))

    assert found == ResumePoint(TrainingPlace(1, 0), "commit")


def test_a_job_that_begins_anew_is_at_the_beginning_whatever_it_was_handed() -> None:
    index = course("abcdefgh", epoch_steps=4)

    found = find_resume_point(
        first_steps(index, 0), index, InferredPlace(TrainingPlace(1, 0), "commit")
    )

    assert found == ResumePoint(START, "state and inputs")


def test_a_model_that_does_not_change_at_first_is_placed_by_what_its_optimizer_holds() -> None:
    index = course("abcdabcd", epoch_steps=4, frozen=True)

    assert find_resume_point(first_steps(index, 4), index, NOTHING) == ResumePoint(
        TrainingPlace(1, 0), "state and inputs"
    )


def test_a_model_that_does_not_change_at_first_is_placed_by_the_steps_that_follow() -> None:
    index = course("abcdabcd", epoch_steps=4, frozen=True)
    index = replace(index, optimizers={"": index.models["m"]})
    steps = first_steps(index, 4)
    alike = [replace(steps[0], losses=index.steps[0][1].losses), *steps[1:]]

    assert find_resume_point(alike[:1], index, NOTHING) == ResumePoint(START, "state and inputs")
    assert find_resume_point(alike, index, NOTHING).training_place == START
    unseen = [replace(steps[0], losses=()), *steps[1:]]
    assert find_resume_point(unseen[:1], index, NOTHING) == ResumePoint(
        START, "state and inputs", alternatives=(TrainingPlace(1, 0),)
    )
    assert find_resume_point(unseen, index, NOTHING) == ResumePoint(
        TrainingPlace(1, 0), "state and inputs"
    )


def test_a_model_that_was_read_and_not_used_is_placed_by_its_optimizer() -> None:
    index = course("abcdabcd", epoch_steps=4)
    lost = StepKeys(model="m0", optimizer="o4", inputs="a", losses=(0.0,))

    assert find_resume_point([lost], index, NOTHING) != ResumePoint(START, "state and inputs")
    assert find_resume_point([lost], index, NOTHING).training_place == TrainingPlace(1, 0)


def test_data_that_are_the_same_in_every_epoch_leave_a_lost_model_where_the_commit_was() -> None:
    index = course("abcdabcd", epoch_steps=4)

    found = find_resume_point(
        first_steps(index, 0), index, InferredPlace(TrainingPlace(1, 0), "commit")
    )

    assert found == ResumePoint(TrainingPlace(1, 0), "commit")


@given(st.integers(1, 7), st.randoms(use_true_random=False))
def test_numbers_that_do_not_repeat_are_placed_by_the_runs_own_state(
    at: int, drawn: random.Random
) -> None:
    index, own = course("abcdabcd", epoch_steps=4), ResumePlaceIndex()
    place = index.steps[at][0]
    own.add_keys(place, "mine", "held")
    seen = StepKeys(model="mine", optimizer="held", inputs="", losses=(drawn.random() + 100,))

    assert find_resume_point([seen], index, NOTHING, own) == ResumePoint(place, "state")


def test_inputs_alone_place_a_job_of_which_nothing_else_is_known() -> None:
    index = course("abcdabce", epoch_steps=4)
    steps = [StepKeys(model="other", inputs=letter, losses=(0.5,)) for letter in "bce"]

    assert find_resume_point(steps, index, NOTHING) == ResumePoint(TrainingPlace(1, 1), "inputs")
    assert find_resume_point(steps[:2], index, NOTHING) == ResumePoint(
        TrainingPlace(1, 1), "inputs", alternatives=(TrainingPlace(0, 1),)
    )


def test_equal_losses_place_a_state_that_was_not_looked_at() -> None:
    index = replace(course("abcdabcd", epoch_steps=4), models={}, optimizers={})
    seen = StepKeys(model="other", optimizer="held", inputs="c", losses=(6.0,))

    assert find_resume_point([seen], index, NOTHING) == ResumePoint(
        TrainingPlace(1, 2), "inputs and losses"
    )


def test_an_index_is_read_as_it_was_written_and_without_steps_for_other_ranks() -> None:
    index = get_indexes(Story().baseline())[0]

    assert ResumePlaceIndex.from_fields(index.build_fields(ranks=2), ranks=2) == replace(
        index, steps=[(place, replace(seen, model="", optimizer="")) for place, seen in index.steps]
    )
    assert ResumePlaceIndex.from_fields(index.build_fields(ranks=2), ranks=3).steps == []


# -- in a run --------------------------------------------------------------------------------------


OWN = Story((Strike(2, 3, 1),), files=True)


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_attempt_that_was_recorded_elsewhere_is_placed_where_its_training_is(epoch: int) -> None:
    history = without(OWN.history(), ev.Repositioned)
    for kind in (ev.StepDone, ev.StateSeen, ev.WorkerStarted, ev.ReportBegun, ev.ReportReturned):
        history = changed(
            history, kind, lambda e: e.attempt == 1, epoch=lambda e: e.epoch - 2 + epoch
        )

    moved = analysis_of(OWN, history)

    assert moved.restarts[0].attempt.training_place == (2, 0)
    assert moved.run.lineage.lost_steps == analysis_of(OWN).run.lineage.lost_steps
    assert relocate_attempts(OWN.history(), OWN.baseline()) is not None


def test_an_attempt_that_goes_on_behind_what_it_was_handed_is_named() -> None:
    story = Story((Strike(3, 3, 1),))
    history = story.history()
    saved, uploaded = _saved_for(history, epoch=2)
    later = told(told(history, *saved, before=ev.WorkerGroupStarted), *uploaded)
    back = resumed_at_place(later, epoch=2, attempt=1)

    assert result_on("resume-point", story, later).status == "pass"
    found = result_on("resume-point", story, back)
    assert found.status == "fail"
    expect_finding(found, "older-than-files", rank=0, saved_at=(2, 6), resumed_at=(2, 0))


def _saved_for(
    history: History, *, epoch: int
) -> tuple[tuple[ev.AnyEvent, ...], tuple[ev.AnyEvent, ...]]:
    """Return that rank 0 saved a file at the end of an epoch, and uploaded it with its report."""
    done = [e for _, e in history.select_events(ev.Committed) if e.epoch == epoch]
    at: dict[str, Any] = {"attempt": 0, "rank": 0, "epoch": epoch, "step": 6}
    begun = ev.FileSaveBegun(**at, path="/own/model.pt")
    saved = ev.FileSaved(**at, path="/own/model.pt", digest="d1", bytes=9)
    name = done[-1].checkpoint
    assert name is not None
    part = ev.PartUploaded(
        attempt=0, rank=0, epoch=epoch, checkpoint=name, files={"model.pt": "d1"}
    )
    return (begun, saved), (part,)
