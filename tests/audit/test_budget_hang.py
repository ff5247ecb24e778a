"""A hang costs much time: it is shown at once, and ends the audit within its limit."""

from pathlib import Path

import pytest

from chaos.audit.audit import SiteChoice
from chaos.audit.budget import AuditProgress, Budget
from chaos.audit.card import Card
from chaos.audit.site_queue import order_suspects
from chaos.model import event as ev
from chaos.model.history import History
from tests.audit.backend import FakeBackend, audit_of
from tests.check.story import Story
from tests.check.tamper import told, without


def spent(seconds: float, hung_s: float, *, limit_s: float = 60, wrong: int = 1) -> bool:
    return Budget(seconds=limit_s, is_default=True).is_spent(
        seconds=seconds, runs=3, begun_places=3, for_minimum=True, wrong=wrong, hung_s=hung_s
    )


@pytest.mark.parametrize(
    ("seconds", "hung_s", "wrong", "is_spent"),
    [
        pytest.param(50, 15, 1, False, id="the next hang fits into a fifth more"),
        pytest.param(58, 15, 1, True, id="the next one does not"),
        pytest.param(60, 5, 1, True, id="the limit is reached"),
        pytest.param(200, 0, 0, False, id="nothing hung, and an answer needs more"),
    ],
)
def test_after_a_hang_a_run_begins_only_where_the_next_one_fits(
    seconds: float, hung_s: float, wrong: int, *, is_spent: bool
) -> None:
    assert spent(seconds, hung_s, wrong=wrong) is is_spent


def test_without_a_limit_a_hang_ends_nothing() -> None:
    unlimited = Budget().is_spent(
        seconds=1e6, runs=3, begun_places=3, for_minimum=False, wrong=2, hung_s=200
    )
    assert not unlimited


def hangs(_: Story, history: History) -> History:
    """Stand still before the end of the run, until chaos ends it."""
    quiet = without(history, ev.FitReturned)
    waits = [
        ev.ThreadWaits(attempt=1, rank=rank, file="/a/train.py", line=31, function="take")
        for rank in (0, 1)
    ]
    return told(quiet, ev.DeadlinePassed(limit_s=240, still_s=12.0), *waits)


def audited(folder: Path, *, one_by_one: bool) -> tuple[Card, list[int]]:
    """Return the card, and the number of runs that were made when each hang was shown."""
    backend, shown = FakeBackend(epochs=3, steps=2, defect=hangs), list[int]()

    def show(progress: AuditProgress) -> None:
        if progress.latest_row is not None and progress.latest_row.is_hung:
            shown.append(sum(bool(plan.ops) for plan in backend.plans))

    card = audit_of(
        folder,
        backend,
        show=show,
        choice=SiteChoice(one_by_one=one_by_one),
        budget=Budget(runs=4),
        searches_causes=False,
    ).run()
    return card, shown


@pytest.mark.parametrize("one_by_one", [True, False])
def test_a_hang_is_shown_before_any_other_run(tmp_path: Path, *, one_by_one: bool) -> None:
    card, shown = audited(tmp_path, one_by_one=one_by_one)

    assert shown[0] == 1
    assert card.word == "fail"
    assert "wait in" in card.findings[0].headline


def test_the_place_of_the_last_fault_is_tried_first_where_a_run_of_several_hung(
    tmp_path: Path,
) -> None:
    card, _ = audited(tmp_path, one_by_one=True)
    row = card.runs[0]
    places = [row.place, card.runs[1].place, card.runs[2].place]
    landed = sum(len(place.ops) for place in places[:2])
    hung = row.model_copy(update={"landed": landed})

    assert order_suspects(hung, places) == [places[1], places[0], places[2]]
    assert order_suspects(hung.model_copy(update={"is_hung": False}), places) == places
