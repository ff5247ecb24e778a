"""The plain values of the job that differ from the baseline's as an attempt begins to train.

Where training comes out otherwise although the state that is compared came back, one of them may
be the reason. That they differ is a fact; that one is the reason is not shown by it.
"""

from collections.abc import Mapping
from itertools import chain
from typing import NamedTuple, TypeAlias

from chaos.check.analysis import RunAnalysis
from chaos.check.divergence import divergence
from chaos.check.resumes import is_resumed
from chaos.model.event import CensusTaken, Held, LoopBody, NamesGiven
from chaos.model.events.state import IN_LOADER
from chaos.model.history import History
from chaos.model.places import AttemptRank, Place
from chaos.words import plural

NAMED_MAX = 3
#: the generators of modules, which are parts of the state, that a run can be given
GIVEN_BACK = frozenset({"rng.torch", "rng.numpy", "rng.python"})
_Values: TypeAlias = Mapping[str, Held]
_Taken: TypeAlias = Mapping[Place, _Values]


class Candidate(NamedTuple):
    """A value that differs."""

    path: str
    #: numbers in words; empty where they have none
    ours: str
    due: str
    #: it is what the job began with
    is_first: bool

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
    def lasts(self) -> bool:
        """Whether it is certain that it is not of one step alone, as a variable may be."""
        return self.is_first or "." in self.path

    def __str__(self) -> str:
        if self.ours and self.due:
            first = ", its first value," if self.is_first else ""
            return f"{self.name} was {self.ours}{first} and {self.due} in the baseline"
        first = "at its first value, and " if self.is_first else ""
        return f"{self.name} was {first}not the baseline's"


def shared_generators(analysis: RunAnalysis) -> tuple[Candidate, ...]:
    """Return the generators of modules that did not come back at the resume."""
    attempt = resume_of(analysis).attempt
    lost = [r for r in analysis.components if r.is_broken and r.component in GIVEN_BACK]
    rows = {row.component: row for row in lost if row.attempt == attempt}.values()
    return tuple(Candidate(r.component, "", "", is_first=r.standing == "reset") for r in rows)


def candidates(analysis: RunAnalysis) -> tuple[Candidate, ...]:
    """Return what differs at the resume before the first number that does, the likeliest first.

    At the first resume where no number differs: so it is where epochs or files are others.

    A value counts if it was the baseline's at each place before the first fault, moves in the
    baseline, and is another one at the resume, on any rank. Values at which the job began come
    first, and of them numbers.
    """
    return _candidates(analysis, resume_of(analysis), None)


def candidates_at_loops(analysis: RunAnalysis) -> tuple[Candidate, ...]:
    """Return what differs where the bodies of loops begin at a resume, by runs that looked there.

    What differs there is nearer to the cause than what differs before the first forward call: what
    draws the data of a step, or keeps it in a queue, has acted by then. So what differs at the
    earliest moment comes first. Within an epoch an outer loop began at another moment than in the
    baseline, and what differs in it comes last.
    """
    resume = resume_of(analysis)
    steps = {
        event.loop: event.step
        for _, event in reversed([*analysis.history.of(CensusTaken)])
        if event.loop is not None and event.attempt == resume.attempt
    }
    loops = sorted(steps, reverse=any(steps.values()))
    found = (_candidates(analysis, resume, loop) for loop in loops)
    by_path: dict[str, Candidate] = {}
    for value in chain.from_iterable(found):
        by_path.setdefault(value.path, value)
    return tuple(by_path.values())


def _candidates(
    analysis: RunAnalysis, resume: AttemptRank, loop: int | None
) -> tuple[Candidate, ...]:
    attempt, rank = resume
    if attempt == 0:
        return ()
    taken = (e.rank for _, e in analysis.history.of(CensusTaken) if e.attempt == attempt)
    found: dict[str, Candidate] = {}
    for one in sorted(set(taken), key=lambda one: (one != rank, one)):
        for value in _of_rank(analysis, AttemptRank(attempt, one), loop):
            found.setdefault(value.path, value)
    return tuple(sorted(found.values(), key=_unlikely))


def _of_rank(analysis: RunAnalysis, resume: AttemptRank, loop: int | None) -> list[Candidate]:
    counterpart, (attempt, rank) = analysis.counterpart, resume
    if counterpart is None:
        return []
    theirs = _taken(counterpart, 0, rank, loop=loop)
    ours = next(iter(_taken(analysis.history, attempt, rank, loop=loop).items()), None)
    if ours is None or ours[0] not in theirs:
        return []
    place, mine = ours
    due, began = theirs[place], next(iter(theirs.values()))
    repeated = _repeated(_taken(analysis.history, 0, rank, loop=loop, until=analysis.began), theirs)
    return [
        Candidate(path, held.text, due[path].text, _is(began, held))
        for path, held in mine.items()
        if path in repeated
        and path in due
        and path not in GIVEN_BACK
        and not _is(due, held)
        and _moves(path, theirs)
    ]


def _unlikely(one: Candidate) -> tuple[bool, bool, bool]:
    # An object's attribute stays from step to step, where a variable may be set before its use.
    return not one.is_first, not (one.ours and one.due), "." not in one.path


def resumes(analysis: RunAnalysis) -> dict[int, Place]:
    """Return the place of each resume from the first on that training did not survive."""
    since = max(1, resume_of(analysis).attempt)
    found: dict[int, Place] = {}
    for _, event in analysis.history.of(CensusTaken):
        if event.attempt >= since and event.loop is None:
            found.setdefault(event.attempt, Place(event.epoch, event.step))
    return found


def first_place(analysis: RunAnalysis) -> Place | None:
    """Return the place of the baseline's first census; None without one."""
    counterpart = analysis.counterpart
    taken = () if counterpart is None else counterpart.of(CensusTaken)
    return next((Place(event.epoch, event.step) for _, event in taken), None)


def resume_of(analysis: RunAnalysis) -> AttemptRank:
    """Return the attempt whose resume is looked at, and the rank; attempt 0 if there is none."""
    first = divergence(analysis)
    if first is not None:
        return AttemptRank(first.attempt, first.rank or 0)
    resumed = (r.attempt.index for r in analysis.restarts if is_resumed(analysis, r))
    return AttemptRank(next(resumed, 0), 0)


def left_out(analysis: RunAnalysis) -> tuple[str, ...]:
    """Return the paths of what a census of the baseline did not read."""
    counterpart = analysis.counterpart
    taken = () if counterpart is None else counterpart.of(CensusTaken)
    return tuple(dict.fromkeys(path for _, event in taken for path in event.left_out))


def loops(analysis: RunAnalysis) -> tuple[LoopBody, ...]:
    """Return the loops in which the job calls its model, the outermost first."""
    counterpart = analysis.counterpart
    named = () if counterpart is None else counterpart.of(NamesGiven)
    return next((event.loops for _, event in named), ())


def in_words(found: tuple[Candidate, ...]) -> str:
    """Return the values as the end of a sentence; an empty text for none."""
    if not found:
        return ""
    more = len(found) - NAMED_MAX
    named = [*map(str, found[:NAMED_MAX])]
    named += [f"so were {plural(more, 'more value')}"] if more > 0 else []
    return f"; at the resume {', '.join(named)}"


def _taken(
    history: History, attempt: int, rank: int, *, loop: int | None, until: int | None = None
) -> dict[Place, _Values]:
    """Return the censuses of a rank in an attempt, oldest first: those of one moment."""
    found: dict[Place, _Values] = {}
    values: dict[str, Held] = {}
    for number, event in history.of(CensusTaken):
        of = (event.attempt, event.rank, event.loop)
        if of == (attempt, rank, loop) and (until is None or number < until):
            if loop is not None:
                values = {}
            gone = frozenset(event.gone)
            values = {path: held for path, held in values.items() if path not in gone}
            values |= {held.path: held for held in event.held}
            found[Place(event.epoch, event.step)] = values
    return found


def _repeated(before: _Taken, theirs: _Taken) -> frozenset[str]:
    """Return the values that are the baseline's wherever both were seen before the first fault."""
    paths = {path for values in before.values() for path in values}
    both = [(values, theirs[place]) for place, values in before.items() if place in theirs]
    return frozenset(
        path
        for path in paths
        if any(path in mine and path in due for mine, due in both)
        and all(_is(due, mine[path]) for mine, due in both if path in mine and path in due)
    )


def _is(values: _Values, held: Held) -> bool:
    return held.path in values and values[held.path].digest == held.digest


def _moves(path: str, taken: _Taken) -> bool:
    # What a loader's processes were given stays there, while it moves where they were started.
    path = path.removesuffix(IN_LOADER)
    return len({values[path].digest for values in taken.values() if path in values}) > 1
