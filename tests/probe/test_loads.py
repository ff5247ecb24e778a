"""A state that is loaded after steps of an attempt: it resumed there, or it goes on."""

from pathlib import Path

import pytest

from chaos.model.places import TrainingPlace
from chaos.probe import loads
from chaos.probe.cursor import Cursor
from chaos.probe.loads import ResumeFinder
from chaos.probe.saves import SaveFolder
from chaos.resume.attempt import ResumePoint
from chaos.resume.resume_place import StepKeys

EPOCH_END = TrainingPlace(0, 48)


def place_after_load(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, steps: int, found: TrainingPlace
) -> tuple[int, int]:
    """Return where an attempt is that made steps from the start, loaded a state and steps on.

    `found`: the place of its next step, by its model and its inputs.
    """
    cursor = Cursor(1, 0, 0)
    finder = ResumeFinder(
        cursor,
        SaveFolder(folder),
        ranks=1,
        may_move=True,
        is_untouched=lambda: True,
        is_epoch_end=lambda place: place == EPOCH_END,
    )
    finder.move_cursor(StepKeys())
    cursor.step = steps
    finder.reopen_search()
    point = ResumePoint(found, "state and inputs", ())
    monkeypatch.setattr(loads, "find_resume_point", lambda *_: point)
    finder.move_cursor(StepKeys())
    return cursor.epoch, cursor.step


def test_what_was_trained_before_a_save_was_read_is_a_prelude(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = TrainingPlace(2, 5)

    assert place_after_load(tmp_path, monkeypatch, steps=6, found=found) == (2, 5)
    assert place_after_load(tmp_path, monkeypatch, steps=48, found=found) == (2, 5)


def test_a_model_that_is_built_from_what_was_just_trained_is_no_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = TrainingPlace(1, 0)

    assert place_after_load(tmp_path, monkeypatch, steps=48, found=found) == EPOCH_END
    assert place_after_load(tmp_path, monkeypatch, steps=6, found=found) == (1, 0)
