"""A run with each attempt at the place where its training shows that it resumed.

The probe finds a place by the first step alone. Where that fits several places the next steps
decide, and where the probe did not look (a journal of an older chaos, `watch: {files: false}`) all
of them do. The events of an attempt that turns out to have resumed elsewhere are moved there:

    recorded   epoch 0: 1 2 3 4        the inputs are those of epoch 2, step 3 and on
    placed     epoch 2: 3 4 5 6
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TypeAlias

import msgspec

from chaos.check.attempt import Attempt, Resumed, Start, attempts
from chaos.check.resume_place import (
    STEPS_MAX,
    Assumed,
    Index,
    Seen,
    indexes,
    place_of,
    resumed_at,
    seen_of,
    state_keys,
)
from chaos.model.event import (
    AnyEvent,
    CensusTaken,
    Committed,
    FileLoaded,
    GeneratorsSeen,
    ParametersNamed,
    Repositioned,
    SetAside,
    StateSeen,
    StepDone,
    WorkerGroupStarted,
    WorkerStarted,
)
from chaos.model.events.base import WorkerEvent
from chaos.model.history import Entry, History
from chaos.model.places import AttemptRank, Place

_INFERRED = ("commit", "file", "nothing")
Found: TypeAlias = Mapping[AttemptRank, Resumed]


@dataclass(frozen=True, slots=True)
class _Move:
    start: Place
    to: Resumed

    def __call__(self, epoch: int, step: int | None) -> dict[str, int]:
        """Return the fields of a place that is recorded as this one."""
        to = self.to.place
        fields = {"epoch": epoch + to.epoch - self.start.epoch}
        if step is not None:
            is_first = epoch == self.start.epoch
            fields["step"] = step + (to.step - self.start.step if is_first else 0)
        return fields


def placed(history: History, baseline: History) -> tuple[History, Found]:
    """Return a run with its later attempts at the places where they resumed, and these.

    They are those of ranks whose place no event tells as well; starts stay as they were recorded.
    What a rank did before it read its save, and resumed there, is set aside.
    """
    history = _without_prelude(history)
    found = _moves(history, baseline)
    moves = {of: move for of, move in found.items() if move.start != move.to.place}
    resumed = {of: move.to for of, move in found.items()}
    if not moves:
        return history, resumed
    entries = [_moved(entry, moves) for entry in history]
    return History(entries, torn=history.torn, hidden=history.hidden), resumed


_OF_STEPS = (StepDone, StateSeen, CensusTaken, GeneratorsSeen, ParametersNamed, Repositioned)


def _without_prelude(history: History) -> History:
    """Return a run without the steps that ranks made before the place of their resume was found.

    A place is found twice only where steps came before the save was read (see `probe.loads`). An
    attempt that ended within so many steps had not come to read it.
    """
    found: dict[AttemptRank, list[int]] = {}
    for number, e in history.of(Repositioned):
        found.setdefault(_of(e), []).append(number)
    ends = {of: numbers[-1] for of, numbers in found.items() if len(numbers) > 1}
    if not ends:
        return history
    steps: dict[AttemptRank, list[int]] = {}
    for number, done in history.of(StepDone):
        steps.setdefault(_of(done), []).append(number)
    most = max(sum(number < end for number in steps.get(of, ())) for of, end in ends.items())
    later = (of for of in found if of.attempt > 0 and len(steps.get(of, ())) <= most)
    ends = dict.fromkeys(later, len(history)) | ends

    def kept(number: int, entry: Entry) -> Entry:
        what = entry.what
        if not isinstance(what, _OF_STEPS) or number >= ends.get(_of(what), -1):
            return entry
        aside = SetAside(attempt=what.attempt, rank=what.rank, what=type(what).__name__)
        return msgspec.structs.replace(entry, what=aside)

    entries = [kept(number, entry) for number, entry in enumerate(history)]
    return History(entries, torn=history.torn, hidden=history.hidden)


def _of(what: WorkerEvent) -> AttemptRank:
    return AttemptRank(what.attempt, what.rank)


def _moves(history: History, baseline: History) -> Mapping[AttemptRank, _Move]:
    sure = {
        (e.attempt, e.rank)
        for _, e in history.of(Repositioned)
        if e.by not in _INFERRED and not e.others
    }
    trained = {(e.attempt, e.rank) for _, e in history.of(WorkerStarted) if e.attempt > 0}
    if trained <= sure:
        return {}
    known, size = indexes(baseline), _size(baseline)
    own, entered = cache(partial(_own, history)), _entered(history)
    return {
        AttemptRank(attempt.index, rank): _Move(start.place, found)
        for attempt in attempts(history)
        for rank, start in sorted(attempt.starts.items())
        if (attempt.index, rank) in trained - sure
        if (steps := _first_steps(attempt, rank, entered, is_resized=attempt.size != size))
        if (found := _found(steps, known.get(rank, Index()), start, own(attempt.index)))
    }


def _found(steps: list[Seen], index: Index, start: Start, own: Index) -> Resumed | None:
    by = start.by or ("nothing" if start.checkpoint is None else "commit")
    found = resumed_at(steps, index, Assumed(start.place, by, start.path), own)
    return None if found.by in _INFERRED else found


def _first_steps(
    attempt: Attempt, rank: int, entered: Mapping[AttemptRank, StateSeen], *, is_resized: bool
) -> list[Seen]:
    """Return what was seen of a rank's first steps; with other ranks, it has other batches."""
    steps = attempt.steps.by_rank.get(rank, ())[:STEPS_MAX]
    seen = [Seen() if is_resized else seen_of(step) for step in steps]
    state = entered.get(AttemptRank(attempt.index, rank))
    if not seen or state is None:
        return seen
    model, optimizer = state_keys(state.components)
    return [replace(seen[0], model=model, optimizer=optimizer), *seen[1:]]


def _entered(history: History) -> Mapping[AttemptRank, StateSeen]:
    """Return the first state that each rank of an attempt entered training with."""
    entered = [seen for _, seen in history.of(StateSeen) if seen.moment == "entered"]
    return {AttemptRank(seen.attempt, seen.rank): seen for seen in reversed(entered)}


def _own(history: History, before: int) -> Index:
    """Return the states of the earlier attempts of the run itself."""
    found = Index()
    for _, seen in history.of(StateSeen):
        if seen.attempt < before:
            found.add_state(place_of(seen), seen.components)
    return found


def _size(history: History) -> int:
    groups = (len(e.workers) for _, e in history.of(WorkerGroupStarted))
    return next(groups, 0) or 1 + max((e.rank for _, e in history.of(WorkerStarted)), default=0)


# -- events ----------------------------------------------------------------------------------------


def _moved(entry: Entry, moves: Mapping[AttemptRank, _Move]) -> Entry:
    fields = dict(_fields(entry.what, moves))
    if not fields:
        return entry
    return msgspec.structs.replace(entry, what=msgspec.structs.replace(entry.what, **fields))


def _fields(what: AnyEvent, moves: Mapping[AttemptRank, _Move]) -> Iterator[tuple[str, object]]:
    """Yield the fields of an event's new place."""
    rank = 0 if isinstance(what, Committed) else getattr(what, "rank", None)
    move = moves.get(AttemptRank(getattr(what, "attempt", -1), -1 if rank is None else rank))
    is_start = isinstance(what, WorkerStarted | Repositioned)
    if move is not None and isinstance(what, WorkerEvent | Committed) and not is_start:
        epoch = getattr(what, "epoch", None)
        if epoch is not None:
            yield from move(epoch, getattr(what, "step", None)).items()
    if isinstance(what, FileLoaded) and what.saved_epoch is not None:
        saver = moves.get(AttemptRank(what.saved_attempt or 0, what.saved_rank or 0))
        if saver is not None:
            found = saver(what.saved_epoch, what.saved_step)
            yield from ((f"saved_{name}", value) for name, value in found.items())
