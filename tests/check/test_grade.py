"""How bad what is broken is, by what came of it."""

from typing import Any

import msgspec
import pytest

from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.bounds import Tolerance
from chaos.model.history import History
from chaos.model.severity import Severity
from chaos.model.verdict import Verdict
from tests.accepted import expect_text
from tests.check.broken_promises import RNG, augmented, counted, lost_rng
from tests.check.parts import KILLED, fresh
from tests.check.shorthand import plan_of, told_in
from tests.check.story import Story, Strike
from tests.check.tamper import changed, restored_wrong, shifted, verdict_on
from tests.check.test_blame import moved, wrong
from tests.check.test_samples import given
from tests.check.test_saved_model import with_buffers
from tests.findings import expect_in_headline


def severities(verdict: Verdict) -> dict[str, Severity | None]:
    return {result.check: result.severity for result in verdict.broken}


def called(history: History, *, draws: bool) -> History:
    """Tell what the generators were before the first forward call; `draws`: others than after."""
    entries = list(history)
    seen = [
        (n, e)
        for n, e in history.select_events(ev.StateSeen)
        if e.attempt and e.moment == "entered"
    ]
    for number, entered in reversed(seen):
        after = next(part.digest for part in entered.components if part.name == "rng.torch")
        digests = {"rng.torch": "before" if draws else after}
        who: dict[str, int] = {"attempt": entered.attempt, "rank": entered.rank}
        place: dict[str, int] = {"epoch": entered.epoch, "step": entered.step}
        census: Any = ev.CensusTaken(**who, **place, held=(), generators=digests)  # type: ignore[arg-type]
        entries.insert(number, msgspec.structs.replace(entries[number], event=census))
    return History(entries)


def test_a_right_run_has_no_severity() -> None:
    assert verdict_on(KILLED).severity is None


@pytest.mark.parametrize("name", ["model", "optimizer.momentum_buffer", "schedule", "ema"])
def test_what_is_lost_makes_a_wrong_result(name: str) -> None:
    found = severities(verdict_on(KILLED, shifted(wrong(name), 2)))

    assert set(found.values()) == {"wrong result"}


def test_where_only_a_generator_is_lost_a_run_is_not_reproducible() -> None:
    verdict = verdict_on(KILLED, lost_rng())

    assert severities(verdict) == {"state": "not reproducible", "trajectory": "not reproducible"}
    assert verdict.severity == "not reproducible"


def test_a_generator_that_the_first_step_does_not_draw_from_excuses_nothing() -> None:
    drawn, idle = (verdict_on(KILLED, called(lost_rng(), draws=it)) for it in (True, False))

    assert drawn.severity == "not reproducible"
    assert severities(idle) == {"trajectory": "wrong result"}
    assert "rng.torch" in next(r.summary for r in idle.results if r.check == "state")


def test_where_more_is_lost_the_generator_does_not_excuse_it() -> None:
    verdict = verdict_on(KILLED, moved(wrong("rng.torch", "optimizer.momentum_buffer"), 1))

    state, trajectory = verdict.broken
    assert [a.severity for a in state.anomalies] == ["not reproducible", "wrong result"]
    assert trajectory.severity == "wrong result"
    assert verdict.severity == "wrong result"


def test_a_loss_that_parts_later_than_the_first_draw_is_not_laid_to_chance() -> None:
    assert verdict_on(KILLED, moved(wrong("rng.torch"), 2)).severity == "wrong result"


def test_a_loss_that_parts_for_no_known_reason_is_a_wrong_result() -> None:
    assert verdict_on(KILLED, moved(KILLED.history(), 1)).severity == "wrong result"


def test_a_model_that_was_not_seen_to_come_back_is_not_known_to_be_right() -> None:
    def less(seen: ev.StateSeen) -> tuple[ev.Component, ...]:
        return tuple(part for part in seen.components if part.name != "model")

    history = changed(lost_rng(), ev.StateSeen, lambda e: e.attempt == 1, components=less)

    assert verdict_on(KILLED, history).severity == "wrong result"


def test_another_order_of_the_same_samples_is_not_reproducible() -> None:
    history = shifted(given(KILLED.history(), of=77, epoch=3), 3)

    found = severities(verdict_on(KILLED, history))

    assert found == {"sample-order": "not reproducible", "trajectory": "not reproducible"}


def test_an_order_that_does_not_explain_the_first_loss_excuses_nothing() -> None:
    history = moved(given(KILLED.history(), of=77, epoch=3), 2)

    assert severities(verdict_on(KILLED, history))["trajectory"] == "wrong result"


def test_running_statistics_that_follow_from_other_masks_are_not_lost() -> None:
    mine, due = with_buffers(lost_rng(), resumed=8.9), with_buffers(KILLED.baseline())

    assert judge(KILLED.plan(), mine, due).severity == "not reproducible"


def test_what_is_augmented_anew_is_not_reproducible_where_its_generator_was_lost() -> None:
    lost, kept = augmented(lost_rng()), augmented(moved(KILLED.history(), 1))

    assert verdict_on(KILLED, lost).severity == "not reproducible"
    assert verdict_on(KILLED, kept).severity == "wrong result"


def test_inputs_that_differ_before_the_loss_does_are_the_cause_with_their_ranks() -> None:
    verdict = verdict_on(KILLED, augmented(moved(KILLED.history(), 2), ranks=(1,)))

    assert verdict.broken[0].check == "sample-order"
    expect_in_headline(
        verdict, "unknown-samples", epoch=2, ranks=(1,), step=1, has_restored_generators=True
    )
    assert ". From epoch 2, step 2 on," in verdict.headline


def test_a_generator_that_is_lost_on_all_ranks_is_not_why_one_is_fed_otherwise() -> None:
    verdict = verdict_on(KILLED, augmented(moved(wrong("rng.torch"), 2), ranks=(1,)))

    assert [result.check for result in verdict.broken] == ["sample-order", "trajectory"]


def test_inputs_that_differ_after_the_loss_does_are_not_its_cause() -> None:
    def hit(done: ev.StepDone) -> bool:
        return done.attempt == 1 and done.epoch == 3

    odd = ev.Inputs(count=2, digest="odd", samples="0dd0dd0d0dd0dd0e")
    history = changed(moved(KILLED.history(), 1), ev.StepDone, hit, inputs=odd)

    assert verdict_on(KILLED, history).broken[0].check == "trajectory"


def test_a_counter_that_begins_anew_is_cosmetic() -> None:
    baseline = counted(KILLED.baseline())
    only = judge(KILLED.plan(), counted(KILLED.history(), reset=True), baseline)
    more = judge(KILLED.plan(), shifted(counted(KILLED.history(), reset=True), 2), baseline)

    assert severities(only) == {"metrics": "cosmetic", "trajectory": "cosmetic"}
    assert more.severity == "wrong result"


TWICE = Story((Strike(1, 2, 0), Strike(2, 2, 1)))


def drifted(digest: str = "own") -> History:
    """Return that a lost generator moved the model in epoch 1, and what the second resume found."""

    def parts(seen: ev.StateSeen) -> tuple[ev.Component, ...]:
        left = seen.epoch if seen.moment == "left" else seen.epoch - 1
        name = digest if (seen.attempt, seen.moment, seen.epoch) == (2, "entered", 2) else "own"
        return tuple(
            msgspec.structs.replace(part, digest=f"{name}{left}") if part.name == "model" else part
            for part in seen.components
        )

    def hit(seen: ev.StateSeen) -> bool:
        return seen.attempt >= 1 and (seen.epoch, seen.moment) != (1, "entered")

    history = restored_wrong(TWICE.history(), "rng.torch", fresh("rng.torch"))
    return changed(moved(history, 1, epoch=1), ev.StateSeen, hit, components=parts)


def test_a_second_resume_is_compared_with_what_the_first_one_left() -> None:
    follows, parts = (verdict_on(TWICE, drifted(digest), **RNG) for digest in ("own", "other"))

    assert (follows.status, follows.severity) == ("pass", None)
    assert [note.split(":")[1] for note in follows.notes] == [" state", " trajectory"]
    assert (parts.status, parts.severity) == ("fail", "wrong result")


def test_work_that_was_saved_and_trained_again_is_lost_and_no_wrong_result() -> None:
    base = "g @model=0 s r c- @model=1 s w:f_2 s r c- @model=2 s r c- ."
    anew = "g @model=0 s r c- @model=1 s w:f_2 s r c- @model=2 s x g @model=0 " + base[11:]

    found = judge(plan_of(anew), told_in(anew), told_in(base))
    accepted = judge(plan_of(anew, accept=("lost-work",)), told_in(anew), told_in(base))
    other = anew.replace("x g @model=0 s", "x g @model=0 s!")
    wrong = judge(plan_of(other, accept=("lost-work",)), told_in(other), told_in(base))

    assert [r.check for r in found.broken] == ["resume-point", "lost-work"]
    assert (found.severity, accepted.status) == ("work lost", "pass")
    expect_text(accepted.notes[0])
    assert (wrong.severity, wrong.status) == ("wrong result", "fail")


def test_a_tolerance_lets_numbers_and_norms_pass_and_says_so() -> None:
    near = ev.Component(name="ema", digest="near", size=1.0601)
    history = restored_wrong(moved(KILLED.history(), 1), "ema", near, moment="left")

    verdict = verdict_on(KILLED, history, loss_tolerance=Tolerance(relative=0.05))

    assert verdict.status == "pass"
    expect_text(verdict.headline)
