"""Steps that each start of a job repeats after it has read its save, such as those of a teacher.

    baseline    teacher: 1 .. 60    student: 1 2 3 4 5 6 ...
    restart     teacher: 1 .. 60    student:         5 6 ...    the save holds the student after 4

Such steps are no training that was lost. They are those of an optimizer that makes no later step,
each with the baseline's losses and inputs, and what follows them is what follows the save.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import msgspec

from chaos.model.event import FileLoaded, FileSaveBegun, Inputs, Repositioned, StepDone
from chaos.model.history import History, JournalEntry
from chaos.model.places import START, AttemptRank, TrainingPlace
from chaos.resume.attempt import build_attempts
from chaos.resume.steps import Step


@dataclass(frozen=True, slots=True)
class RepeatedSetup:
    """The steps with which one rank of an attempt begins, before it goes on."""

    #: the number of the first event after them
    end: int
    #: the place at which the rank went on, as it was recorded
    recorded_place: TrainingPlace
    #: the place of the baseline; None for an attempt that ended before
    resume_place: TrainingPlace | None

    def move_place(self, place: TrainingPlace) -> TrainingPlace:
        """Return the place of the baseline that is recorded as this one."""
        if self.resume_place is None:
            return place
        return shift_place(place, self.recorded_place, self.resume_place)


def _find_place(step: Step | StepDone) -> TrainingPlace:
    return TrainingPlace(step.epoch, step.step)


def _are_equal(step: Step | StepDone, baseline_step: Step) -> bool:
    """Return whether two steps are one, as far as their losses and samples show."""
    has_losses = bool(step.losses) and step.losses == baseline_step.losses
    return has_losses and have_equal_samples(step.inputs, baseline_step.inputs)


def have_equal_samples(inputs: Inputs | None, baseline_inputs: Inputs | None) -> bool:
    """Return whether two steps were given the same samples, though other models were given them.

    A teacher that was trained in this epoch has its inputs watched, and one of an earlier epoch has
    not: the samples of a batch come twice, or once.
    """
    if inputs is None or baseline_inputs is None or not inputs.samples:
        return inputs == baseline_inputs
    times, remainder = divmod(inputs.count, baseline_inputs.count or 1)
    return not remainder and inputs.samples == (baseline_inputs.samples or "") * times


def copy_inputs(
    history: History, baseline: History, setups: Mapping[AttemptRank, RepeatedSetup]
) -> History:
    """Return a run with the baseline's inputs for steps of its losses, if the samples are equal."""
    if not setups:
        return history
    baseline_steps = {
        (step.rank, _find_place(step)): step
        for steps in _collect_steps(baseline).values()
        for step in steps
    }

    def replace_entry(entry: JournalEntry) -> JournalEntry:
        event = entry.event
        if not isinstance(event, StepDone) or AttemptRank(event.attempt, event.rank) not in setups:
            return entry
        baseline_step = baseline_steps.get((event.rank, _find_place(event)))
        if baseline_step is None or not _are_equal(event, baseline_step):
            return entry
        event = msgspec.structs.replace(event, inputs=baseline_step.inputs)
        return msgspec.structs.replace(entry, event=event)

    entries = [replace_entry(entry) for entry in history]
    return History(entries, torn=history.torn, hidden=history.hidden)


def shift_place(
    place: TrainingPlace, recorded_place: TrainingPlace, resume_place: TrainingPlace
) -> TrainingPlace:
    """Return a place of an attempt that resumed at one place, and is recorded from another one on.

    What a rank did before its recorded place, it did before it went on.
    """
    epoch = place.epoch + resume_place.epoch - recorded_place.epoch
    if place.epoch != recorded_place.epoch:
        return TrainingPlace(epoch, place.step)
    return TrainingPlace(epoch, resume_place.step + max(0, place.step - recorded_place.step))


def find_repeated_setups(history: History, baseline: History) -> dict[AttemptRank, RepeatedSetup]:
    """Return such steps of the later attempts of a run, by attempt and rank."""
    baseline_steps = {rank: steps for (_, rank), steps in _collect_steps(baseline).items()}
    setup_ends = _find_setup_ends(baseline)
    setups: dict[AttemptRank, RepeatedSetup] = {}
    if not setup_ends:
        return setups
    run_steps = _collect_steps(history)
    for _, event in history.select_events(Repositioned):
        if TrainingPlace(event.epoch, event.step) == START:
            run_steps.setdefault(AttemptRank(event.attempt, event.rank), [])
    for attempt_rank, steps in sorted(run_steps.items()):
        expected_steps = baseline_steps.get(attempt_rank.rank, [])
        first_number = steps[0].number if steps else len(history)
        saved_places = _find_saved_places(history, attempt_rank, first_number, setups)
        if attempt_rank.attempt == 0 or not saved_places:
            continue
        if not steps:  # it ended before the first of them
            setups[attempt_rank] = RepeatedSetup(len(history), START, None)
            continue
        setup = _find_setup(
            steps, expected_steps, setup_ends.get(attempt_rank.rank, []), saved_places
        )
        if setup is not None:
            setups[attempt_rank] = setup
    return setups


def has_setup_steps(baseline: History) -> bool:
    """Return whether a clean run begins with steps that may be made again at each start."""
    return bool(_find_setup_ends(baseline))


def _find_setup_ends(baseline: History) -> dict[int, list[int]]:
    """Return for each rank the numbers of steps after which a setup may be over."""
    # Work that was saved, and is done once more, was thrown away.
    first_save = next((number for number, _ in baseline.select_events(FileSaveBegun)), 0)
    ends_by_rank = {
        rank: [end for end in _list_setup_ends(steps) if steps[end - 1].number < first_save]
        for (_, rank), steps in _collect_steps(baseline).items()
    }
    return {rank: ends for rank, ends in ends_by_rank.items() if ends}


def _collect_steps(history: History) -> dict[AttemptRank, list[Step]]:
    return {
        AttemptRank(attempt.index, rank): [*steps]
        for attempt in build_attempts(history)
        for rank, steps in attempt.steps.steps_by_rank.items()
    }


def _list_setup_ends(steps: Sequence[Step]) -> Iterator[int]:
    """Yield the numbers of steps after which none of their optimizers makes another one."""
    last_indexes = {step.done.optimizer: index for index, step in enumerate(steps)}
    latest_index = -1
    for index, step in enumerate(steps[:-1]):
        latest_index = max(latest_index, last_indexes[step.done.optimizer])
        if latest_index == index:
            yield index + 1


def _find_setup(
    steps: Sequence[Step],
    expected_steps: Sequence[Step],
    setup_ends: Sequence[int],
    saved_places: Sequence[TrainingPlace],
) -> RepeatedSetup | None:
    pairs = zip(steps, expected_steps, strict=False)
    equal_count = sum(1 for _ in takewhile(lambda pair: _are_equal(*pair), pairs))
    if equal_count == len(steps):
        is_cut_short = any(equal_count <= end for end in setup_ends)
        last_step = steps[-1]
        setup = RepeatedSetup(last_step.number + 1, _find_place(last_step), None)
        return setup if is_cut_short else None
    end = max((end for end in setup_ends if end <= equal_count), default=0)
    if not end:
        return None
    next_step = steps[end]
    for saved_place in saved_places:
        following_step = next(
            (step for step in expected_steps if _find_place(step) > saved_place), None
        )
        if following_step is not None and _are_equal(next_step, following_step):
            places = [TrainingPlace(s.epoch, s.step - 1) for s in (next_step, following_step)]
            return RepeatedSetup(next_step.number, *places)
    return None


def _find_saved_places(
    history: History,
    attempt_rank: AttemptRank,
    first_number: int,
    setups: dict[AttemptRank, RepeatedSetup],
) -> list[TrainingPlace]:
    """Return the places of the saves that a rank had read before its first step, the last first."""
    places = set[TrainingPlace]()
    for number, event in history.select_events(FileLoaded):
        if AttemptRank(event.attempt, event.rank) != attempt_rank or number > first_number:
            continue
        if event.saved_epoch is None or event.saved_step is None:
            continue
        place = TrainingPlace(event.saved_epoch, event.saved_step)
        saver = setups.get(AttemptRank(event.saved_attempt or 0, event.saved_rank or 0))
        places.add(place if saver is None else saver.move_place(place))
    return sorted(places, reverse=True)
