"""The lines of a history that a reader of the page may want to see."""

from collections.abc import Iterable
from dataclasses import dataclass

from chaos.model.history import History
from chaos.model.verdict import Verdict
from chaos.report.progress import is_notable
from chaos.report.sentence import sentence

AROUND = 2
EVENTS_PER_ANOMALY = 40
NOTABLE_EVENTS = 300


@dataclass(frozen=True)
class Line:
    """One event in words; `at_s` counts from the first event."""

    number: int
    at_s: float
    source: str
    text: str
    is_evidence: bool = False


@dataclass(frozen=True)
class Gap:
    """How many events are left out here."""

    events: int


def lines_of(history: History, numbers: tuple[int, ...]) -> tuple[Line, ...]:
    """Give these events in words; a number that the history lacks is left out."""
    return tuple(
        _line(history, number)
        for number in numbers[:EVENTS_PER_ANOMALY]
        if 0 <= number < len(history)
    )


def excerpt(history: History, verdict: Verdict, also: Iterable[int] = ()) -> tuple[Line | Gap, ...]:
    """Give the notable events, those that show an anomaly with what is around them, and `also`."""
    shown = {
        number
        for result in verdict.results
        for anomaly in result.anomalies
        for number in anomaly.events[:EVENTS_PER_ANOMALY]
    }
    chosen = {near for n in shown for near in range(n - AROUND, n + AROUND + 1)}
    notable = [number for number, entry in enumerate(history) if is_notable(entry)]
    chosen |= set(notable[:NOTABLE_EVENTS]) | {0, len(history) - 1, *also}
    rows: list[Line | Gap] = []
    before = -1
    for number in sorted(n for n in chosen if 0 <= n < len(history)):
        if number > before + 1:
            rows.append(Gap(number - before - 1))
        rows.append(_line(history, number, is_evidence=number in shown))
        before = number
    return tuple(rows)


def _line(history: History, number: int, *, is_evidence: bool = False) -> Line:
    entry = history[number]
    at_s = (entry.time_ns - history[0].time_ns) / 1e9
    return Line(number, at_s, entry.source, sentence(entry.what), is_evidence)
