"""What a clean run shows that a fault could change: without any of it nothing is compared."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from chaos.check.sightings import is_rng
from chaos.check.values import Value, flat, is_below
from chaos.model.event import Committed, LossResolved, StateSeen, StepDone
from chaos.model.history import History

_Series = Mapping[tuple[int, str], Sequence[Value]]


def seen_in(history: History, *, ignore: tuple[str, ...] = ()) -> Iterator[str]:
    """Name what was seen: losses, state, metrics.

    A metric that only counts is none, and neither is one of `ignore`, which
    is not compared.
    """
    if any(e.losses for _, e in history.of(StepDone)) or any(history.of(LossResolved)):
        yield "losses"
    states = (part for _, e in history.of(StateSeen) for part in e.components)
    if any(not is_rng(part.name) and part.digest for part in states):
        yield "state"
    series = _series(history).items()
    if any(not counts(values) for (_, name), values in series if not is_below(name, ignore)):
        yield "metrics"


def counts(series: Sequence[Value]) -> bool:
    """Say whether values are no measurement: no numbers, whole numbers in even steps, or one value.

    So are an epoch, a step, a learning rate that stays, and a name.
    """
    numbers = [v for v in series if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) < len(series) or len(set(numbers)) <= 1:
        return True
    if any(number != number or number % 1 for number in numbers):  # noqa: PLR0124 (NaN)
        return False
    return len({after - before for before, after in pairwise(numbers)}) == 1


def _series(history: History) -> _Series:
    found: dict[tuple[int, str], list[Value]] = {}
    for _, commit in history.of(Committed):
        for place, record in enumerate(commit.metrics):
            for name, value in flat(record):
                found.setdefault((place, name), []).append(value)
    return found
