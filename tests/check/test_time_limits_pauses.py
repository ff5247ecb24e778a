"""The longest pause of each kind is what every pause of a run, looked at one by one, says."""

from itertools import accumulate, pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from chaos.check.time_limits import Where, find_longest_pauses, find_pauses
from chaos.model import event as ev
from chaos.model.history import History
from chaos.resume.attempt import build_attempts
from tests.check.test_judge_properties import stories

ENDS = (ev.TrainFnEnded, ev.FitReturned, ev.FitRaised)
SIGNS = (
    *(ev.StepDone, ev.ReportBegun, ev.ReportReturned, ev.UploadEnded, ev.FileSaved),
    *(ev.Committed, ev.GateReached, ev.GateReleased, *ENDS),
)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Return a run, struck or not, with times drawn anew and a rank that may be held in it."""
    story = draw(stories())
    history = story.history() if draw(st.booleans()) else story.baseline()
    gaps = draw(st.lists(st.integers(0, 9), min_size=len(history), max_size=len(history)))
    times = list(accumulate(gaps))
    entries = [
        msgspec.structs.replace(entry, time_ns=time)
        for entry, time in zip(history, times, strict=True)
    ]
    gates = [n for n, entry in enumerate(entries) if isinstance(entry.event, ev.GateReached)]
    if draw(st.booleans()) and gates:
        gate = entries[gates[0]]
        held = gate.event
        assert isinstance(held, ev.GateReached)
        until = draw(st.integers(gates[0] + 1, len(entries)))
        freed = ev.GateReleased(op=held.op, attempt=held.attempt, rank=held.rank)
        entries.insert(until, msgspec.structs.replace(entries[until - 1], event=freed))
    return History(entries)


def kind(since: ev.AnyEvent, until: ev.AnyEvent) -> Where:
    if isinstance(until, ENDS):
        return "at the end"
    steps = isinstance(since, ev.StepDone) and isinstance(until, ev.StepDone)
    is_one = steps and getattr(since, "epoch", None) == getattr(until, "epoch", None)
    return "within an epoch" if is_one else "between epochs"


def one_by_one(history: History) -> dict[Where, int]:
    """Return the longest gap of each kind after an attempt's first step, no rank being held."""
    rows = build_attempts(history)
    first = {a.index: a.steps[0].number for a in rows if a.steps}
    holds = []
    for number, gate in history.select_events(ev.GateReached):
        ends = [
            n
            for n, e in history.select_events(ev.GateReleased)
            if n > number and (e.op, e.attempt, e.rank) == (gate.op, gate.attempt, gate.rank)
        ]
        next_ = min((n for n in first.values() if n > number), default=len(history))
        holds.append((number, min([*ends, next_])))
    found: dict[Where, int] = {}
    for since, until in pairwise(history.select_numbers(*SIGNS)):
        before, after = history[since].event, history[until].event
        attempt = getattr(before, "attempt", -1)
        is_one = getattr(after, "attempt", attempt) == attempt
        is_held = any(begin <= since < end for begin, end in holds)
        ns = history.time_ns(until) - history.time_ns(since)
        if ns and is_one and not is_held and since >= first.get(attempt, len(history)):
            where = kind(before, after)
            found[where] = max(found.get(where, 0), ns)
    return found


@given(histories())
def test_the_longest_pauses_are_those_of_a_look_at_every_pair(history: History) -> None:
    every = one_by_one(history)

    assert find_longest_pauses(history, build_attempts(history)) == every
    found = list(find_pauses(history, build_attempts(history), over_ns=0))
    assert {p.phase: max(q.ns for q in found if q.phase == p.phase) for p in found} == every
