"""The extent of a clean run, for plans and displays."""

from chaos.model.event import Committed, EpochEnded, RunEnded, StepDone, WorkerGroupStarted
from chaos.model.history import Baseline, History
from chaos.model.plan import Plan

# A run may be on a busier machine than its baseline was, and each fault may cost all that was
# trained before it.
BASELINE_TIMES = 3


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


def limit_of_run_s(plan: Plan, baseline: Baseline) -> float:
    """Return the limit of a run: as written, else the default or a multiple of its baseline."""
    if "run_s" in plan.limits.model_fields_set:
        return plan.limits.run_s
    started = [baseline.time_ns(number) for number, _ in baseline.of(WorkerGroupStarted)]
    ended = [baseline.time_ns(number) for number, _ in baseline.of(RunEnded)]
    took_s = (ended[-1] - started[0]) / 1e9 if started and ended else 0.0
    return max(plan.limits.run_s, (BASELINE_TIMES + len(plan.ops)) * took_s)


def _ended(baseline: History) -> int:
    """Return the number of epochs that were committed or, without reports, ended with a save."""
    by_saves = {event.epoch for _, event in baseline.of(EpochEnded)}
    return len(by_saves) or sum(not event.early for _, event in baseline.of(Committed))
