"""The clean runs ask two things: does a run repeat itself, and does a start of the script?"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from chaos.audit.audit import SiteChoice
from chaos.audit.budget import Budget
from chaos.audit.card import Card
from chaos.audit.job_profile import measure_job
from chaos.audit.notes import build_notes, note_side_effects
from chaos.errors import JobError
from chaos.model import event as ev
from chaos.model.history import History, JournalEntry
from chaos.model.plan import Plan
from tests.accepted import expect_text
from tests.audit.backend import FakeBackend, audit_of
from tests.check.parts import KILLED
from tests.check.tamper import changed, told, without

FEW = SiteChoice(limit=20)
HASHES = 100  # the number of a start with another hash seed; the others count from 1


@dataclass
class StartingBackend(FakeBackend):
    """Each start of the script tells its story in its own way."""

    retold: Callable[[History, int], History] = lambda history, _: history
    number: int = 0
    others: list["StartingBackend"] = field(default_factory=list)

    def open_fresh(self, *, reseeded_plan: Plan | None = None) -> "StartingBackend":
        number = HASHES if reseeded_plan is not None else len(self.others)
        self.others.append(StartingBackend(retold=self.retold, number=number))
        return self.others[-1]

    def history(self, plan: Plan) -> History:
        return self.retold(super().history(plan), self.number)


def other_data(history: History, start: int) -> History:
    """Tell other losses at every start: what the driver drew without a seed."""
    return changed(
        history,
        ev.StepDone,
        lambda _: True,
        losses=lambda e: tuple(float(loss) + start / 10 for loss in e.losses),
    )


def other_name(history: History, start: int) -> History:
    return changed(
        history, ev.FitCalled, lambda _: True, original_settings=lambda _: {"name": f"e{start}"}
    )


def reseeded_plan(history: History, start: int) -> History:
    """Tell other losses where the hash seed is another: what goes by the order of a set."""
    return other_data(history, start if start == HASHES else 0)


def no_second_start(history: History, start: int) -> History:
    """Fail, as a script does that makes a folder which must not be there yet."""
    if start == 0:
        return history
    begun = history[:1]
    assert isinstance(begun, tuple)
    what = ev.ScriptRaised(error="FileExistsError", message="out")
    raised = JournalEntry(time_ns=begun[0].time_ns + 1, source="h", seq=9, event=what)
    return History([*begun, raised])


def card_of(folder: Path, retold: Callable[[History, int], History]) -> tuple[Card, Any]:
    backend = StartingBackend(retold=retold)
    return audit_of(folder, backend, choice=FEW).run(), backend


def said(card: Card) -> str:
    return "\n".join(note.text for note in card.notes)


def test_one_of_two_clean_runs_is_of_a_second_start_of_the_script(tmp_path: Path) -> None:
    card, backend = card_of(tmp_path, lambda history, _: history)

    [other] = backend.others
    assert other.number == HASHES
    assert [len(plan.ops) for plan in other.plans] == [0]
    assert sum(not plan.ops for plan in backend.plans) == 1
    assert "start" not in said(card)


def test_where_only_starts_differ_strikes_are_judged_by_a_run_of_their_own_start(
    tmp_path: Path,
) -> None:
    card, backend = card_of(tmp_path, other_data)

    assert card.exit_code == 0
    assert card.repetition.is_deterministic
    assert {plan.expect.band for plan in backend.plans} == {None}
    expect_text(said(card))


def test_where_only_the_hash_seed_makes_a_difference_the_answer_is_inconclusive(
    tmp_path: Path,
) -> None:
    card, backend = card_of(tmp_path, reseeded_plan)

    assert [other.number for other in backend.others] == [HASHES, 1]
    assert card.exit_code == 2
    assert card.broken == 0
    expect_text(card.sentence, "card sentence")
    expect_text(said(card), "said card")
    assert "two starts are not" not in said(card)


def test_other_inputs_at_another_start_are_noted_where_losses_do_not_show_them(
    tmp_path: Path,
) -> None:
    def other_inputs(history: History, start: int) -> History:
        inputs = ev.Inputs(digest=f"{start:032x}", count=8)
        return changed(history, ev.StepDone, lambda _: True, inputs=lambda _: inputs)

    card, _ = card_of(tmp_path, other_inputs)

    expect_text(said(card))
    assert card.exit_code == 0


@pytest.mark.parametrize("drawn", ["3f2b91ac", "run_181542", "exp720113"])
def test_a_name_that_each_start_draws_anew_is_noted(tmp_path: Path, drawn: str) -> None:
    def named(history: History, start: int) -> History:
        name = drawn if start == 0 else f"{drawn[:-1]}_"
        return changed(
            history, ev.FitCalled, lambda _: True, original_settings=lambda _: {"name": name}
        )

    card, _ = card_of(tmp_path, named)

    assert f"the run name changes at every start (`{drawn}`)" in said(card)


def test_a_name_that_stays_is_not_noted(tmp_path: Path) -> None:
    card, _ = card_of(tmp_path, lambda history, _: other_name(history, 1))

    assert "run name" not in said(card)


def test_a_script_that_can_be_started_only_once_is_audited_and_told_so(tmp_path: Path) -> None:
    card, _ = card_of(tmp_path, no_second_start)

    expect_text(said(card))
    assert "FileExistsError: out" in said(card)
    assert card.repetition.is_deterministic
    assert card.exit_code == 0


def test_a_name_that_a_file_had_until_it_was_whole_is_not_what_the_job_saves() -> None:
    place: dict[str, Any] = {"attempt": 0, "rank": 0, "epoch": 0, "step": 6}
    wrote = [
        ev.WroteOutside(path=f"/d/last.{end}", operation="created", removed=True, after_fit=False)
        for end in ("pt", "tmp")
    ]
    renamed = ev.FileRenamed(**place, path="/d/last.tmp", to="/d/last.pt")

    [found] = note_side_effects(told(KILLED.baseline(), renamed, *wrote))

    expect_text(found.text)


def test_a_job_whose_child_saves_is_not_said_to_save_nothing() -> None:
    history = told(
        without(without(KILLED.baseline(), ev.Committed), ev.FileSaveBegun),
        ev.WroteOutside(
            path="/d/snapshot.pt.417",
            operation="created",
            removed=True,
            after_fit=False,
            is_save=True,
        ),
    )

    found = [note.text for note in build_notes(measure_job(history), names=())]

    assert not any("saves no checkpoint" in text for text in found)
    assert any(text.startswith("saved by a process that the") for text in found)


CACHE = ev.WroteOutside(path="/d/cache.npy", operation="created", removed=False, after_fit=False)


@dataclass
class CachingBackend(FakeBackend):
    """The first run of all makes a file that later ones find; then it draws other numbers."""

    drawn: Callable[[int], float] = lambda number: 0.1 * (number == 1)

    def history(self, plan: Plan) -> History:
        number, drawn = len(self.plans), self.drawn
        told = changed(
            super().history(plan),
            ev.StepDone,
            lambda _: True,
            losses=lambda e: tuple(float(loss) + drawn(number) for loss in e.losses),
        )
        entries = list(told)
        made = JournalEntry(time_ns=entries[-1].time_ns, source="h", seq=10**6, event=CACHE)
        return History([*entries, made] if number == 1 else entries)


def test_a_first_run_that_made_a_cache_is_compared_with_none_that_found_it(
    tmp_path: Path,
) -> None:
    backend = CachingBackend()
    card = audit_of(tmp_path, backend, choice=FEW).run()

    assert (card.word, card.broken) == ("pass", 0), card.sentence
    assert card.repetition.is_exact
    assert sum(not plan.ops for plan in backend.plans) == 3
    assert {plan.expect.band for plan in backend.plans} == {None}
    expect_text(said(card))


def test_a_job_that_draws_other_numbers_in_every_run_is_no_repeating_one_for_its_cache(
    tmp_path: Path,
) -> None:
    backend = CachingBackend(drawn=lambda number: 0.01 * (number * 7 % 5))
    card = audit_of(tmp_path, backend, choice=FEW).run()

    assert card.repetition.losses_differing
    assert {plan.expect.band for plan in backend.plans if plan.ops} == {"standard"}
    assert "the first clean run made" not in said(card)


def test_a_first_run_that_differs_and_made_nothing_is_one_of_the_band(tmp_path: Path) -> None:
    class Wavering(FakeBackend):
        def history(self, plan: Plan) -> History:
            other = 0.1 * (len(self.plans) == 1)
            told = super().history(plan)
            return changed(
                told,
                ev.StepDone,
                lambda _: True,
                losses=lambda e: tuple(float(loss) + other for loss in e.losses),
            )

    assert audit_of(tmp_path, Wavering(), choice=FEW).run().repetition.losses_differing


def test_lanes_are_counted_by_the_workers_that_the_script_asks_for(tmp_path: Path) -> None:
    asked: list[int] = []

    def lanes(workers: int) -> int:
        asked.append(workers)
        return 3

    backend = FakeBackend(workers=8)
    audit_of(tmp_path, backend, choice=FEW, count_lanes=lanes, budget=Budget(runs=2)).run()

    assert set(asked) == {8}
    assert backend.lanes == 3


def test_a_clean_run_at_its_limit_is_an_error_that_says_how_to_make_it_shorter(
    tmp_path: Path,
) -> None:
    class Slow(FakeBackend):
        def history(self, plan: Plan) -> History:
            told = list(super().history(plan))
            late = ev.DeadlinePassed(limit_s=600.0)
            told.append(
                JournalEntry(time_ns=told[-1].time_ns + 1, source="h", seq=10**6, event=late)
            )
            return History(told)

    with pytest.raises(JobError, match="still running after 600 s") as error:
        audit_of(tmp_path, Slow()).run()
    assert "fewer epochs" in error.value.hint
