"""The progress of an audit, and the time that is left."""

import io
from functools import partial

import pytest
from rich.console import Console

from chaos.audit.audit import SiteChoice
from chaos.audit.budget import AuditProgress
from chaos.audit.card import Card
from chaos.report.live import PARTS
from chaos.screens.audit import AuditDisplay
from tests.accepted import expect_text
from tests.audit.backend import FakeBackend, Ticking, audit_of, loses_momentum
from tests.audit.cards import told


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> Card:
    backend = FakeBackend(epochs=20, defect=loses_momentum)
    return audit_of(tmp_path_factory.mktemp("card"), backend, choice=SiteChoice(limit=40)).run()


def test_progress_is_a_few_lines_where_there_is_no_terminal(card: Card) -> None:
    out = io.StringIO()
    total = 200

    with AuditDisplay(Console(file=out, width=80, highlight=False), Ticking()) as display:
        for done in range(total + 1):
            display.show(AuditProgress("faults", done, total, 9.0, card.runs[0], 2, 4.0))

    found, *lines = out.getvalue().splitlines()
    assert found == f"found: {card.runs[0].headline}"  # once, and whole
    assert len(lines) == PARTS + 1
    expect_text(lines[1])


def test_progress_is_one_line_that_moves_on_a_terminal(card: Card) -> None:
    out = io.StringIO()

    console = Console(file=out, width=80, force_terminal=True)
    with AuditDisplay(console, Ticking()) as display:
        display.show(AuditProgress("faults", 1, 2, 3.0, card.runs[0]))

    assert "1/2 places" in out.getvalue()


def test_seconds_pass_in_the_line_without_any_news() -> None:
    clock = Ticking(tick_ns=0)
    display = AuditDisplay(Console(file=io.StringIO(), width=80), clock)

    first = told(display, AuditProgress("clean run", 0, 2, activity="its script starts: imports"))
    clock.sleep(12)

    expect_text(first, "first")
    expect_text(display.__rich__().plain, "display __rich__ plain")


def test_time_that_is_left_and_grows_is_explained() -> None:
    display = AuditDisplay(Console(file=io.StringIO(), width=80), Ticking(tick_ns=0))
    of = partial(AuditProgress, "faults")

    lines = [
        told(display, of(4, 20, 40.0, spent_s=20.0)),
        told(display, of(5, 20, 90.0, spent_s=25.0)),
        told(display, of(6, 30, 180.0, spent_s=30.0)),
        told(display, of(7, 30, 170.0, spent_s=40.0)),
        told(display, of(31, None, 20.0, spent_s=40.0, limit_s=60.0)),
    ]

    expect_text("\n".join(lines))
