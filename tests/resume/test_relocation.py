"""Steps that a job makes at each start before it reads its save, as those of a teacher."""

from typing import Any

import pytest

from chaos.check.analysis import RunAnalysis
from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.history import Baseline, History, JournalEntry
from chaos.resume.relocation import relocate_attempts
from tests.check.parts import KILLED
from tests.check.story import Story, Strike

TWICE = Story((Strike(2, 3, 1), Strike(2, 4, 0)))


def entry(like: JournalEntry, what: ev.AnyEvent) -> JournalEntry:
    return JournalEntry(time_ns=like.time_ns, source=like.source, seq=like.seq, event=what)


def prelude(
    attempt: int, rank: int, like: JournalEntry, resumed: int | None, *, has_place: bool
) -> list[JournalEntry]:
    """Return three steps at the beginning of training, and the resume after them.

    `has_place`: these steps are of a place in training, too. A step without a gradient is of none.
    """
    who: dict[str, Any] = {"attempt": attempt, "rank": rank}
    found: list[ev.AnyEvent] = []
    if has_place:
        found.append(ev.Repositioned(**who, epoch=0, step=0, evidence="inputs and losses"))
    found += [ev.StepDone(**who, epoch=0, step=step, losses=(9.0 - step,)) for step in (1, 2, 3)]
    if resumed is not None:
        found.append(ev.Repositioned(**who, epoch=resumed, step=0, evidence="state and inputs"))
    return [entry(like, what) for what in found]


def with_preludes(
    history: History, *, cut_in: int | None = None, has_place: bool = True
) -> History:
    """Put a prelude before the first step of each rank in each later attempt.

    The attempt `cut_in` has no more than that.
    """
    entries, seen = list[JournalEntry](), set[tuple[int, int]]()
    for one in history:
        what = one.event
        if isinstance(what, ev.StateSeen | ev.StepDone) and what.attempt > 0:
            is_cut = what.attempt == cut_in
            if (what.attempt, what.rank) not in seen:
                seen.add((what.attempt, what.rank))
                resumed = None if is_cut else what.epoch
                entries += prelude(what.attempt, what.rank, one, resumed, has_place=has_place)
            if is_cut:
                continue
        entries.append(one)
    return History(entries)


@pytest.mark.parametrize("has_place", [True, False])
def test_a_job_that_resumes_after_steps_of_a_teacher_is_right(*, has_place: bool) -> None:
    """Or after one that makes an optimizer's state, for `torch.distributed.checkpoint.load`."""
    history = with_preludes(KILLED.history(), has_place=has_place)
    baseline = Baseline([KILLED.baseline()])

    verdict = judge(KILLED.plan(), history, baseline)

    assert verdict.status == "pass", verdict.headline
    assert verdict.restarts.resumed == 1
    (restart,) = RunAnalysis(KILLED.plan(), history, baseline).restarts
    assert restart.attempt.training_place is not None
    assert restart.attempt.training_place.epoch == 2


def test_what_came_before_is_set_aside_and_keeps_its_number() -> None:
    recorded = with_preludes(KILLED.history())

    found, _ = relocate_attempts(recorded, KILLED.baseline())

    aside = [(number, e) for number, e in found.select_events(ev.SetAside)]
    assert len(found) == len(recorded)
    assert {e.event_name for _, e in aside} == {"Repositioned", "StepDone"}
    assert all(type(recorded[number].event).__name__ == e.event_name for number, e in aside)
    assert not [e for _, e in found.select_events(ev.StepDone) if e.attempt == 1 and e.epoch == 0]


@pytest.mark.parametrize("has_place", [True, False])
def test_an_attempt_that_ended_within_a_prelude_did_not_begin_anew(*, has_place: bool) -> None:
    history = with_preludes(TWICE.history(), cut_in=1, has_place=has_place)

    found, _ = relocate_attempts(history, TWICE.baseline())

    assert not [e for _, e in found.select_events(ev.StepDone) if e.attempt == 1]
    assert not [e for _, e in found.select_events(ev.Repositioned) if e.attempt == 1]


def test_a_run_in_which_each_place_is_found_once_stays_as_it_is() -> None:
    history = KILLED.history()

    assert relocate_attempts(history, KILLED.baseline())[0] is history
