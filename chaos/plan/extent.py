"""The extent of a clean run, for plans and displays."""

from chaos.model.event import Committed, EpochEnded, RunEnded, StepDone, WorkerGroupStarted
from chaos.model.history import Baseline, History
from chaos.model.plan import Plan

# A run may be on a busier machine than its baseline was, and each fault may cost all that was
# trained before it.
BASELINE_TIMES = 3


def measure_extent(baseline: History | None) -> tuple[int | None, int | None]:
    """Return the number of epochs of a job without faults, and of steps in the longest."""
    if baseline is None:
        return None, None
    epochs = _count_epochs(baseline)
    return epochs or None, max((e.step for _, e in baseline.select_events(StepDone)), default=None)


def count_epoch_steps(baseline: Baseline) -> list[int]:
    """Return the steps that each epoch has on every rank, as far as epochs were committed."""
    last_steps: dict[int, dict[int, int]] = {}
    for _, step_event in baseline.select_events(StepDone):
        last_steps.setdefault(step_event.epoch, {})[step_event.rank] = step_event.step
    epochs = _count_epochs(baseline)
    return [min(last_steps.get(epoch, {0: 0}).values()) for epoch in range(epochs)]


def find_run_limit_s(plan: Plan, baseline: Baseline) -> float:
    """Return the limit of a run: as written, else the default or a multiple of its baseline."""
    if "run_s" in plan.limits.model_fields_set:
        return plan.limits.run_s
    start_times = [
        baseline.time_ns(number) for number, _ in baseline.select_events(WorkerGroupStarted)
    ]
    end_times = [baseline.time_ns(number) for number, _ in baseline.select_events(RunEnded)]
    took_s = (end_times[-1] - start_times[0]) / 1e9 if start_times and end_times else 0.0
    return max(plan.limits.run_s, (BASELINE_TIMES + len(plan.ops)) * took_s)


def _count_epochs(baseline: History) -> int:
    """Return the number of epochs that were committed or, without reports, ended with a save."""
    saved_epochs = {event.epoch for _, event in baseline.select_events(EpochEnded)}
    return len(saved_epochs) or sum(
        not event.early for _, event in baseline.select_events(Committed)
    )
