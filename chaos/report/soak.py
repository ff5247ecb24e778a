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
from chaos.check.curves import curves
from chaos.model.event import ProcessSeen, StorageSeen
from chaos.model.history import History
from chaos.model.places import AttemptRank
from chaos.model.scenario import VerdictStatus
from chaos.model.trigger import AtStep
from chaos.record import Record
from chaos.report.outcome import FinishedRun
from chaos.run.process_size import ProcessSize
from chaos.words import plural

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


class Growth(Record):
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
    growths: tuple[Growth, ...]
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


def soak_run(run: FinishedRun) -> SoakRun:
    """Return the figures of a judged run."""
    analysis = run.analysis
    tables = analysis.run
    made, kept = _steps(tables)
    readings = _readings(run.history)
    sizes = [size for of in readings.values() for size in of]
    return SoakRun(
        scenario=run.plan.scenario,
        seed=run.plan.seed,
        directory=run.directory,
        status=run.verdict.status,
        as_expected=run.verdict.as_expected,
        resumes=run.verdict.restarts.resumed,
        made=made,
        kept=kept,
        planned=_planned(run, kept),
        recovery_s=tuple(restart.phases.total_s for restart in analysis.restarts),
        apart=_apart(run),
        least=_bound(min, sizes),
        most=_bound(max, sizes),
        growths=tuple(_growths(run, readings)),
        stored=_stored(run.history),
        stored_without=None if run.baseline is None else _stored(run.baseline),
    )


def _bound(of: Callable[[Iterable[int]], int], sizes: Sequence[ProcessSize]) -> ProcessSize | None:
    if not sizes:
        return None
    names = ProcessSize.model_fields
    return ProcessSize(**{name: of(getattr(size, name) for size in sizes) for name in names})


def _steps(tables: RunTables) -> tuple[int, int]:
    """Return the steps that were made, and those that survived, of the rank with most."""
    made = Counter(step.rank for attempt in tables.attempts for step in attempt.steps)
    kept = Counter(step.rank for step in tables.lineage.all_steps())
    return max(((made[rank], kept[rank]) for rank in made), default=(0, 0))


def _planned(run: FinishedRun, kept: int) -> int | None:
    ending = [op for op in run.plan.ops if op.fault.ends_attempt != "never"]
    places = [op.at for op in ending]
    if any(op.fault.ends_attempt != "always" or op.fault.is_announced for op in ending):
        return None
    steps = [at.step for at in places if isinstance(at, AtStep)]
    return kept + sum(steps) if len(steps) == len(places) else None


def _apart(run: FinishedRun) -> tuple[float | None, ...]:
    lines = curves(run.analysis)
    theirs = {(point.epoch, point.step): point.loss for point in lines.baseline}
    found: dict[int, float | None] = {attempt.index: None for attempt in run.analysis.run.attempts}
    for point in lines.run:
        other = theirs.get((point.epoch, point.step))
        if point.loss is not None and other is not None:
            apart = abs(point.loss - other)
            found[point.attempt] = max(found.get(point.attempt) or 0.0, apart)
    return tuple(found[index] for index in sorted(found))


def _stored(history: History) -> int | None:
    seen = [event for _, event in history.of(StorageSeen)]
    return sum(len(held.files) for held in seen[-1].checkpoints) if seen else None


# -- growth --------------------------------------------------------------------------------------

_Readings: TypeAlias = Mapping[AttemptRank, Sequence[ProcessSize]]


def _readings(history: History) -> _Readings:
    """Return the sizes of each process by epochs."""
    found: dict[AttemptRank, list[ProcessSize]] = {}
    for _, seen in history.of(ProcessSeen):
        size = ProcessSize.model_validate(seen, from_attributes=True)
        found.setdefault(AttemptRank(seen.attempt, seen.rank), []).append(size)
    return found


def _growths(run: FinishedRun, readings: _Readings) -> Iterator[Growth]:
    """Yield what grew in every epoch of a process, and from each attempt to the next.

    The first epoch of a process is left out: it opens what it needs.
    """
    without = {} if run.baseline is None else _readings(run.baseline)
    for counted in _COUNTED:
        grows = _in_processes(without, counted)
        for (attempt, rank), values in _in_processes(readings, counted).items():
            of = f"rank {rank} in attempt {attempt}, seed {run.plan.seed}, by epoch"
            yield Growth(counted=counted, of=of, values=values, in_baseline=bool(grows))
        by_attempt = [
            getattr(sizes[0], counted) for (_, rank), sizes in sorted(readings.items()) if rank == 0
        ]
        if grow(by_attempt):
            of = f"rank 0 after its first epoch, seed {run.plan.seed}, by attempt"
            yield Growth(counted=counted, of=of, values=tuple(by_attempt))


def _in_processes(readings: _Readings, counted: Counted) -> dict[AttemptRank, tuple[int, ...]]:
    values = {
        key: tuple(getattr(size, counted) for size in sizes[1:]) for key, sizes in readings.items()
    }
    return {key: of for key, of in values.items() if grow(of)}


def grow(values: Sequence[int]) -> bool:
    """Return whether there are enough readings, and each is above the one before."""
    return len(values) >= READINGS_MIN and all(a < b for a, b in pairwise(values))


# -- in words ------------------------------------------------------------------------------------


def in_words(result: SoakResult) -> Iterator[str]:
    """Yield a block of lines for each scenario, and the size of chaos itself."""
    if not result.runs:
        return
    yield f"soak of {result.seconds:.0f} s"
    for scenario in dict.fromkeys(run.scenario for run in result.runs):
        yield f"  {scenario}"
        lines = _of_scenario([run for run in result.runs if run.scenario == scenario])
        yield from (f"    {line}" for line in lines)
    yield "  chaos itself"
    yield f"    {_sizes(result.own)}"
    for counted in _COUNTED:
        own = tuple(getattr(size, counted) for size in result.own)
        if grow(own):
            yield f"    grew: {_COUNTED[counted]} by run: {', '.join(map(str, own))}"


def _of_scenario(runs: Sequence[SoakRun]) -> Iterator[str]:
    right, resumes = sum(run.as_expected for run in runs), sum(run.resumes for run in runs)
    yield f"{plural(len(runs), 'run')}, {right} as expected, {plural(resumes, 'resume')}"
    yield f"steps that survive: {_goodput(runs)}"
    yield f"recovery: {_by_number([run.recovery_s for run in runs], '{:.1f} s', 'restart')}"
    apart = _by_number([run.apart for run in runs], "{:.3g}", "attempt")
    yield f"losses apart from the baseline's: {apart}"
    bounds = [size for run in runs for size in (run.least, run.most) if size is not None]
    yield f"a process of the job: {_sizes(bounds)}"
    if any(run.stored is not None for run in runs):
        yield f"files in storage at the end: {_stored_in_words(runs)}"
    yield from _growths_in_words([growth for run in runs for growth in run.growths])


def _goodput(runs: Sequence[SoakRun]) -> str:
    known = [run for run in runs if run.made]
    if not known:
        return "no step was seen"
    share = sum(run.kept for run in known) / sum(run.made for run in known)
    planned = [run for run in known if run.planned is not None]
    if not planned:
        return f"{share:.1%} of those made"
    of = sum(run.kept for run in planned) / sum(run.planned or 0 for run in planned)
    return f"{share:.1%} of those made; {of:.1%} where a fault costs the steps of its epoch"


def _by_number(series: Sequence[Sequence[float | None]], form: str, what: str) -> str:
    """Return the medians of the first and the last number that at least three runs came to."""
    columns = [
        (number, [value for value in column if value is not None])
        for number, column in enumerate(zip_longest(*series), 1)
    ]
    usual = [(number, column) for number, column in columns if len(column) >= min(3, len(series))]
    medians = [
        f"{form.format(statistics.median(column))} at {what} {number}" for number, column in usual
    ]
    if len(medians) < 2:  # noqa: PLR2004 - no first and last
        return medians[0] if medians else "not seen"
    most = max(max(column) for _, column in usual)
    return f"{medians[0]}, {medians[-1]}, {form.format(most)} at most"


def _sizes(sizes: Sequence[ProcessSize]) -> str:
    if not sizes:
        return "not seen"
    mib = [size.memory_bytes / 2**20 for size in sizes]
    words = [
        f"{_span([getattr(size, key) for size in sizes])} {word}" for key, word in _COUNTED.items()
    ]
    return f"{_span([round(value) for value in mib])} MiB, {', '.join(words)}"


def _span(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def _stored_in_words(runs: Sequence[SoakRun]) -> str:
    known = [(r.stored, r.stored_without) for r in runs if r.stored is not None]
    without = [of for _, of in known if of is not None]
    words = _span([of for of, _ in known])
    return f"{words}, and {_span(without)} without faults" if without else words


def _growths_in_words(growths: Sequence[Growth]) -> Iterator[str]:
    if not growths:
        yield "nothing grew from each reading to the next"
    for growth in growths[:GROWTHS_SHOWN]:
        values = ", ".join(map(str, growth.values))
        also = "; without faults as well" if growth.in_baseline else ""
        yield f"grew: {_COUNTED[growth.counted]} of {growth.of}: {values}{also}"
    if len(growths) > GROWTHS_SHOWN:
        yield f"{len(growths) - GROWTHS_SHOWN} more that grew are in {SOAK}"
