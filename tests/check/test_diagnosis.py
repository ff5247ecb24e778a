"""What the diagnosis of each resume says."""

import pytest

from chaos.check.components import group_of
from chaos.model.diagnosis import Resume
from tests.check.parts import KILLED, TWICE
from tests.check.tamper import restored_wrong, shifted, verdict_on


def test_the_diagnosis_of_a_right_run_says_that_all_came_back() -> None:
    (resume,) = verdict_on(KILLED).diagnosis

    assert resume.sound
    assert resume.sentence == "9 parts of the state came back"
    assert (resume.attempt, resume.epoch, resume.step) == (1, 2, 0)
    groups = list(dict.fromkeys(p.group for p in resume.parts))
    assert groups == [
        "model", "optimizer", "optimizer settings", "schedule", "averaged model", "rng",
        "data order", "cursor",
    ]  # fmt: skip
    assert Resume.model_validate_json(resume.model_dump_json()) == resume


def test_the_diagnosis_of_two_resumes_blames_the_right_one() -> None:
    history = shifted(restored_wrong(TWICE.history(), "ema", None, since=2), 3)

    first, second = verdict_on(TWICE, history).diagnosis

    assert first.sound
    assert not second.sound
    assert "ema is not restored after the resume at epoch 3" in second.sentence


def test_without_a_baseline_no_place_is_compared() -> None:
    (resume,) = verdict_on(KILLED, alone=True).diagnosis

    cursors = [p for p in resume.parts if p.group == "cursor"]
    assert [(p.standing, p.ours, p.baseline) for p in cursors] == [
        ("not compared", "", "epoch 2, step 0")
    ] * 2


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("model", "model"),
        ("optimizer.exp_avg", "optimizer"),
        ("optimizer[1].exp_avg", "optimizer"),
        ("optimizer.lr", "optimizer settings"),
        ("optimizer.weight_decay", "optimizer settings"),
        ("schedule", "schedule"),
        ("scaler", "scaler"),
        ("rng.python", "rng"),
        ("patience", "declared"),
    ],
)
def test_every_component_belongs_to_a_group(name: str, group: str) -> None:
    assert group_of(name) == group
