"""The fold behind the display, and the sentences for all events."""

import string
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from chaos.model import event as ev
from chaos.model.history import JournalEntry
from chaos.report.live import Progress, advance_all, advance_progress, build_panel
from chaos.report.outcome import FinishedRun

KINDS = get_args(ev.AnyEvent)
TEXTS = st.text(alphabet=string.printable, max_size=12)
METRICS = st.dictionaries(TEXTS, st.none() | st.integers() | TEXTS, max_size=3)
SPECIAL: dict[Any, st.SearchStrategy[Any]] = {
    dict[str, Any]: METRICS,
    tuple[dict[str, Any], ...]: st.lists(METRICS, max_size=2).map(tuple),
    tuple[ev.WorkerPlace, ...]: st.lists(
        st.builds(
            ev.WorkerPlace,
            rank=st.integers(0, 3),
            pid=st.integers(1, 9),
            node_id=TEXTS,
            node_ip=TEXTS,
        ),
        max_size=3,
    ).map(tuple),
    int: st.integers(-3, 9),
    str: TEXTS,
}


def events_of(kind: type[ev.Event]) -> st.SearchStrategy[ev.Event]:
    fields = {
        field.name: SPECIAL.get(field.type, st.from_type(field.type))
        for field in msgspec.structs.fields(kind)
    }
    if "attempt" in fields:
        fields["attempt"] = st.integers(0, 3)
    return st.builds(kind, **fields)


EVENTS: st.SearchStrategy[Any] = st.one_of([events_of(kind) for kind in KINDS])


def entry(what: ev.AnyEvent, *, at_s: float = 0) -> JournalEntry:
    return JournalEntry(time_ns=int(at_s * 1e9), source="s", seq=0, event=what)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(draw=st.data())
def test_every_kind_of_event_has_one_line_of_words(kind: type[ev.Event], draw: Any) -> None:
    text = draw.draw(events_of(kind)).sentence

    assert text
    assert "\n" not in text


@given(events=st.lists(EVENTS, max_size=12))
def test_progress_takes_any_events_in_any_order(events: list[Any]) -> None:
    progress = Progress()
    for at, what in enumerate(events):
        after = advance_progress(progress, entry(what, at_s=at))

        assert after.commits >= progress.commits
        assert len(after.faults) >= len(progress.faults)
        assert (after.attempt or 0) >= (progress.attempt or 0)
        assert after.now_ns >= progress.now_ns
        progress = after


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (ev.DriverExited(code=-9), "driver exited with signal 9"),
        (ev.RunEnded(interrupted=True), "run interrupted"),
        (
            ev.ReportReturned(attempt=1, rank=0, epoch=2, error="OSError"),
            "rank 0, attempt 1: report of epoch 2 raised OSError",
        ),
        (
            ev.StepDone(attempt=0, rank=0, epoch=0, step=1, losses=None),
            "rank 0, attempt 0: epoch 0, step 1 done, loss not yet known",
        ),
    ],
)
def test_what_matters_of_an_event_is_in_its_words(event: Any, text: str) -> None:
    assert event.sentence == text


def test_a_whole_run_comes_to_its_end(valid_run: FinishedRun) -> None:
    progress = advance_all(Progress(), valid_run.history)

    assert progress.attempt == 1
    assert progress.foremost_place == (3, 23)
    assert progress.places == {0: (3, 23), 1: (3, 23)}
    assert progress.commits == 4
    assert progress.state == "running"
    assert progress.faults[-1].status == "ok"
    assert (progress.end_text or "").startswith("fit() returned")


def step(attempt: int, epoch: int, number: int) -> JournalEntry:
    done = ev.StepDone(attempt=attempt, rank=0, epoch=epoch, step=number, losses=None)
    return entry(done)


def test_a_new_attempt_starts_from_its_own_place() -> None:
    progress = advance_all(Progress(), [step(0, 2, 5), step(1, 2, 1)])

    assert progress.foremost_place == (2, 1)


def test_late_lines_of_a_dead_attempt_do_not_take_progress_back() -> None:
    progress = advance_all(Progress(), [step(1, 2, 1), step(0, 3, 9)])

    assert progress.attempt == 1
    assert progress.foremost_place == (2, 1)


def test_the_first_end_is_the_one_that_is_told() -> None:
    raised = ev.FitRaised(error="TrainingFailedError", message="no more retries")
    progress = advance_all(Progress(), [entry(raised), entry(ev.RunEnded())])

    assert progress.end_text == "fit() raised TrainingFailedError: no more retries"


def test_a_notice_is_told_until_the_fault_ends() -> None:
    invoked = ev.FaultInvoked(op=0, fault="preempt", attempt=0, rank=1, pid=1, node_id="n")
    noticed = [entry(invoked), entry(ev.NoticeGiven(op=0, node_id="n", deadline_ns=1))]
    ended = entry(ev.FaultEnded(op=0, status="ok", detail="node n is dead"))

    assert [s.detail for s in advance_all(Progress(), noticed).faults] == ["notice given"]
    assert [s.detail for s in advance_all(Progress(), [*noticed, ended]).faults] == [
        "node n is dead"
    ]


def test_of_a_job_without_reports_the_saves_of_rank_0_are_counted() -> None:
    events: list[ev.AnyEvent] = [
        ev.StepDone(attempt=0, rank=0, epoch=0, step=1, losses=None),
        ev.EpochEnded(attempt=0, rank=0, epoch=0),
        ev.EpochEnded(attempt=0, rank=1, epoch=0),
    ]

    progress = advance_all(Progress(), map(entry, events))
    console = Console(width=80)
    with console.capture() as captured:
        console.print(build_panel(progress, title="t", total_epochs=2, steps_per_epoch=1))

    assert "attempt 0 · running · 1 save" in captured.get()
    assert "commit" not in captured.get()
