"""What a scenario accepts: named in a note, and nothing besides."""

from typing import Any

import pytest

from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.expect import AcceptedFinding
from chaos.model.history import History
from chaos.model.verdict import Verdict
from tests.accepted import expect_text
from tests.check.broken_promises import RNG, augmented, counted, lost_rng
from tests.check.parts import KILLED
from tests.check.shorthand import plan_of, told_in
from tests.check.tamper import changed, shifted, verdict_on, without
from tests.check.test_blame import moved, wrong
from tests.check.watching import digest

# -- what is accepted ------------------------------------------------------------------------------


def test_a_lost_generator_can_be_accepted_and_a_note_stays() -> None:
    verdict = verdict_on(KILLED, lost_rng(), **RNG)

    assert (verdict.status, verdict.as_expected, verdict.broken) == ("pass", True, ())
    assert "but for what `expect.accept`" in verdict.headline
    expect_text(verdict.notes[0])
    assert verdict.restarts.resumed == 1


@pytest.mark.parametrize(
    "history",
    [
        lambda: shifted(wrong("optimizer.momentum_buffer"), 2),
        lambda: moved(wrong("optimizer.momentum_buffer", "rng.torch"), 1),
        lambda: moved(wrong("model", "rng.torch"), 1),
        lambda: moved(wrong("rng.torch"), 2),
        lambda: augmented(moved(KILLED.history(), 1)),
        lambda: without(lost_rng(), ev.StateSeen, lambda e: e.attempt == 1 and e.rank == 0),
    ],
    ids=["momentum", "both", "model", "too late", "samples", "a rank not seen"],
)
def test_nothing_else_is_accepted_with_it(history: Any) -> None:
    verdict = verdict_on(KILLED, history(), **RNG)

    assert verdict.status == "fail"
    assert not verdict.notes


RESAMPLED: dict[str, Any] = {"sampling": "resampled"}


def test_inputs_that_a_restart_may_draw_are_noted_with_what_follows_from_them() -> None:
    verdict = verdict_on(KILLED, augmented(moved(KILLED.history(), 1)), **RESAMPLED)

    assert verdict.status == "pass"
    assert [note.split(":")[1] for note in verdict.notes] == [" sample-order", " trajectory"]


@pytest.mark.parametrize(
    "history",
    [
        lambda: moved(KILLED.history(), 1),
        lost_rng,
        lambda: augmented(moved(wrong("optimizer.momentum_buffer"), 1)),
        lambda: augmented(moved(wrong("model"), 1)),
        lambda: changed(
            augmented(moved(KILLED.history(), 1)),
            ev.StepDone,
            lambda e: e.attempt == 1,
            inputs=lambda e: ev.Inputs(count=1, digest="d", samples=f"{e.epoch:04d}{e.step:04d}"),
        ),
    ],
    ids=["no inputs", "a generator", "momentum", "model", "fewer samples"],
)
def test_nothing_but_inputs_may_be_drawn_again(history: Any) -> None:
    verdict = verdict_on(KILLED, history(), **RESAMPLED)

    assert verdict.status == "fail"
    assert not verdict.notes


def once(history: History) -> History:
    """Return that every step has samples of its own, as in the first pass over much data."""

    def inputs(done: ev.StepDone) -> ev.Inputs:
        samples = digest("once", done.epoch, done.step, done.rank)
        return ev.Inputs(count=2, digest=samples, samples=samples)

    return changed(history, ev.StepDone, inputs=inputs)


def test_another_draw_of_data_that_is_not_passed_yet_can_be_accepted() -> None:
    def drawn(done: ev.StepDone) -> ev.Inputs:
        known = digest("once", 3 - done.epoch, done.step, done.rank)[:8]
        samples = known + digest("new", done.epoch, done.step, done.rank)[:8]
        return ev.Inputs(count=2, digest=samples, samples=samples)

    history = changed(
        once(moved(KILLED.history(), 1)), ev.StepDone, lambda e: e.attempt == 1, inputs=drawn
    )
    baseline = once(KILLED.baseline())

    alone = judge(KILLED.plan(), history, baseline)

    assert (alone.status, alone.severity) == ("fail", "not reproducible")
    assert judge(KILLED.plan(**RNG), history, baseline).status == "pass"


def test_what_is_accepted_is_named() -> None:
    baseline, history = counted(KILLED.baseline()), counted(KILLED.history(), reset=True)

    assert judge(KILLED.plan(accept=("cosmetic",)), history, baseline).status == "pass"
    assert judge(KILLED.plan(**RNG), history, baseline).status == "fail"
    assert verdict_on(KILLED, lost_rng(), accept=("cosmetic",)).status == "fail"


def test_a_finding_is_accepted_by_its_kind_for_a_reason_that_the_note_repeats() -> None:
    base = "g @model=0 s r c- @model=1 s w:f_2 s r c- @model=2 s r c- ."
    anew = "g @model=0 s r c- @model=1 s w:f_2 s r c- @model=2 s x g @model=0 " + base[11:]
    kinds = {
        a.kind
        for r in judge(plan_of(anew), told_in(anew), told_in(base)).broken
        for a in r.anomalies
    }

    def judged(*accepted: str) -> Verdict:
        entries = tuple(AcceptedFinding(finding=kind, reason="meant") for kind in accepted)
        return judge(plan_of(anew, accept_findings=entries), told_in(anew), told_in(base))

    assert kinds == {"saves-ignored", "too-many-steps-lost"}
    assert judged("saves-ignored").status == "fail"
    verdict = judged(*kinds)
    assert verdict.status == "pass"
    expect_text(verdict.headline)
    assert all(note.endswith("(meant)") for note in verdict.notes if note.startswith("accepted as"))
    [resume] = [r for r in verdict.results if r.check == "resume-point"]
    assert (resume.accepted_reasons, [a.kind for a in resume.accepted]) == (
        ("meant",),
        ["saves-ignored"],
    )


def test_what_is_accepted_hides_no_doubt() -> None:
    history = changed(lost_rng(), ev.FaultEnded, status="info", detail="who knows")

    assert verdict_on(KILLED, history, **RNG).status == "inconclusive"
