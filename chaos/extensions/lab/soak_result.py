"""A soak: many runs of drawn scenarios, and what moves or grows over their resumes.

Nothing here is a verdict: each run has its own, by the checks. A process may grow for good
reasons, such as a cache that fills, so figures are shown, and growth without a stop is named with
its readings.
"""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Literal, TypeAlias

from chaos.check.analysis import RunTables
from chaos.check.curves import build_curves
from chaos.model.event import ProcessSeen, StorageSeen
from chaos.model.expect import VerdictStatus
from chaos.model.history import History
from chaos.model.places import AttemptRank
from chaos.model.trigger import AtStep
from chaos.record import Record
from chaos.report.outcome import FinishedRun
from chaos.run.process_size import ProcessSize
from chaos.wording import plural

SOAK = "soak.json"
# Readings in a row that all grow, to be named: of a process by epochs, of attempts, of runs.
READINGS_MIN = 5
GROWTHS_SHOWN = 6

Counted: TypeAlias = Literal["open_files", "children", "entries"]
# Memory is not among them: an allocator's pool may grow in every epoch of a right job.
_COUNTED: Mapping[Counted, str] = {
    "open_files": "open files",
    "children": "child processes",
    "entries": "names in the working directory",
}


class CountGrowth(Record):
    """A count that grew from each reading to the next, of one process or from one to the next."""

    counted: Counted
    #: whose it is, in words
    of: str
    values: tuple[int, ...]
    #: it grew in the run without faults as well
    in_baseline: bool = False


class SoakRun(Record):
    """One run of a soak in figures."""

    scenario: str
    seed: int
    directory: str
    status: VerdictStatus
    as_expected: bool
    resumes: int
    #: all steps of the rank that made most
    made: int
    #: those of them that survived
    kept: int
    #: what `made` comes to where each fault costs the steps of its epoch; None where a fault is at
    #: no step
    planned: int | None
    #: by restart
    recovery_s: tuple[float | None, ...]
    #: by attempt, how far a step's mean loss on rank 0 lies from the baseline's
    apart: tuple[float | None, ...]
    #: the lower bounds of each figure of its processes
    least: ProcessSize | None
    #: the upper ones
    most: ProcessSize | None
    growths: tuple[CountGrowth, ...]
    #: the files in storage at the end
    stored: int | None
    #: those at the end of a run without faults
    stored_without: int | None


class SoakResult(Record):
    """A soak."""

    seconds: float
    runs: tuple[SoakRun, ...]
    #: the size of chaos itself after each run
    own: tuple[ProcessSize, ...]


def build_soak_run(run: FinishedRun) -> SoakRun:
    """Return the figures of a judged run."""
    analysis = run.analysis
    tables = analysis.run
    made_steps, kept_steps = _count_steps(tables)
    readings = _collect_readings(run.history)
    sizes = [size for process_sizes in readings.values() for size in process_sizes]
    return SoakRun(
        scenario=run.plan.scenario,
        seed=run.plan.seed,
        directory=run.directory,
        status=run.verdict.status,
        as_expected=run.verdict.as_expected,
        resumes=run.verdict.restarts.resumed,
        made=made_steps,
        kept=kept_steps,
        planned=_count_planned_steps(run, kept_steps),
        recovery_s=tuple(restart.phases.total_s for restart in analysis.restarts),
        apart=_measure_loss_distances(run),
        least=_find_bound(min, sizes),
        most=_find_bound(max, sizes),
        growths=tuple(_find_growths(run, readings)),
        stored=_count_stored_files(run.history),
        stored_without=None if run.baseline is None else _count_stored_files(run.baseline),
    )


def _find_bound(
    select: Callable[[Iterable[int]], int], sizes: Sequence[ProcessSize]
) -> ProcessSize | None:
    if not sizes:
        return None
    names = ProcessSize.model_fields
    return ProcessSize(**{name: select(getattr(size, name) for size in sizes) for name in names})


def _count_steps(tables: RunTables) -> tuple[int, int]:
    """Return the steps that were made, and those that survived, of the rank with most."""
    made_by_rank = Counter(step.rank for attempt in tables.attempts for step in attempt.steps)
    kept_by_rank = Counter(step.rank for step in tables.lineage.all_steps())
    return max(((made_by_rank[rank], kept_by_rank[rank]) for rank in made_by_rank), default=(0, 0))


def _count_planned_steps(run: FinishedRun, kept_steps: int) -> int | None:
    ending_ops = [op for op in run.plan.ops if op.fault.ends_attempt != "never"]
    triggers = [op.at for op in ending_ops]
    if any(op.fault.ends_attempt != "always" or op.fault.is_announced for op in ending_ops):
        return None
    steps = [trigger.step for trigger in triggers if isinstance(trigger, AtStep)]
    return kept_steps + sum(steps) if len(steps) == len(triggers) else None


def _measure_loss_distances(run: FinishedRun) -> tuple[float | None, ...]:
    lines = build_curves(run.analysis)
    baseline_losses = {(point.epoch, point.step): point.loss for point in lines.baseline}
    distances: dict[int, float | None] = {
        attempt.index: None for attempt in run.analysis.run.attempts
    }
    for point in lines.run:
        baseline_loss = baseline_losses.get((point.epoch, point.step))
        if point.loss is not None and baseline_loss is not None:
            distance = abs(point.loss - baseline_loss)
            distances[point.attempt] = max(distances.get(point.attempt) or 0.0, distance)
    return tuple(distances[index] for index in sorted(distances))


def _count_stored_files(history: History) -> int | None:
    storage_events = [event for _, event in history.select_events(StorageSeen)]
    return (
        sum(len(checkpoint.files) for checkpoint in storage_events[-1].checkpoints)
        if storage_events
        else None
    )


# -- growth --------------------------------------------------------------------------------------

_Readings: TypeAlias = Mapping[AttemptRank, Sequence[ProcessSize]]


def _collect_readings(history: History) -> _Readings:
    """Return the sizes of each process by epochs."""
    sizes_by_worker: dict[AttemptRank, list[ProcessSize]] = {}
    for _, event in history.select_events(ProcessSeen):
        size = ProcessSize.model_validate(event, from_attributes=True)
        sizes_by_worker.setdefault(AttemptRank(event.attempt, event.rank), []).append(size)
    return sizes_by_worker


def _find_growths(run: FinishedRun, readings: _Readings) -> Iterator[CountGrowth]:
    """Yield what grew in every epoch of a process, and from each attempt to the next.

    The first epoch of a process is left out: it opens what it needs.
    """
    baseline_readings = {} if run.baseline is None else _collect_readings(run.baseline)
    for counted in _COUNTED:
        baseline_growths = _select_growing(baseline_readings, counted)
        for (attempt, rank), values in _select_growing(readings, counted).items():
            owner = f"rank {rank} in attempt {attempt}, seed {run.plan.seed}, by epoch"
            yield CountGrowth(
                counted=counted, of=owner, values=values, in_baseline=bool(baseline_growths)
            )
        by_attempt = [
            getattr(sizes[0], counted) for (_, rank), sizes in sorted(readings.items()) if rank == 0
        ]
        if is_growing(by_attempt):
            owner = f"rank 0 after its first epoch, seed {run.plan.seed}, by attempt"
            yield CountGrowth(counted=counted, of=owner, values=tuple(by_attempt))


def _select_growing(readings: _Readings, counted: Counted) -> dict[AttemptRank, tuple[int, ...]]:
    values = {
        key: tuple(getattr(size, counted) for size in sizes[1:]) for key, sizes in readings.items()
    }
    return {key: series for key, series in values.items() if is_growing(series)}


def is_growing(values: Sequence[int]) -> bool:
    """Return whether there are enough readings, and each is above the one before."""
    return len(values) >= READINGS_MIN and all(a < b for a, b in pairwise(values))


# -- in words ------------------------------------------------------------------------------------


def describe_soak(result: SoakResult) -> Iterator[str]:
    """Yield a block of lines for each scenario, and the size of chaos itself."""
    if not result.runs:
        return
    yield f"soak of {result.seconds:.0f} s"
    for scenario in dict.fromkeys(run.scenario for run in result.runs):
        yield f"  {scenario}"
        lines = _describe_scenario([run for run in result.runs if run.scenario == scenario])
        yield from (f"    {line}" for line in lines)
    yield "  chaos itself"
    yield f"    {_describe_sizes(result.own)}"
    for counted in _COUNTED:
        own_counts = tuple(getattr(size, counted) for size in result.own)
        if is_growing(own_counts):
            yield f"    grew: {_COUNTED[counted]} by run: {', '.join(map(str, own_counts))}"


def _describe_scenario(runs: Sequence[SoakRun]) -> Iterator[str]:
    expected_count, resumes = sum(run.as_expected for run in runs), sum(run.resumes for run in runs)
    yield f"{plural(len(runs), 'run')}, {expected_count} as expected, {plural(resumes, 'resume')}"
    yield f"steps that survive: {_describe_goodput(runs)}"
    yield f"recovery: {_describe_medians([run.recovery_s for run in runs], '{:.1f} s', 'restart')}"
    distances_text = _describe_medians([run.apart for run in runs], "{:.3g}", "attempt")
    yield f"losses apart from the baseline's: {distances_text}"
    bounds = [size for run in runs for size in (run.least, run.most) if size is not None]
    yield f"a process of the job: {_describe_sizes(bounds)}"
    if any(run.stored is not None for run in runs):
        yield f"files in storage at the end: {_describe_stored_files(runs)}"
    yield from _describe_growths([growth for run in runs for growth in run.growths])


def _describe_goodput(runs: Sequence[SoakRun]) -> str:
    counted_runs = [run for run in runs if run.made]
    if not counted_runs:
        return "no step was seen"
    share = sum(run.kept for run in counted_runs) / sum(run.made for run in counted_runs)
    planned_runs = [run for run in counted_runs if run.planned is not None]
    if not planned_runs:
        return f"{share:.1%} of those made"
    planned_share = sum(run.kept for run in planned_runs) / sum(
        run.planned or 0 for run in planned_runs
    )
    return (
        f"{share:.1%} of those made; {planned_share:.1%} where a fault costs the steps of its epoch"
    )


def _describe_medians(series: Sequence[Sequence[float | None]], form: str, noun: str) -> str:
    """Return the medians of the first and the last number that at least three runs came to."""
    columns = [
        (number, [value for value in column if value is not None])
        for number, column in enumerate(zip_longest(*series), 1)
    ]
    common_columns = [
        (number, column) for number, column in columns if len(column) >= min(3, len(series))
    ]
    medians = [
        f"{form.format(statistics.median(column))} at {noun} {number}"
        for number, column in common_columns
    ]
    if len(medians) < 2:  # noqa: PLR2004 - no first and last
        return medians[0] if medians else "not seen"
    maximum = max(max(column) for _, column in common_columns)
    return f"{medians[0]}, {medians[-1]}, {form.format(maximum)} at most"


def _describe_sizes(sizes: Sequence[ProcessSize]) -> str:
    if not sizes:
        return "not seen"
    mib = [size.memory_bytes / 2**20 for size in sizes]
    words = [
        f"{_describe_span([getattr(size, key) for size in sizes])} {word}"
        for key, word in _COUNTED.items()
    ]
    return f"{_describe_span([round(value) for value in mib])} MiB, {', '.join(words)}"


def _describe_span(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def _describe_stored_files(runs: Sequence[SoakRun]) -> str:
    file_counts = [(run.stored, run.stored_without) for run in runs if run.stored is not None]
    baseline_counts = [count for _, count in file_counts if count is not None]
    words = _describe_span([count for count, _ in file_counts])
    return (
        f"{words}, and {_describe_span(baseline_counts)} without faults"
        if baseline_counts
        else words
    )


def _describe_growths(growths: Sequence[CountGrowth]) -> Iterator[str]:
    if not growths:
        yield "nothing grew from each reading to the next"
    for growth in growths[:GROWTHS_SHOWN]:
        values = ", ".join(map(str, growth.values))
        baseline_note = "; without faults as well" if growth.in_baseline else ""
        yield f"grew: {_COUNTED[growth.counted]} of {growth.of}: {values}{baseline_note}"
    if len(growths) > GROWTHS_SHOWN:
        yield f"{len(growths) - GROWTHS_SHOWN} more that grew are in {SOAK}"
