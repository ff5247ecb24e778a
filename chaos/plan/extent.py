"""The extent of a clean run, for plans and displays."""

from chaos.model.event import Committed, EpochEnded, StepDone
from chaos.model.history import Baseline, History


def extent(baseline: History | None) -> tuple[int | None, int | None]:
    """Return the number of epochs of a job without faults, and of steps in the longest."""
    if baseline is None:
        return None, None
    epochs = _ended(baseline)
    return epochs or None, max((e.step for _, e in baseline.of(StepDone)), default=None)


def steps_by_epoch(baseline: Baseline) -> list[int]:
    """Return the steps that each epoch has on every rank, as far as epochs were committed."""
    last: dict[int, dict[int, int]] = {}
    for _, done in baseline.of(StepDone):
        last.setdefault(done.epoch, {})[done.rank] = done.step
    epochs = _ended(baseline)
    return [min(last.get(epoch, {0: 0}).values()) for epoch in range(epochs)]


def _ended(baseline: History) -> int:
    """Return the number of epochs that were committed or, without reports, ended with a save."""
    by_saves = {event.epoch for _, event in baseline.of(EpochEnded)}
    return len(by_saves) or sum(not event.early for _, event in baseline.of(Committed))
