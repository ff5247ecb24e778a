"""Histories told otherwise, and the judgement on them."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from chaos.check.analysis import RunAnalysis
from chaos.model import event as ev
from chaos.model.history import History, JournalEntry
from chaos.model.verdict import CheckResult, Verdict
from tests.check.each import judge_each
from tests.check.story import Story


def rows(
    history: History, kind: type[ev.Event], where: Callable[[Any], bool] = lambda _: True
) -> list[int]:
    """Return the numbers of the events of a kind."""
    return [n for n, what in history.select_events(kind) if where(what)]


def without(
    history: History, kind: type[ev.Event], where: Callable[[Any], bool] = lambda _: True
) -> History:
    """Return the history without these events."""
    gone = set(rows(history, kind, where))
    return History([e for n, e in enumerate(history) if n not in gone], torn=history.torn)


def changed(
    history: History,
    kind: type[ev.Event],
    where: Callable[[Any], bool] = lambda _: True,
    **fields: Any,
) -> History:
    """Return the history with these events told otherwise."""
    hit = set(rows(history, kind, where))
    return History(list(_changed(history, hit, fields)), torn=history.torn)


def _changed(history: History, hit: set[int], fields: dict[str, Any]) -> Iterator[JournalEntry]:
    for number, entry in enumerate(history):
        if number not in hit:
            yield entry
            continue
        values = {k: v(entry.event) if callable(v) else v for k, v in fields.items()}
        yield msgspec.structs.replace(entry, event=msgspec.structs.replace(entry.event, **values))


def told(history: History, *events: ev.AnyEvent, before: type[ev.Event] = ev.RunEnded) -> History:
    """Return the history with more events, just before the last one of a kind."""
    at = max(rows(history, before), default=len(history))
    entries = list(history)
    time_ns = entries[at - 1].time_ns if entries else 0
    more = [JournalEntry(time_ns=time_ns, source="x", seq=n, event=e) for n, e in enumerate(events)]
    return History(entries[:at] + more + entries[at:], torn=history.torn)


def later(history: History, after: int, *, by_s: float) -> History:
    """Return the history with everything after an event so much later."""
    late = [
        msgspec.structs.replace(entry, time_ns=entry.time_ns + int(by_s * 1e9) * (number > after))
        for number, entry in enumerate(history)
    ]
    return History(late, torn=history.torn)


def restored_wrong(
    history: History,
    name: str,
    ours: Any,
    *,
    rank: int | None = None,
    since: int = 1,
    moment: str | None = None,
) -> History:
    """Return the history with a component of the states from attempt `since` on told otherwise.

    `ours` is a component, None for a missing one, or a function of the sighting; at one `moment`
    alone, or at all.
    """

    def parts(seen: ev.StateSeen) -> tuple[ev.Component, ...]:
        mine = ours(seen) if callable(ours) else ours
        kept = [mine if part.name == name else part for part in seen.components]
        return tuple(part for part in kept if part is not None)

    def hit(seen: ev.StateSeen) -> bool:
        there = rank in (None, seen.rank) and moment in (None, seen.moment)
        return seen.attempt >= since and there

    return changed(history, ev.StateSeen, hit, components=parts)


def differs_in_parts(
    history: History, name: str, *, since: int = 1, digest: str = "odd", **where: Any
) -> History:
    """Return the history with another digest of a component from attempt `since` on.

    `where`: the `moment`, `epoch`, `rank` or `attempt` of the sightings, of all if left out.
    """

    def parts(seen: ev.StateSeen) -> tuple[ev.Component, ...]:
        odd = [
            msgspec.structs.replace(p, digest=digest) if p.name == name else p
            for p in seen.components
        ]
        return tuple(odd)

    def hit(seen: ev.StateSeen) -> bool:
        there = all(getattr(seen, key) == value for key, value in where.items())
        return seen.attempt >= since and there

    return changed(history, ev.StateSeen, hit, components=parts)


def shifted(history: History, epoch: int, *, by: float = 0.01) -> History:
    """Return the history with the losses from an epoch of attempt 1 on moved: what follows."""

    def hit(done: ev.StepDone) -> bool:
        return done.attempt >= 1 and done.epoch >= epoch and done.step > 1

    return changed(history, ev.StepDone, hit, losses=lambda e: (e.losses[0] + by,))


# -- judging -------------------------------------------------------------------------------


def verdict_on(
    story: Story, history: History | None = None, *, alone: bool = False, **expect: Any
) -> Verdict:
    """Judge a story, or what was made of its history; `alone`: without a baseline."""
    seen = story.history() if history is None else history
    return judge_each(story.plan(**expect), seen, None if alone else story.baseline())


def result_on(
    check: str, story: Story, history: History | None = None, *, alone: bool = False, **expect: Any
) -> CheckResult:
    """Return one check's result on a story."""
    verdict = verdict_on(story, history, alone=alone, **expect)
    return next(result for result in verdict.results if result.check == check)


def analysis_of(story: Story, history: History | None = None, **expect: Any) -> RunAnalysis:
    """Return the trial of a story."""
    seen = story.history() if history is None else history
    return RunAnalysis(story.plan(**expect), seen, story.baseline())


def resumed_at(history: History, *, epoch: int, attempt: int) -> History:
    """Return that both ranks of an attempt resumed at the head of an epoch, as their state says."""
    places = (
        ev.Repositioned(attempt=attempt, rank=rank, epoch=epoch, step=0, evidence="state")
        for rank in (0, 1)
    )
    return told(history, *places)
