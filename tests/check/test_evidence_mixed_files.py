"""A file in the place of another, or without some of its lines, leads to no verdict."""

from collections.abc import Callable

import msgspec
import pytest

from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.history import Baseline, History, JournalEntry
from chaos.model.plan import Plan
from chaos.model.verdict import Verdict
from tests.accepted import expect_text
from tests.check.tamper import without
from tests.report.conftest import SCENARIO, clean_history, plan_of, struck_history

RUN, CLEAN, OTHER = "11", "22", "33"


def recorded(history: History, token: str | None, *, counted: bool = True) -> History:
    """Return a history as journals tell it: each opens with the run's token and has its numbers."""
    entries: list[JournalEntry] = []
    lines: dict[str, int] = {}
    for entry in history:
        if entry.source not in lines and not isinstance(entry.event, ev.JournalOpened):
            opened = ev.JournalOpened(role="worker", host="box", pid=1, wall_ns=1, token=token)
            entries.append(msgspec.structs.replace(entry, seq=0, event=opened))
            lines[entry.source] = 1
        what = entry.event
        if isinstance(what, ev.JournalOpened):
            what = msgspec.structs.replace(what, token=token)
        if isinstance(what, ev.RunEnded) and counted:
            what = msgspec.structs.replace(what, lines=dict(lines))
        number = lines.get(entry.source, 0)
        entries.append(msgspec.structs.replace(entry, seq=number, event=what))
        lines[entry.source] = number + 1
    return History(entries)


def plan(token: str | None = RUN, *baselines: str) -> Plan:
    return plan_of(SCENARIO).model_copy(update={"token": token, "baselines": baselines})


STRUCK, WRONG = struck_history(), struck_history(defect=0.09)
OURS, GUILTY = recorded(STRUCK, RUN), recorded(WRONG, RUN)
BASELINE = recorded(clean_history(), CLEAN)


def doubts(verdict: Verdict) -> str:
    (watched,) = (result for result in verdict.results if result.check == "watched")
    return watched.summary


def without_source(history: History, source: str) -> History:
    return History([entry for entry in history if entry.source != source])


def without_lines(history: History, *numbers: int) -> History:
    return History([entry for n, entry in enumerate(history) if n not in numbers])


def twice(history: History, number: int) -> History:
    entries = list(history)
    return History([*entries[:number], entries[number], *entries[number:]])


def line_of(history: History, source: str, seq: int) -> int:
    return next(n for n, e in enumerate(history) if (e.source, e.seq) == (source, seq))


# -- what belongs together ---------------------------------------------------------------------


@pytest.mark.parametrize(("history", "status"), [(OURS, "pass"), (GUILTY, "fail")])
@pytest.mark.parametrize("token", [RUN, None])
@pytest.mark.parametrize("baselines", [(CLEAN,), ("",), ()])
def test_files_that_belong_together_are_judged(
    history: History, status: str, token: str | None, baselines: tuple[str, ...]
) -> None:
    assert judge(plan(token, *baselines), history, BASELINE).status == status


def test_files_of_a_chaos_that_wrote_no_tokens_are_judged() -> None:
    old = recorded(STRUCK, None, counted=False)

    assert judge(plan(None), old, recorded(clean_history(), None)).status == "pass"
    assert judge(plan(RUN, CLEAN), old, recorded(clean_history(), None)).status == "pass"


def test_what_a_killed_worker_did_not_write_is_no_hole() -> None:
    last = max(n for n, entry in enumerate(OURS) if entry.source == "worker-0-1")
    number = OURS[last].seq
    ended = [
        msgspec.structs.replace(
            entry,
            event=msgspec.structs.replace(
                entry.event, lines={**entry.event.lines, "worker-0-1": number}
            ),
        )
        if isinstance(entry.event, ev.RunEnded)
        else entry
        for n, entry in enumerate(OURS)
        if n != last
    ]

    assert History(ended).missing_lines == {}


# -- what does not -----------------------------------------------------------------------------


@pytest.mark.parametrize("history", [OURS, GUILTY])
def test_another_runs_history_is_judged_by_nobody(history: History) -> None:
    verdict = judge(plan(OTHER, CLEAN), history, BASELINE)

    assert verdict.status == "inconclusive"
    assert "history.jsonl: its journal driver is of another run than plan.json" in doubts(verdict)


@pytest.mark.parametrize("told", [{"scenario": "another"}, {"seed": 8}])
def test_a_history_without_tokens_is_known_by_its_scenario_and_seed(told: dict[str, str]) -> None:
    other = plan(None).model_copy(update=told)

    verdict = judge(other, struck_history(), clean_history())

    assert verdict.status == "inconclusive"
    expect_text(doubts(verdict))


def test_a_journal_of_another_run_beside_ours_is_named() -> None:
    theirs = recorded(STRUCK, OTHER)
    one = [msgspec.structs.replace(e, source="worker-99") for e in theirs if e.source == "chaos"]

    verdict = judge(plan(RUN, CLEAN), History([*OURS, *one]), BASELINE)

    assert verdict.status == "inconclusive"
    assert doubts(verdict).startswith("history.jsonl: its journal worker-99 is of another run")


NO_BASELINES = [
    (GUILTY, "baseline.jsonl is no baseline: it has faults"),
    (recorded(clean_history(), OTHER), "baseline.jsonl is another run than the one that this run"),
    (without(BASELINE, ev.RunEnded), "baseline.jsonl has no end"),
    (without_source(BASELINE, "worker-0-1"), "baseline.jsonl: line 1 of the journal worker-0-1"),
    (None, "baseline.jsonl is missing"),
]


@pytest.mark.parametrize(("baseline", "why"), NO_BASELINES, ids=[why for _, why in NO_BASELINES])
def test_what_is_no_baseline_of_this_run_lets_nobody_judge(
    baseline: History | None, why: str
) -> None:
    verdict = judge(plan(RUN, CLEAN), GUILTY, baseline)

    assert verdict.status == "inconclusive"
    assert why in doubts(verdict)


def test_a_repeat_of_the_baseline_is_known_by_its_place() -> None:
    band = plan(RUN, CLEAN, OTHER, "44")
    runs = [BASELINE, recorded(clean_history(), OTHER)]

    verdict = judge(band, OURS, Baseline(runs))
    mixed = judge(band, OURS, Baseline([*runs, runs[1]]))

    assert doubts(verdict).startswith("baseline-3.jsonl is missing")
    assert doubts(mixed).startswith("baseline-3.jsonl is another")


HOLES: list[tuple[str, Callable[[History], History], str]] = [
    (
        "a line",
        lambda h: without_lines(h, line_of(h, "worker-0-1", 3)),
        "line 4 of the journal worker-0-1",
    ),
    (
        "the first line",
        lambda h: without_lines(h, line_of(h, "driver", 0)),
        "line 1 of the journal driver",
    ),
    (
        "some lines",
        lambda h: without_lines(h, *(line_of(h, "worker-0-1", n) for n in range(5, 9))),
        "line 6 of the journal worker-0-1",
    ),
    ("a journal", lambda h: without_source(h, "chaos"), "line 1 of the journal chaos"),
    (
        "the last line",
        lambda h: without_lines(h, max(n for n, e in enumerate(h) if e.source == "driver")),
        "of the journal driver is missing",
    ),
    (
        "a line twice",
        lambda h: twice(h, line_of(h, "worker-0-1", 3)),
        "line 5 of the journal worker-0-1 is missing, or there twice",
    ),
    (
        "a kind of event",
        lambda h: without(h, ev.Committed),
        "of the journal controller-11 is missing",
    ),
]


@pytest.mark.parametrize("history", [OURS, GUILTY], ids=["right", "guilty"])
@pytest.mark.parametrize(("what", "lose", "why"), HOLES, ids=[what for what, *_ in HOLES])
def test_a_hole_in_a_journal_accuses_nobody_and_clears_nobody(
    history: History, what: str, lose: Callable[[History], History], why: str
) -> None:
    del what

    verdict = judge(plan(RUN, CLEAN), lose(history), BASELINE)

    assert verdict.status == "inconclusive"
    assert "history.jsonl: " in doubts(verdict)
    assert why in doubts(verdict)


def test_a_plan_that_was_changed_after_the_run_had_begun_leads_to_no_verdict() -> None:
    started = next(entry for entry in OURS if isinstance(entry.event, ev.RunStarted))
    what = msgspec.structs.replace(started.event, plan="0a")
    told = History([msgspec.structs.replace(e, event=what) if e is started else e for e in OURS])
    as_it_was, changed = (plan().model_copy(update={"digest": digest}) for digest in ("0a", "0b"))

    assert judge(as_it_was, told, BASELINE).status == "pass"
    verdict = judge(changed, told, BASELINE)
    assert verdict.status == "inconclusive"
    assert "plan.json was changed after the run had begun" in doubts(verdict)
