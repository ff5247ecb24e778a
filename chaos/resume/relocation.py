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
from chaos.model.history import History, JournalEntry
from chaos.model.places import AttemptRank, TrainingPlace
from chaos.resume.attempt import Attempt, RankStart, ResumePoint, build_attempts
from chaos.resume.repeated_setup import (
    copy_inputs,
    find_repeated_setups,
    shift_place,
)
from chaos.resume.resume_place import (
    STEPS_MAX,
    InferredPlace,
    ResumePlaceIndex,
    StepKeys,
    build_state_keys,
    build_step_keys,
    find_resume_place,
    find_resume_point,
    get_indexes,
)

_INFERRED_EVIDENCE = ("commit", "file", "nothing")
Found: TypeAlias = Mapping[AttemptRank, ResumePoint]


@dataclass(frozen=True, slots=True)
class _Move:
    recorded_place: TrainingPlace
    resume_point: ResumePoint

    def __call__(self, epoch: int, step: int | None) -> dict[str, int]:
        """Return the fields of a place that is recorded as this one."""
        place = shift_place(
            TrainingPlace(epoch, step or 0), self.recorded_place, self.resume_point.training_place
        )
        return {"epoch": place.epoch} if step is None else place._asdict()


def relocate_attempts(history: History, baseline: History) -> tuple[History, Found]:
    """Return a run with its later attempts at the places where they resumed, and these.

    They are those of ranks whose place no event tells as well; starts stay as they were recorded.
    What a rank did before it read its save, and resumed there, is set aside. So are steps that each
    start makes after the read, before it goes on.
    """
    history = _drop_prelude(history)
    setups = find_repeated_setups(history, baseline)
    history = _set_aside(history, {rank: setup.end for rank, setup in setups.items()})
    all_moves = {**_find_moves(history, baseline)}
    for rank, setup in setups.items():
        if setup.resume_place is not None:
            all_moves[rank] = _Move(setup.recorded_place, ResumePoint(setup.resume_place, "file"))
    moves = {
        rank: move
        for rank, move in all_moves.items()
        if move.recorded_place != move.resume_point.training_place
    }
    resume_points = {rank: move.resume_point for rank, move in all_moves.items()}
    if not moves:
        return history, resume_points
    entries = [_move_entry(entry, moves) for entry in history]
    moved_history = History(entries, torn=history.torn, hidden=history.hidden)
    return copy_inputs(moved_history, baseline, setups), resume_points


_STEP_EVENTS = (StepDone, StateSeen, CensusTaken, GeneratorsSeen, ParametersNamed, Repositioned)


def _drop_prelude(history: History) -> History:
    """Return a run without the steps that ranks made before the place of their resume was found.

    A place is found twice, or after a step, only where steps came before the save was read (see
    `probe.loads`). One may be there to make an optimizer's state, into which the save is then
    loaded. An attempt that ended within so many steps had not come to read it. One that then found
    nothing left to train has made no step.
    """
    position_numbers: dict[AttemptRank, list[int]] = {}
    for number, e in history.select_events(Repositioned):
        position_numbers.setdefault(_find_rank(e), []).append(number)
    steps: dict[AttemptRank, list[int]] = {}
    for number, done in history.select_events(StepDone) if position_numbers else ():
        steps.setdefault(_find_rank(done), []).append(number)
    ends = {
        attempt_rank: numbers[-1] + _has_no_place(history[numbers[-1]].event)
        for attempt_rank, numbers in position_numbers.items()
        if len(numbers) > 1 or steps.get(attempt_rank, [numbers[-1]])[0] < numbers[-1]
    }
    if not ends:
        return history
    most_steps = max(
        sum(number < end for number in steps.get(attempt_rank, ()))
        for attempt_rank, end in ends.items()
    )
    later_ranks = (
        attempt_rank
        for attempt_rank in position_numbers.keys() | steps.keys()
        if attempt_rank.attempt > 0 and len(steps.get(attempt_rank, ())) <= most_steps
    )
    return _set_aside(history, dict.fromkeys(later_ranks, len(history)) | ends)


def _set_aside(history: History, ends: Mapping[AttemptRank, int]) -> History:
    """Return a run without the steps of ranks, up to an event for each."""
    if not ends:
        return history

    def replace_entry(number: int, entry: JournalEntry) -> JournalEntry:
        event = entry.event
        if not isinstance(event, _STEP_EVENTS) or number >= ends.get(_find_rank(event), -1):
            return entry
        marker = SetAside(attempt=event.attempt, rank=event.rank, event_name=type(event).__name__)
        return msgspec.structs.replace(entry, event=marker)

    entries = [replace_entry(number, entry) for number, entry in enumerate(history)]
    return History(entries, torn=history.torn, hidden=history.hidden)


def _has_no_place(event: AnyEvent) -> bool:
    return isinstance(event, Repositioned) and event.evidence == "nothing"


def _find_rank(event: WorkerEvent) -> AttemptRank:
    return AttemptRank(event.attempt, event.rank)


def _find_moves(history: History, baseline: History) -> Mapping[AttemptRank, _Move]:
    certain_ranks = {
        (event.attempt, event.rank)
        for _, event in history.select_events(Repositioned)
        if event.evidence not in _INFERRED_EVIDENCE and not event.other_places
    }
    trained_ranks = {
        (event.attempt, event.rank)
        for _, event in history.select_events(WorkerStarted)
        if event.attempt > 0
    }
    if trained_ranks <= certain_ranks:
        return {}
    baseline_indexes, baseline_size = get_indexes(baseline), _count_workers(baseline)
    build_index, entry_states = (
        cache(partial(_build_run_index, history)),
        _find_entry_states(history),
    )
    return {
        AttemptRank(attempt.index, rank): _Move(start.training_place, resume_point)
        for attempt in build_attempts(history)
        for rank, start in sorted(attempt.starts.items())
        if (attempt.index, rank) in trained_ranks - certain_ranks
        if (
            steps := _build_first_keys(
                attempt, rank, entry_states, is_resized=attempt.worker_count != baseline_size
            )
        )
        if (
            resume_point := _find_resume_point(
                steps,
                baseline_indexes.get(rank, ResumePlaceIndex()),
                start,
                build_index(attempt.index),
            )
        )
    }


def _find_resume_point(
    steps: list[StepKeys], index: ResumePlaceIndex, start: RankStart, run_index: ResumePlaceIndex
) -> ResumePoint | None:
    evidence = start.evidence or ("nothing" if start.checkpoint is None else "commit")
    resume_point = find_resume_point(
        steps, index, InferredPlace(start.training_place, evidence, start.path), run_index
    )
    return None if resume_point.evidence in _INFERRED_EVIDENCE else resume_point


def _build_first_keys(
    attempt: Attempt, rank: int, entry_states: Mapping[AttemptRank, StateSeen], *, is_resized: bool
) -> list[StepKeys]:
    """Return what was seen of a rank's first steps; with other ranks, it has other batches."""
    steps = attempt.steps.steps_by_rank.get(rank, ())[:STEPS_MAX]
    step_keys = [StepKeys() if is_resized else build_step_keys(step) for step in steps]
    state = entry_states.get(AttemptRank(attempt.index, rank))
    if not step_keys or state is None:
        return step_keys
    model, optimizer = build_state_keys(state.components)
    return [replace(step_keys[0], model=model, optimizer=optimizer), *step_keys[1:]]


def _find_entry_states(history: History) -> Mapping[AttemptRank, StateSeen]:
    """Return the first state that each rank of an attempt entered training with."""
    states = [state for _, state in history.select_events(StateSeen) if state.moment == "entered"]
    return {AttemptRank(state.attempt, state.rank): state for state in reversed(states)}


def _build_run_index(history: History, attempt_limit: int) -> ResumePlaceIndex:
    """Return the states of the earlier attempts of the run itself."""
    index = ResumePlaceIndex()
    for _, state in history.select_events(StateSeen):
        if state.attempt < attempt_limit:
            index.add_state(find_resume_place(state), state.components)
    return index


def _count_workers(history: History) -> int:
    group_sizes = (len(event.workers) for _, event in history.select_events(WorkerGroupStarted))
    return next(group_sizes, 0) or 1 + max(
        (event.rank for _, event in history.select_events(WorkerStarted)), default=0
    )


# -- events ----------------------------------------------------------------------------------------


def _move_entry(entry: JournalEntry, moves: Mapping[AttemptRank, _Move]) -> JournalEntry:
    fields = dict(_find_place_fields(entry.event, moves))
    if not fields:
        return entry
    return msgspec.structs.replace(entry, event=msgspec.structs.replace(entry.event, **fields))


def _find_place_fields(
    event: AnyEvent, moves: Mapping[AttemptRank, _Move]
) -> Iterator[tuple[str, object]]:
    """Yield the fields of an event's new place."""
    rank = 0 if isinstance(event, Committed) else getattr(event, "rank", None)
    move = moves.get(AttemptRank(getattr(event, "attempt", -1), -1 if rank is None else rank))
    is_start = isinstance(event, WorkerStarted | Repositioned)
    if move is not None and isinstance(event, WorkerEvent | Committed) and not is_start:
        epoch = getattr(event, "epoch", None)
        if epoch is not None:
            yield from move(epoch, getattr(event, "step", None)).items()
    if isinstance(event, FileLoaded) and event.saved_epoch is not None:
        saver = moves.get(AttemptRank(event.saved_attempt or 0, event.saved_rank or 0))
        if saver is not None:
            saved_fields = saver(event.saved_epoch, event.saved_step)
            yield from ((f"saved_{name}", value) for name, value in saved_fields.items())
