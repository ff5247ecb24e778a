"""The plain values of the job that differ from the baseline's as an attempt begins to train.

Where training comes out otherwise although the state that is compared came back, one of them may
be the reason. That they differ is a fact; that one is the reason is not shown by it.
"""

from collections.abc import Mapping
from itertools import chain
from typing import NamedTuple, TypeAlias

from chaos.check.analysis import RunAnalysis
from chaos.check.divergence import find_divergence
from chaos.check.resumes import is_resumed
from chaos.model.event import CensusTaken, Held, LoopBody, NamesGiven
from chaos.model.events.state import (
    HOOKS,
    IN_LOADER,
    IS_PARAM_GROUPS,
    MODULE_STATE,
    SHARED_STATE,
)
from chaos.model.history import History
from chaos.model.places import AttemptRank, TrainingPlace
from chaos.wording import plural

NAMED_MAX = 3
#: the generators of modules, which are parts of the state, that a run can be given
GIVEN_BACK = frozenset({"rng.torch", "rng.numpy", "rng.python"})
_Values: TypeAlias = Mapping[str, Held]
_Censuses: TypeAlias = Mapping[TrainingPlace, _Values]


class CensusDifference(NamedTuple):
    """A value that differs."""

    path: str
    #: numbers in words; empty where they have none
    run_text: str
    baseline_text: str
    #: it is what the job began with
    is_initial: bool

    @property
    def name(self) -> str:
        """The path as a text has it."""
        base = self.path.removesuffix(IN_LOADER)
        return f"`{base}`{IN_LOADER}" if self.is_copy else f"`{base}`"

    @property
    def is_copy(self) -> bool:
        """Whether it is the value that a loader's processes were started with."""
        return self.path.endswith(IN_LOADER)

    @property
    def is_lasting(self) -> bool:
        """Whether it is certain that it is not of one step alone, as a variable may be."""
        return self.is_initial or "." in self.path

    def __str__(self) -> str:
        if self.run_text and self.baseline_text:
            initial_text = ", its first value," if self.is_initial else ""
            return (
                f"{self.name} was {self.run_text}{initial_text} and {self.baseline_text} in "
                f"the baseline"
            )
        initial_text = "at its first value, and " if self.is_initial else ""
        return f"{self.name} was {initial_text}not the baseline's"


def find_shared_generators(analysis: RunAnalysis) -> tuple[CensusDifference, ...]:
    """Return the generators of modules that did not come back at the resume."""
    attempt = find_examined_resume(analysis).attempt
    broken_rows = [r for r in analysis.state_rows if r.is_broken and r.component in GIVEN_BACK]
    rows = {row.component: row for row in broken_rows if row.attempt == attempt}.values()
    return tuple(
        CensusDifference(r.component, "", "", is_initial=r.standing == "reset") for r in rows
    )


def find_candidates(analysis: RunAnalysis) -> tuple[CensusDifference, ...]:
    """Return what differs at the resume before the first number that does, the likeliest first.

    At the first resume where no number differs: so it is where epochs or files are others.

    A value counts if it was the baseline's at each place before the first fault, moves in the
    baseline or is the state of a module, and is another one at the resume, on any rank. Values at
    which the job began come first, and of them numbers.
    """
    return _find_candidates(analysis, find_examined_resume(analysis), None)


def find_loop_candidates(analysis: RunAnalysis) -> tuple[CensusDifference, ...]:
    """Return what differs where the bodies of loops begin at a resume, by runs that looked there.

    What differs there is nearer to the cause than what differs before the first forward call: what
    draws the data of a step, or keeps it in a queue, has acted by then. So what differs at the
    earliest moment comes first. Within an epoch an outer loop began at another moment than in the
    baseline, and what differs in it comes last.
    """
    resume = find_examined_resume(analysis)
    steps = {
        event.loop: event.step
        for _, event in reversed([*analysis.history.select_events(CensusTaken)])
        if event.loop is not None and event.attempt == resume.attempt
    }
    loops = sorted(steps, reverse=any(steps.values()))
    loop_candidates = (_find_candidates(analysis, resume, loop) for loop in loops)
    by_path: dict[str, CensusDifference] = {}
    for candidate in chain.from_iterable(loop_candidates):
        by_path.setdefault(candidate.path, candidate)
    return tuple(by_path.values())


def _find_candidates(
    analysis: RunAnalysis, resume: AttemptRank, loop: int | None
) -> tuple[CensusDifference, ...]:
    attempt, rank = resume
    if attempt == 0:
        return ()
    census_ranks = (
        e.rank for _, e in analysis.history.select_events(CensusTaken) if e.attempt == attempt
    )
    candidates_by_path: dict[str, CensusDifference] = {}
    for census_rank in sorted(
        set(census_ranks), key=lambda census_rank: (census_rank != rank, census_rank)
    ):
        for candidate in _find_rank_candidates(analysis, AttemptRank(attempt, census_rank), loop):
            candidates_by_path.setdefault(candidate.path, candidate)
    return tuple(sorted(candidates_by_path.values(), key=sort_key))


def _find_rank_candidates(
    analysis: RunAnalysis, resume: AttemptRank, loop: int | None
) -> list[CensusDifference]:
    baseline, (attempt, rank) = analysis.aligned_baseline, resume
    if baseline is None:
        return []
    baseline_censuses = collect_censuses(baseline, 0, rank, loop=loop)
    first_census = next(
        iter(collect_censuses(analysis.history, attempt, rank, loop=loop).items()), None
    )
    if first_census is None or first_census[0] not in baseline_censuses:
        return []
    training_place, run_values = first_census
    baseline_values, initial_values = (
        baseline_censuses[training_place],
        next(iter(baseline_censuses.values())),
    )
    repeatable_paths = find_repeatable_paths(
        collect_censuses(analysis.history, 0, rank, loop=loop, end_number=analysis.fault_start),
        baseline_censuses,
    )
    return [
        CensusDifference(
            path, value.text, baseline_values[path].text, has_value(initial_values, value)
        )
        for path, value in run_values.items()
        if path in repeatable_paths
        and path in baseline_values
        and path not in GIVEN_BACK
        and not has_value(baseline_values, value)
        and _is_changing(path, baseline_censuses)
    ]


def sort_key(candidate: CensusDifference) -> tuple[bool, bool, bool]:
    """Return the key by which the likeliest to be the cause comes first."""
    # An object's attribute stays from step to step, where a variable may be set before its use.
    return (
        not candidate.is_initial,
        not (candidate.run_text and candidate.baseline_text),
        "." not in candidate.path,
    )


def find_resume_places(analysis: RunAnalysis) -> dict[int, TrainingPlace]:
    """Return the place of each resume from the first on that training did not survive."""
    first_attempt = max(1, find_examined_resume(analysis).attempt)
    resume_places: dict[int, TrainingPlace] = {}
    for _, event in analysis.history.select_events(CensusTaken):
        if event.attempt >= first_attempt and event.loop is None:
            resume_places.setdefault(event.attempt, TrainingPlace(event.epoch, event.step))
    return resume_places


def find_first_place(analysis: RunAnalysis) -> TrainingPlace | None:
    """Return the place of the baseline's first census; None without one."""
    baseline = analysis.aligned_baseline
    censuses = () if baseline is None else baseline.select_events(CensusTaken)
    return next((TrainingPlace(event.epoch, event.step) for _, event in censuses), None)


def find_examined_resume(analysis: RunAnalysis) -> AttemptRank:
    """Return the attempt whose resume is looked at, and the rank; attempt 0 if there is none."""
    differing_number = find_divergence(analysis)
    if differing_number is not None:
        return AttemptRank(differing_number.attempt, differing_number.rank or 0)
    resumed_attempts = (r.attempt.index for r in analysis.restarts if is_resumed(analysis, r))
    return AttemptRank(next(resumed_attempts, 0), 0)


def find_unread_paths(analysis: RunAnalysis) -> tuple[str, ...]:
    """Return the paths of what a census of the baseline did not read."""
    baseline = analysis.aligned_baseline
    censuses = () if baseline is None else baseline.select_events(CensusTaken)
    return tuple(dict.fromkeys(path for _, event in censuses for path in event.left_out))


def find_model_loops(analysis: RunAnalysis) -> tuple[LoopBody, ...]:
    """Return the loops in which the job calls its model, the outermost first."""
    baseline = analysis.aligned_baseline
    name_events = () if baseline is None else baseline.select_events(NamesGiven)
    return next((event.loops for _, event in name_events), ())


def describe_candidates(candidates: tuple[CensusDifference, ...]) -> str:
    """Return the values as the end of a sentence; an empty text for none."""
    if not candidates:
        return ""
    hidden_count = len(candidates) - NAMED_MAX
    descriptions = [*map(str, candidates[:NAMED_MAX])]
    descriptions += [f"so were {plural(hidden_count, 'more value')}"] if hidden_count > 0 else []
    return f"; at the resume {', '.join(descriptions)}"


def collect_censuses(
    history: History, attempt: int, rank: int, *, loop: int | None, end_number: int | None = None
) -> dict[TrainingPlace, _Values]:
    """Return the censuses of a rank in an attempt, oldest first: those of one moment."""
    censuses: dict[TrainingPlace, _Values] = {}
    values: dict[str, Held] = {}
    for number, event in history.select_events(CensusTaken):
        census_key = (event.attempt, event.rank, event.loop)
        if census_key == (attempt, rank, loop) and (end_number is None or number < end_number):
            if loop is not None:
                values = {}
            removed_paths = frozenset(event.gone)
            values = {path: value for path, value in values.items() if path not in removed_paths}
            values |= {value.path: value for value in event.held}
            censuses[TrainingPlace(event.epoch, event.step)] = values
    return censuses


def find_repeatable_paths(run_censuses: _Censuses, baseline_censuses: _Censuses) -> frozenset[str]:
    """Return the values that are the baseline's wherever both were seen before the first fault."""
    paths = {path for values in run_censuses.values() for path in values}
    value_pairs = [
        (values, baseline_censuses[place])
        for place, values in run_censuses.items()
        if place in baseline_censuses
    ]
    return frozenset(
        path
        for path in paths
        if any(
            path in run_values and path in baseline_values
            for run_values, baseline_values in value_pairs
        )
        and all(
            has_value(baseline_values, run_values[path])
            for run_values, baseline_values in value_pairs
            if path in run_values and path in baseline_values
        )
    )


def has_value(values: _Values, value: Held) -> bool:
    """Return whether a census has the value by its path."""
    return value.path in values and values[value.path].digest == value.digest


def _is_changing(path: str, censuses: _Censuses) -> bool:
    if path.endswith((HOOKS, IS_PARAM_GROUPS, SHARED_STATE, MODULE_STATE)):
        # They stay as they are, and a resume alone loses them. A module that does not train, such
        # as the reference of a policy, is made once: from other weights where training goes on.
        return True
    # What a loader's processes were given stays there, while it moves where they were started.
    path = path.removesuffix(IN_LOADER)
    return len({values[path].digest for values in censuses.values() if path in values}) > 1
