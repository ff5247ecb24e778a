"""A resume within an epoch, and a beginning anew that only losses tell of."""

from typing import Any

import pytest

from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.verdict import Verdict
from tests.accepted import expect_text
from tests.check.story import Story, Strike, loss
from tests.check.tamper import analysis_of, changed, result_on, told, without
from tests.check.watching import components
from tests.findings import expect_finding

OWN = Story((Strike(2, 3, 1),), files=True)
BLIND = Story((Strike(2, 3, 1),), watch=False)
DONE = 2 * OWN.steps + 2


def midway(ours: Any = None) -> History:
    """Return that the ranks went on after step 2 of epoch 2; `ours`: with another state."""

    def entered(seen: ev.StateSeen) -> bool:
        return (seen.attempt, seen.epoch, seen.moment) == (1, 2, "entered")

    def state(seen: ev.StateSeen) -> tuple[ev.Component, ...]:
        right = components(seen.rank, DONE, 2, drawn=True)
        return right if ours is None else tuple(ours if p.name == ours.name else p for p in right)

    history = changed(OWN.history(), ev.Repositioned, step=2)
    history = without(history, ev.StepDone, lambda e: (e.attempt, e.epoch) == (1, 2) and e.step < 3)
    return changed(history, ev.StateSeen, entered, step=2, components=state)


def judged(history: History) -> Verdict:
    """Judge it beside a baseline whose state was seen after that step."""
    after = (
        ev.StateSeen(
            attempt=0,
            rank=rank,
            epoch=2,
            step=2,
            moment="step",
            components=components(rank, DONE, 2, drawn=False),
        )
        for rank in (0, 1)
    )
    return judge(OWN.plan(), history, told(OWN.baseline(), *after))


def test_within_an_epoch_model_and_optimizer_are_compared_with_the_step_before() -> None:
    (resume,) = judged(midway()).diagnosis

    compared = {p.component: p.standing for p in resume.parts if p.group != "cursor"}
    assert compared.pop("inputs") == "restored"
    assert compared == {"model": "restored", "optimizer.momentum_buffer": "restored"}


def test_within_an_epoch_a_model_that_did_not_come_back_is_found() -> None:
    first = next(p for p in components(0, 0, 0, drawn=True) if p.name == "model")

    verdict = judged(midway(first))

    state = next(r for r in verdict.results if r.check == "state")
    expect_finding(
        state,
        "part-not-restored",
        part="model",
        ranks=(0, 1),
        standing="reset",
        resumed_at=(2, 2),
        expects_own_state=False,
    )


def test_where_the_baseline_was_not_looked_at_equal_losses_show_the_state() -> None:
    state = next(
        r for r in judge(OWN.plan(), midway(), OWN.baseline()).results if r.check == "state"
    )

    assert state.status == "pass"
    expect_text(state.summary)


def test_where_the_baseline_was_not_looked_at_the_state_says_so() -> None:
    apart = changed(midway(), ev.StepDone, lambda e: e.attempt == 1, losses=lambda _: (0.125,))
    state = next(r for r in judge(OWN.plan(), apart, OWN.baseline()).results if r.check == "state")

    assert state.status == "inconclusive"
    assert "attempt 1 goes on from step 2 of epoch 2, where the baseline's" in state.summary
    assert "`watch: {entries: steps}` looks at every step" in state.summary


def from_the_beginning(history: History, *, ranks: tuple[int, ...]) -> History:
    """Return that ranks had the losses of epoch 0 after the resume at epoch 2."""

    def again(done: ev.StepDone) -> bool:
        return done.attempt == 1 and done.rank in ranks

    return changed(
        history, ev.StepDone, again, losses=lambda e: (loss(e.rank, e.epoch - 2, e.step),)
    )


@pytest.mark.parametrize(("ranks", "anew"), [((0, 1), {1}), ((1,), set())])
def test_without_any_state_the_losses_of_epoch_0_tell_of_a_beginning_anew(
    ranks: tuple[int, ...], anew: set[int]
) -> None:
    history = from_the_beginning(BLIND.history(), ranks=ranks)

    assert analysis_of(BLIND, history).scratch_attempts == anew
    words = "attempt 1 started from scratch: it was handed checkpoint_0_1, and loaded nothing"
    assert (words in result_on("resume-point", BLIND, history).summary) is bool(anew)


def test_a_job_whose_epochs_are_all_alike_does_not_begin_anew() -> None:
    def alike(history: History) -> History:
        return changed(history, ev.StepDone, losses=lambda e: (loss(e.rank, 0, e.step),))

    verdict = judge(BLIND.plan(), alike(BLIND.history()), alike(BLIND.baseline()))

    assert verdict.status == "pass"


def waiting(*, files: bool) -> tuple[bool, ...]:
    """Say for each attempt whether rank 1 was settled, of which attempt 1 saw no step and file."""
    story = Story((Strike(1, 3, 1), Strike(2, 3, 1)), files=files)
    place = {"attempt": 0, "rank": 0, "epoch": 0, "step": 1, "path": "/own/log"}
    saved = ev.FileSaved(**place, digest="aa", bytes=1)  # type: ignore[arg-type]
    history = told(story.history(), saved)
    history = without(history, ev.Repositioned, lambda e: e.attempt == 1)
    history = without(history, ev.StepDone, lambda e: (e.attempt, e.rank) == (1, 1))
    return tuple(a.starts[1].is_settled for a in analysis_of(story, history).run.attempts)


def test_a_rank_that_was_yet_to_look_for_its_file_is_not_settled() -> None:
    assert waiting(files=True) == (True, False, True)


def test_a_rank_that_ray_gives_its_checkpoint_has_no_file_to_look_for() -> None:
    assert waiting(files=False) == (True, True, True)
