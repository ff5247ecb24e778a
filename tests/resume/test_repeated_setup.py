"""Steps that each start makes after it has read its save, and before it goes on."""

from typing import Any

import pytest

from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.places import AttemptRank, TrainingPlace
from chaos.resume.relocation import relocate_attempts
from chaos.resume.repeated_setup import (
    find_repeated_setups,
    has_setup_steps,
    have_equal_samples,
)
from tests.check.scribe import history_of

SETUP, EPOCH = 3, 2
SECOND = AttemptRank(1, 0)


def done(attempt: int, place: tuple[int, int], loss: float, optimizer: str = "") -> ev.StepDone:
    epoch, step = place
    return ev.StepDone(
        attempt=attempt, rank=0, epoch=epoch, step=step, losses=(loss,), optimizer=optimizer
    )


def setup(attempt: int, count: int = SETUP, offset: float = 0.0) -> list[ev.StepDone]:
    """Return the steps of a teacher."""
    return [done(attempt, (0, step), 9.0 - step + offset) for step in range(1, count + 1)]


def student(
    attempt: int, first_epoch: int, *, recorded: bool, offset: float = 0.0
) -> list[ev.AnyEvent]:
    """Return the steps of epochs of two steps from one of three on, with a save after each."""
    events: list[ev.AnyEvent] = []
    for epoch in range(first_epoch, 3):
        number = epoch if recorded else epoch - first_epoch
        begun = SETUP if number == 0 else 0
        for step in range(1, EPOCH + 1):
            loss = 1 / (1 + EPOCH * epoch + step) + offset
            events.append(done(attempt, (number, begun + step), loss, "1 (Adam)"))
        place: dict[str, Any] = {
            "attempt": attempt,
            "rank": 0,
            "epoch": number,
            "step": begun + EPOCH,
        }
        events.append(ev.FileSaveBegun(**place, path="net.pt"))
    return events


def read(saved_epoch: int) -> ev.FileLoaded:
    step = EPOCH + SETUP * (saved_epoch == 0)
    return ev.FileLoaded(
        attempt=1,
        rank=0,
        epoch=0,
        step=0,
        path="net.pt",
        digest="d",
        saved_attempt=0,
        saved_rank=0,
        saved_epoch=saved_epoch,
        saved_step=step,
    )


BASELINE = history_of(*setup(0), *student(0, 0, recorded=True))


def restarted(*events: ev.AnyEvent) -> History:
    return history_of(*setup(0), *student(0, 0, recorded=True)[:5], *events)


def test_steps_that_are_made_again_are_set_aside_and_the_rest_follows_the_save() -> None:
    history = restarted(read(0), *setup(1), *student(1, 1, recorded=False))

    found = find_repeated_setups(history, BASELINE)
    moved, _ = relocate_attempts(history, BASELINE)

    assert found[SECOND].recorded_place == TrainingPlace(0, SETUP)
    assert found[SECOND].resume_place == TrainingPlace(1, 0)
    places = [(e.epoch, e.step) for _, e in moved.select_events(ev.StepDone) if e.attempt == 1]
    assert places == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_an_attempt_that_ended_among_them_has_made_no_step() -> None:
    history = restarted(read(0), *setup(1, count=2))

    moved, _ = relocate_attempts(history, BASELINE)

    assert not [e for _, e in moved.select_events(ev.StepDone) if e.attempt == 1]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([*setup(1), *student(1, 0, recorded=True)], id="it read nothing"),
        pytest.param([read(0), *setup(1), *student(1, 0, recorded=True)], id="it began anew"),
        pytest.param(
            [read(0), *setup(1, offset=0.1), *student(1, 1, recorded=False)], id="another setup"
        ),
        pytest.param(
            [read(0), *setup(1), *student(1, 1, recorded=False, offset=0.1)], id="other losses"
        ),
        pytest.param([read(1), *setup(1), *student(1, 1, recorded=False)], id="an older place"),
    ],
)
def test_whatever_else_differs_stays_as_it_was_recorded(events: list[ev.AnyEvent]) -> None:
    assert not find_repeated_setups(restarted(*events), BASELINE)


def test_work_that_was_saved_is_no_setup() -> None:
    saved = ev.FileSaveBegun(attempt=0, rank=0, epoch=0, step=2, path="teacher.pt")
    baseline = history_of(saved, *setup(0), *student(0, 0, recorded=True))

    assert has_setup_steps(BASELINE)
    assert not has_setup_steps(baseline)
    one_optimizer = [done(0, (0, step), 1.0) for step in range(1, 5)]
    assert not has_setup_steps(history_of(*one_optimizer, saved))


@pytest.mark.parametrize(
    ("count", "samples", "is_equal"),
    [(2, "ab", True), (4, "abab", True), (4, "abcd", False), (3, "aba", False)],
)
def test_a_batch_that_a_teacher_was_given_as_well_holds_the_same_samples(
    count: int, samples: str, *, is_equal: bool
) -> None:
    expected = ev.Inputs(count=2, digest="x", samples="ab")

    inputs = ev.Inputs(count=count, digest="y", samples=samples)

    assert have_equal_samples(inputs, expected) is is_equal
    assert have_equal_samples(None, None)
    assert not have_equal_samples(inputs, None)
