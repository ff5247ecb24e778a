"""Which of the parts that did not come back is the cause, and which changed nothing."""

from typing import Any

import msgspec
import pytest

from chaos.check.blame import find_blame
from chaos.model import event as ev
from chaos.model.history import History
from tests.accepted import expect_text
from tests.check.each import judge_each
from tests.check.parts import KILLED, TWICE, fresh, lost, part
from tests.check.story import Story, Strike
from tests.check.tamper import analysis_of, changed, restored_wrong, result_on, shifted, verdict_on
from tests.check.watching import digest
from tests.findings import expect_finding, expect_in_headline


def moved(history: History, step: int, *, epoch: int = 2) -> History:
    """Return that losses differ from one step of a resumed epoch on."""

    def hit(done: ev.StepDone) -> bool:
        return done.attempt >= 1 and (done.epoch, done.step) >= (epoch, step)

    return changed(history, ev.StepDone, hit, losses=lambda e: (e.losses[0] + 0.01,))


def wrong(*names: str, since: int = 1) -> History:
    history = KILLED.history()
    for name in names:
        ours = None if name == "optimizer.momentum_buffer" else fresh(name)
        history = restored_wrong(history, name, ours, since=since)
    return history


def causes(history: History) -> list[str]:
    return [a.parts[0] for a in result_on("state", KILLED, history).anomalies]


# -- what can explain the first difference --------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "step", "order"),
    [
        (("schedule", "rng.torch"), 1, ["rng.torch", "schedule"]),
        (("optimizer.momentum_buffer", "rng.torch"), 1, ["rng.torch", "optimizer.momentum_buffer"]),
        (("optimizer.lr", "rng.torch"), 1, ["rng.torch", "optimizer.lr"]),
        (("schedule", "optimizer.momentum_buffer"), 2, ["optimizer.momentum_buffer", "schedule"]),
        (("schedule", "optimizer.momentum_buffer"), 3, ["optimizer.momentum_buffer", "schedule"]),
        (("schedule", "rng.torch"), 3, ["schedule"]),
        (("optimizer.momentum_buffer", "rng.torch"), 2, ["optimizer.momentum_buffer"]),
        (("schedule", "optimizer.lr"), 2, ["schedule"]),
        (("model", "schedule"), 1, ["model", "schedule"]),
    ],
)
def test_the_first_cause_can_have_moved_the_first_loss_that_differs(
    names: tuple[str, ...], step: int, order: list[str]
) -> None:
    assert causes(moved(wrong(*names), step)) == order


def test_all_causes_are_in_the_headline_with_what_follows_from_the_first() -> None:
    verdict = verdict_on(KILLED, moved(wrong("schedule", "rng.torch"), 1))

    expect_in_headline(
        verdict,
        "part-not-restored",
        part="rng.torch",
        ranks=(0, 1),
        standing="reset",
        severity="not reproducible",
    )
    assert ". From epoch 2, step 1 on," in verdict.headline
    assert ". Besides, schedule did not" in verdict.headline
    expect_finding(
        verdict.broken[0].anomalies[1], "part-not-restored", part="schedule", hint="schedule"
    )


@pytest.mark.parametrize(
    ("name", "step"),
    [("schedule", 1), ("schedule", 2), ("optimizer.momentum_buffer", 1), ("optimizer.lr", 1)],
)
def test_what_cannot_have_moved_the_first_loss_is_not_said_to_have(name: str, step: int) -> None:
    verdict = verdict_on(KILLED, moved(wrong(name), step))

    assert verdict.broken[0].check == "state"
    expect_text(verdict.headline)


def test_what_an_optimizer_forgot_is_one_cause() -> None:
    def two(history: History) -> History:
        def parts(seen: ev.StateSeen) -> tuple[ev.Component, ...]:
            count = ev.Component(name="optimizer.step", digest=digest(seen.epoch, seen.step))
            return (*seen.components, count)

        return changed(history, ev.StateSeen, components=parts)

    history = restored_wrong(two(lost("optimizer.momentum_buffer")), "optimizer.step", None)
    analysis = analysis_of(KILLED)
    verdict = type(analysis)(analysis.plan, history, two(KILLED.baseline()))

    (cause,) = find_blame(verdict, verdict.restarts[0]).causes
    assert {row.component for row in cause.rows} == {"optimizer.momentum_buffer", "optimizer.step"}


# -- random numbers -------------------------------------------------------------------------------


def test_a_generator_that_did_not_come_back_is_never_said_to_have() -> None:
    verdict = verdict_on(KILLED, moved(wrong("optimizer.momentum_buffer", "rng.torch"), 2))

    told = part(verdict, "rng.torch")
    assert (told.standing, told.matters) == ("reset", False)
    assert verdict.diagnosis[0].sentence.endswith(". rng.torch did not come back either")


def test_a_generator_that_nobody_draws_from_is_not_blamed() -> None:
    odd = ev.Component(name="rng.numpy", digest="odd")
    history = moved(restored_wrong(KILLED.history(), "rng.numpy", odd), 1)

    assert [result.check for result in verdict_on(KILLED, history).broken] == ["trajectory"]


# -- without consequence --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["optimizer.momentum_buffer", "optimizer.lr", "schedule"])
def test_what_did_not_come_back_and_changed_nothing_is_a_note(name: str) -> None:
    verdict = verdict_on(KILLED, wrong(name))

    assert verdict.status == "pass"
    (note,) = verdict.notes
    expect_text(note)
    assert not part(verdict, name).matters
    assert verdict.diagnosis[0].sound


@pytest.mark.parametrize("name", ["model", "ema"])
def test_what_is_shipped_is_a_finding_by_itself(name: str) -> None:
    assert causes(wrong(name)) == [name]


def test_a_model_that_parts_beneath_equal_losses_shows_what_was_lost() -> None:
    odd = ev.Component(name="model", digest="odd", size=1.0)
    history = restored_wrong(wrong("optimizer.momentum_buffer"), "model", odd, moment="left")

    assert causes(history) == ["optimizer.momentum_buffer"]


def test_where_nothing_that_lasts_was_looked_at_what_was_lost_is_a_finding() -> None:
    def no_model(history: History) -> History:
        def parts(seen: ev.StateSeen) -> tuple[ev.Component, ...]:
            return tuple(p for p in seen.components if p.name not in ("model", "ema"))

        silent = changed(history, ev.StepDone, losses=None)
        return changed(silent, ev.StateSeen, components=parts)

    analysis = analysis_of(KILLED, no_model(wrong("optimizer.momentum_buffer")))
    analysis = type(analysis)(analysis.plan, analysis.history, no_model(KILLED.baseline()))

    assert [c.rows[0].component for c in find_blame(analysis, analysis.restarts[0]).causes] == [
        "optimizer.momentum_buffer"
    ]


def test_a_model_under_another_name_that_makes_the_same_losses_is_a_note() -> None:
    def unowned(seen: ev.StateSeen) -> ev.Component:
        mine = next(p for p in seen.components if p.name == "model")
        return ev.Component(name="model.unowned", digest=mine.digest, size=mine.size, count=4)

    verdict = verdict_on(KILLED, restored_wrong(KILLED.history(), "model", unowned))

    assert "state" not in [result.check for result in verdict.broken]


def test_what_was_lost_at_the_second_resume_is_told_by_what_follows_the_second() -> None:
    history = restored_wrong(TWICE.history(), "optimizer.momentum_buffer", None)

    messages = [a.message for a in result_on("state", TWICE, moved(history, 4, epoch=3)).anomalies]

    assert len(messages) == 1
    assert "after the resume at epoch 3" in messages[0]


def test_a_rate_follows_the_schedule_of_a_run_that_had_left_its_baseline() -> None:
    """A schedule that was saved before its step was one cause, and the rate it set a second."""
    history = restored_wrong(TWICE.history(), "schedule", fresh("schedule"), since=1)
    seen = next(seen for _, seen in history.select_events(ev.StateSeen))
    of_its_past = msgspec.structs.replace(fresh("schedule")(seen), digest="past", size=2.0)
    history = restored_wrong(history, "schedule", of_its_past, since=2)
    history = restored_wrong(history, "optimizer.lr", fresh("optimizer.lr"), since=2)
    trained = ev.Component(name="model", digest="odd", size=7.0)
    history = restored_wrong(history, "model", trained, since=2, moment="left")

    found = result_on("state", TWICE, moved(history, 3))

    assert [anomaly.parts[0] for anomaly in found.anomalies] == ["schedule"]


def test_gradients_that_waited_have_a_remedy_of_their_own() -> None:
    def waiting(history: History) -> History:
        def parts(seen: ev.StateSeen) -> tuple[ev.Component, ...]:
            held = seen.epoch if seen.attempt == 0 else 0
            told = ev.Component(name="gradients", digest=digest(held) if held else "", count=held)
            return (*seen.components, told)

        return changed(history, ev.StateSeen, components=parts)

    story = Story((Strike(2, 3, 1),))
    verdict = judge_each(
        story.plan(), moved(waiting(story.history()), 2), waiting(story.baseline())
    )

    assert "gradients is not restored" in verdict.headline
    assert "save after `optimizer.step()`" in verdict.headline


def test_what_was_shifted_late_is_still_explained_by_a_schedule() -> None:
    assert causes(shifted(wrong("schedule"), 3)) == ["schedule"]


def test_a_schedule_that_moved_nothing_yet_and_was_saved_wrong_is_a_finding() -> None:
    def saves(history: History, *, lost: bool) -> History:
        entries = list(history)
        for number, done in reversed(list(history.select_events(ev.ReportBegun))):
            count = 1 + done.epoch - 2 * (lost and done.attempt > 0)
            place: dict[str, Any] = {
                "attempt": done.attempt,
                "rank": done.rank,
                "epoch": done.epoch,
                "step": 6,
            }
            begun = ev.FileSaveBegun(**place, path="s.pt")
            saved = ev.FileSaved(
                **place, path="s.pt", digest=digest(count), bytes=9, counts={"s.last_epoch": count}
            )
            mine = entries[number]
            entries[number:number] = [
                msgspec.structs.replace(mine, event=begun),
                msgspec.structs.replace(mine, event=saved),
            ]
        return History(entries)

    story = Story(KILLED.strikes)
    history, baseline = saves(wrong("schedule"), lost=True), saves(story.baseline(), lost=False)

    verdict = judge_each(story.plan(), history, baseline)

    assert verdict.broken[0].check == "state"
    expect_in_headline(
        verdict, "part-not-restored", part="schedule", standing="reset", expects_own_state=False
    )


def without_ends(history: History, *, drawn: bool | None) -> History:
    """Return a clean run without states at the ends of epochs, as of a job that reports nothing.

    `drawn`: whether its steps draw from torch's generator; None: it was not looked at.
    """
    entries = []
    for entry in history:
        what = entry.event
        if isinstance(what, ev.StateSeen) and what.moment == "left":
            continue
        entries.append(entry)
        if isinstance(what, ev.StateSeen) and what.moment == "entered" and drawn is not None:
            at_entry = next(p.digest for p in what.components if p.name == "rng.torch")
            seen = ev.GeneratorsSeen(
                attempt=what.attempt,
                rank=what.rank,
                epoch=what.epoch,
                step=2,
                digests={"rng.torch": "another" if drawn else at_entry},
            )
            entries.append(msgspec.structs.replace(entry, event=seen))
    return History(entries)


@pytest.mark.parametrize(
    ("drawn", "first"), [(None, "state"), (True, "state"), (False, "trajectory")]
)
def test_a_generator_that_no_step_draws_from_does_not_move_a_later_loss(
    drawn: bool | None, first: str
) -> None:
    baseline = without_ends(KILLED.baseline(), drawn=drawn)

    verdict = judge_each(KILLED.plan(), moved(wrong("rng.torch"), 2), baseline)

    assert verdict.broken[0].check == first
