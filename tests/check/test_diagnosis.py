"""What the diagnosis of each resume says."""

import pytest

from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.diagnosis import Resume
from chaos.model.events.state import find_group
from chaos.model.history import History
from tests.check.parts import KILLED, TWICE
from tests.check.tamper import changed, restored_wrong, shifted, verdict_on
from tests.findings import expect_finding

WHICH = ev.Component(name="optimizer.state", digest="0: momentum_buffer", count=2)
NONE = ev.Component(name="optimizer.state", digest="", count=0)


def with_state(history: History, *, resumed: ev.Component, momentum: bool = True) -> History:
    """Return the history with which parameters have state; `momentum`: and of which kind."""

    def told(seen: ev.StateSeen) -> tuple[ev.Component, ...]:
        kept = (p for p in seen.components if momentum or p.name != "optimizer.momentum_buffer")
        return (*kept, resumed if seen.attempt else WHICH)

    return changed(history, ev.StateSeen, components=told)


def shown_of_the_optimizer(history: History, baseline: History) -> dict[str, str]:
    (resume,) = judge(KILLED.plan(), history, baseline).diagnosis
    return {p.component: p.standing for p in resume.parts if p.group == "optimizer"}


def test_the_diagnosis_of_a_right_run_says_that_all_came_back() -> None:
    (resume,) = verdict_on(KILLED).diagnosis

    assert resume.sound
    assert resume.sentence.startswith("9 parts")
    assert (resume.attempt, resume.epoch, resume.step) == (1, 2, 0)
    groups = list(dict.fromkeys(p.group for p in resume.parts))
    assert groups == [
        "model", "optimizer", "optimizer settings", "schedule", "averaged model", "rng",
        "data order", "cursor",
    ]  # fmt: skip
    assert Resume.model_validate_json(resume.model_dump_json()) == resume


def test_the_diagnosis_of_two_resumes_blames_the_right_one() -> None:
    history = shifted(restored_wrong(TWICE.history(), "ema", None, since=2), 3)

    verdict = verdict_on(TWICE, history)

    first, second = verdict.diagnosis
    assert first.sound
    assert not second.sound
    assert "ema is not restored" in second.sentence
    expect_finding(
        verdict, "part-not-restored", part="ema", standing="not restored", resumed_at=(3, 0)
    )


def test_without_a_baseline_no_place_is_compared() -> None:
    (resume,) = verdict_on(KILLED, alone=True).diagnosis

    cursors = [p for p in resume.parts if p.group == "cursor"]
    assert [(p.standing, p.ours, p.baseline) for p in cursors] == [
        ("not compared", "", "epoch 2, step 0")
    ] * 2


def test_of_an_optimizer_each_kind_of_state_is_shown_and_not_that_there_is_some() -> None:
    right = with_state(KILLED.history(), resumed=WHICH)
    lost = with_state(
        restored_wrong(KILLED.history(), "optimizer.momentum_buffer", None), resumed=NONE
    )
    baseline = with_state(KILLED.baseline(), resumed=WHICH)

    assert shown_of_the_optimizer(right, baseline) == {"optimizer.momentum_buffer": "restored"}
    assert shown_of_the_optimizer(lost, baseline) == {"optimizer.momentum_buffer": "not restored"}
    (found,) = judge(KILLED.plan(), shifted(lost, 2), baseline).broken[0].anomalies
    expect_finding(
        found,
        "part-not-restored",
        part="optimizer.momentum_buffer",
        standing="not restored",
        expects_own_state=False,
    )
    assert "; with it optimizer.state. " in found.message


def test_that_an_optimizer_has_state_is_shown_where_nothing_else_tells_it() -> None:
    lost = with_state(KILLED.history(), resumed=NONE)
    bare = with_state(KILLED.history(), resumed=NONE, momentum=False)
    baseline = with_state(KILLED.baseline(), resumed=WHICH)
    bare_baseline = with_state(KILLED.baseline(), resumed=WHICH, momentum=False)

    assert shown_of_the_optimizer(lost, baseline)["optimizer.state"] == "not restored"
    assert shown_of_the_optimizer(bare, bare_baseline) == {"optimizer.state": "not restored"}


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
    assert find_group(name) == group
