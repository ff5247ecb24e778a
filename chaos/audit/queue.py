"""The order in which an audit injects its faults: first those that can show a defect of resuming.

A restart from scratch shows none. So the first round has one place of every group
that has places after the first commit, each in another part of training. Places
before the first commit come last.
"""

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count, zip_longest
from typing import TypeAlias

from chaos.audit.chains import LONGEST, can_share, chain_of, fitted, longest_chain
from chaos.audit.group import GROUPS, NODE_LOST, ORDERS, Group, Question
from chaos.audit.job_profile import JobProfile
from chaos.audit.place_groups import FaultPlace, PlaceKey, Unit, point_before
from chaos.audit.run_row import RunRow
from chaos.model.places import Place

PARTS = 3  # of training, from each of which a restart is to resume: early, middle, late
_PART_NAMES: Mapping[int, tuple[str, ...]] = {
    0: (),
    1: ("the only",),
    2: ("an early", "a late"),
    3: ("an early", "a middle", "a late"),
}


# The fractional part of the golden ratio: its multiples, modulo 1, fill a range evenly however soon
# one stops.
_GOLDEN = 0.6180339887498949


def evenly(count: int, *, shift: float = 0.0) -> list[int]:
    """Order the numbers below a count so that the first few of them leave no large gap.

    Multiples of the golden ratio have that property; `shift` moves their beginning.
    """
    return sorted(range(count), key=lambda n: (shift + n * _GOLDEN) % 1.0)


@dataclass(frozen=True)
class Order:
    """All places with their ops, in order."""

    #: those for an answer: of every group, with resumes from every part of training
    needed: tuple[FaultPlace, ...]
    rest: tuple[FaultPlace, ...]

    @property
    def all(self) -> tuple[FaultPlace, ...]:
        return (*self.needed, *self.rest)


def in_order(
    places: Sequence[FaultPlace],
    profile: JobProfile,
    *,
    question: Question = "spot",
    seed: int = 0,
    last: Collection[PlaceKey] = (),
) -> Order:
    """Order places for a question; the seed decides which place of a unit comes first.

    `last`: those that come after the others of their unit.
    """
    groups = (*ORDERS[question], *(g for g in GROUPS if g not in ORDERS[question]))
    parts = {place: part_of(place, profile) for place in places}
    queues, scratch = dict[Unit, list[FaultPlace]](), dict[Unit, list[FaultPlace]]()
    turns = count(random.Random(f"{seed}:order").randrange(PARTS))  # noqa: S311 (repeatable)
    by_unit: dict[Unit, list[FaultPlace]] = {}
    for place in sorted(places, key=lambda place: groups.index(place.group)):
        by_unit.setdefault(place.unit, []).append(place)
    for unit, of_unit in by_unit.items():
        mine = _spread(of_unit, seed=seed)
        mine.sort(key=lambda place: place.key in last)
        resuming = [s for s in mine if parts[s] is not None]
        if resuming:
            # A disk's content grows: an early loss of it takes less along than a late one.
            begin = -1 if unit[0] == NODE_LOST else next(turns)
            queues[unit] = _begun_in(begin, resuming, parts)
        if len(resuming) < len(mine):
            scratch[unit] = [s for s in mine if parts[s] is None]
    first = [queue.pop(0) for queue in queues.values()]
    for part in sorted({p for p in parts.values() if p is not None} - {parts[s] for s in first}):
        queue = next(q for q in queues.values() if any(parts[s] == part for s in q))
        more = next(s for s in queue if parts[s] == part)
        queue.remove(more)
        first.append(more)
    first += [queue.pop(0) for unit, queue in scratch.items() if unit not in queues]
    return Order(tuple(first), (*in_rounds(queues.values()), *in_rounds(scratch.values())))


def resumes_from(place: FaultPlace, profile: JobProfile) -> Place | None:
    """Return the last point from which a restart resumes, None if all begin anew."""
    found = [point for op in place.ops if (point := point_before(op, profile)) is not None]
    return max(found, default=None)


def part_of(place: FaultPlace, profile: JobProfile) -> int | None:
    """Return the part of training from which a restart resumes, counted from 0."""
    point = resumes_from(place, profile)
    if point is None:
        return None
    points = profile.resume_points
    return bisect_left(points, point) * parts_in(profile) // len(points)


def parts_in(profile: JobProfile) -> int:
    """Return the number of parts of training that have a checkpoint to resume from."""
    return min(PARTS, len(profile.resume_points))


def one_of_each_part(
    needed: Sequence[FaultPlace], profile: JobProfile, *, but: Collection[int | None]
) -> list[FaultPlace]:
    """Return a place for each part of training that restarts resume from, in the given order.

    Where it can be, it is one that has a run of its own anyway. `but`: parts that need none.
    """
    found: dict[int, FaultPlace] = {}
    for place in sorted(needed, key=can_share):
        part = part_of(place, profile)
        if part is not None and part not in but:
            found.setdefault(part, place)
    return [place for place in needed if place in found.values()]


def missing_parts(
    tried: Sequence[FaultPlace], profile: JobProfile, *, of: Collection[int | None]
) -> tuple[str, ...]:
    """Return the names of the checkpoints, of those parts, from which none of these resumed."""
    found = {part_of(place, profile) for place in tried}
    names = _PART_NAMES[parts_in(profile)]
    return tuple(name for n, name in enumerate(names) if n in of and n not in found)


def _begun_in(
    part: int, places: list[FaultPlace], parts: Mapping[FaultPlace, int | None]
) -> list[FaultPlace]:
    """Move to the front the first that resumes from one part of training, or from the nearest.

    Parts are counted anew after the last of them, so -1 is the last.
    """
    there = sorted({p for s in places if (p := parts[s]) is not None})
    wanted = part % (1 + there[-1])
    nearest = min(there, key=lambda p: abs(p - wanted))
    first = next(s for s in places if parts[s] == nearest)
    return [first, *(s for s in places if s is not first)]


def _spare(
    places: Sequence[FaultPlace], due: Sequence[FaultPlace], profile: JobProfile
) -> list[FaultPlace]:
    """Return the places that may stand in for those due: no node is lost in an earlier part."""
    lost = max((part_of(p, profile) or 0 for p in due if p.group == NODE_LOST), default=0)
    parts = ((place, part_of(place, profile)) for place in places)
    return [p for p, n in parts if n is not None and (p.group != NODE_LOST or n >= lost)]


def _spread(places: Sequence[FaultPlace], *, seed: int) -> list[FaultPlace]:
    """Order a group so that the first few are spread over the job; the seed shifts them."""
    if not places:
        return []
    places = sorted(places, key=lambda s: s.order)
    shift = random.Random(f"{seed}:{places[0].group}:order").random()  # noqa: S311
    return [places[n] for n in evenly(len(places), shift=shift)]


def in_rounds(queues: Iterable[Iterable[FaultPlace]]) -> Iterator[FaultPlace]:
    """Return an iterator of one place of each queue in turn."""
    turns = zip_longest(*queues)
    return (place for place in chain.from_iterable(turns) if place is not None)


# A worker that is killed within an epoch shows whether its restart goes on; one that is killed as
# it saves, whether it can.
TELLING: tuple[Group, ...] = ("mid-epoch", "inside a save")
# The tries of a group until a restart in it has resumed from a checkpoint.
TRIES = 3
# The places among which those that share a run are looked for: many enough for the longest chain.
LOOKED_AT = 1000


def latest_first(row: RunRow, places: Sequence[FaultPlace]) -> list[FaultPlace]:
    """Return the places of a run, with the one of its last fault first where it hung after that."""
    if not row.is_hung:
        return [*places]
    owners = [place for place in places for _ in place.ops]
    last = owners[min(max(row.landed, 1), len(owners)) - 1]
    return [last, *(place for place in places if place is not last)]


# A run to be made: its number, and the places that it is to answer.
Run: TypeAlias = tuple[int, tuple[FaultPlace, ...]]


@dataclass
class _Doubt:
    """A run of several places that came out wrong, and those not yet tried alone."""

    row: RunRow
    places: tuple[FaultPlace, ...]
    untried: set[FaultPlace]


@dataclass(frozen=True)
class Known:
    """The places of an earlier audit of the job, by their fate there."""

    #: tried first, those of one finding each before the others, and alone
    failed: Collection[PlaceKey] = ()
    examples: Collection[PlaceKey] = ()
    #: tried after all others
    right: Collection[PlaceKey] = ()
    #: runs of several places that were wrong, while none of their places was
    combined: Sequence[FaultPlace] = ()
    #: rows that hold still: their places are not tried again
    kept: Sequence[RunRow] = ()


NOTHING_KNOWN = Known()


@dataclass
class Queue:
    """The places that are still to be tried: those first that an answer needs, then in rounds.

    A clean run has no restart, so only a run with a fault shows which ranks load a file then. After
    the first such run the map is made anew, with all places that it had. If no restart of a group
    resumed from a checkpoint although it should have, one more place of the group is needed.

    The places of a run of several that came out wrong are tried again, each alone, and where none
    of them is wrong alone, the run is repeated.
    """

    profile: JobProfile
    #: makes the map of a job's places
    map_of: Callable[[JobProfile], Sequence[FaultPlace]]
    question: Question = "spot"
    seed: int = 0
    places: Sequence[FaultPlace] = ()
    #: the places that are not needed share runs where they can; see `chains`
    may_chain: bool = False
    #: of those that are needed, so many have a run of their own, to the end of training
    singles: int = PARTS
    known: Known = NOTHING_KNOWN
    #: the places that were tried or are under way
    taken: int = 0
    #: the runs made for them
    runs: int = 0
    _needed: list[FaultPlace] = field(default_factory=list)
    #: those that an answer needs as well, and that may share runs
    _shared: list[FaultPlace] = field(default_factory=list)
    #: the places of a run that came out wrong, to be tried one by one
    _alone: list[FaultPlace] = field(default_factory=list)
    _rest: list[FaultPlace] = field(default_factory=list)
    #: the places of an earlier audit that come first, and its runs of several places
    _examples: list[FaultPlace] = field(default_factory=list)
    _failed: list[FaultPlace] = field(default_factory=list)
    _combined: list[FaultPlace] = field(default_factory=list)
    #: of the latter, those that are right now
    mended: list[FaultPlace] = field(default_factory=list)
    #: runs of several places that came out wrong, until each place was tried alone
    _in_doubt: list[_Doubt] = field(default_factory=list)
    #: of those, the runs to be repeated, as no place was wrong alone
    _again: list[_Doubt] = field(default_factory=list)
    #: those that are being repeated, each with its first row
    _repeated: dict[tuple[FaultPlace, ...], RunRow] = field(default_factory=dict)
    #: the tried places that were wrong, by which the length of a chain is chosen
    _wrong: int = 0
    #: the places of each group in runs that are under way or over
    _begun: Counter[Group] = field(default_factory=Counter)
    #: the places of each group in runs that are over
    _over: Counter[Group] = field(default_factory=Counter)
    #: the groups in which a right run has resumed from a checkpoint
    _resumed: set[Group] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._combined = [*self.known.combined]
        loads = next((row.loads for row in self.known.kept if row.loads), ())
        self.profile = replace(self.profile, loads=loads) if loads else self.profile
        self.places = self.map_of(self.profile)
        self._arrange(taken=set())

    @property
    def is_empty(self) -> bool:
        """Whether every known place was taken, and every run to be repeated."""
        return not (self._waiting or self._alone or self._again)

    @property
    def _waiting(self) -> tuple[FaultPlace, ...]:
        """The places that were not tried yet, in order."""
        return (*self._first, *self._needed, *self._shared, *self._rest)

    @property
    def _first(self) -> tuple[FaultPlace, ...]:
        """The places that failed in an earlier audit, and were not tried yet."""
        return (*self._combined, *self._examples, *self._failed)

    @property
    def needed(self) -> int:
        """The number of runs that an answer still needs."""
        alone = (*self._combined, *self._examples, *self._needed, *self._alone)
        return len(alone) + len(self._again) + sum(map(self._runs_of, (self._failed, self._shared)))

    @property
    def places_needed(self) -> int:
        """The number of places that are still to be tried in any case."""
        first = len(self._examples) + len(self._failed)
        return first + len(self._needed) + len(self._shared) + len(self._alone)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups of the places that an answer still needs, in their order."""
        places = (*self._first, *self._needed, *self._shared)
        return tuple(dict.fromkeys(place.group for place in places))

    @property
    def is_due(self) -> bool:
        """Whether an answer needs more of the places, or a run to be repeated."""
        return self.needed > 0

    @property
    def has_doubt(self) -> bool:
        """Whether a run is to be repeated, which takes no more places."""
        return bool(self._again)

    @property
    def is_waiting(self) -> bool:
        """Whether a run under way may show that there are more places to try."""
        return self.taken > self._over.total() or bool(self._repeated)

    def begin(self, *, with_telling: bool) -> None:
        """Put in front the places that show most, if there may be no time for others.

        Each has a run of its own: one run of several may be all that there is time for.
        """
        if with_telling:
            of_group = {place.group: place for place in reversed(self._shared)}
            telling = [of_group[group] for group in TELLING if group in of_group]
            self._shared = [place for place in self._shared if place not in telling]
            self._needed = sorted(
                (*self._needed, *telling), key=lambda place: place.group not in TELLING
            )

    def take(self, most: int | None = None) -> Run:
        """Return the number of the next run, from 0, and its places: at most so many.

        With none, it is a run that is to be repeated.
        """
        number, self.runs = self.runs, self.runs + 1
        if self._again and (most == 0 or not (self._needed or self._alone)):
            doubt = self._again.pop(0)
            self._repeated[doubt.places] = doubt.row
            return number, doubt.places
        if self._combined:
            return number, (self._combined.pop(0),)
        places = self._next(LONGEST if most is None else most)
        self.taken += len(places)
        self._begun.update(place.group for place in places)
        return number, places

    def _next(self, most: int) -> tuple[FaultPlace, ...]:
        if self._examples:
            return (self._examples.pop(0),)
        if self._failed:
            return self._chained(self._failed, most)
        if self._needed or self._alone:
            return ((self._needed or self._alone).pop(0),)
        return self._chained(self._shared or self._rest, most)

    def _runs_of(self, places: Sequence[FaultPlace]) -> int:
        """Return the number of runs that places take, shared where they can be."""
        waiting, runs = [*places], 0
        while waiting:
            self._chained(waiting, LONGEST)
            runs += 1
        return runs

    def _chained(self, waiting: list[FaultPlace], most: int) -> tuple[FaultPlace, ...]:
        """Take the first of the waiting places, and those that can share a run with it."""
        first = waiting.pop(0)
        if not self.may_chain:
            return (first,)
        longest = min(most, longest_chain(wrong=self._wrong, tried=self._over.total()))
        places = chain_of(first, waiting[:LOOKED_AT], self.profile, longest=longest)
        others = set(places)
        waiting[:] = [place for place in waiting if place not in others]
        return places

    def learn(self, places: Sequence[FaultPlace], rows: Sequence[RunRow]) -> tuple[RunRow, ...]:
        """Note a run with faults; insert the places that it has shown, by their order.

        Return the rows that are known to stand by now. The row of several places in one is held
        back until each was tried alone. If one of them is wrong by itself, it is dropped;
        otherwise the run is repeated, and the row stands if it is wrong again.
        """
        # A run of several places goes through three stages, and stands in one list in each:
        #
        #   it was right         every place has its row; nothing is left to do
        #   it was wrong         `_in_doubt`, its places in `_alone`: which of them was it?
        #   none is wrong alone  `_again`, then `_repeated`: was it chance?
        #
        # Runs go side by side, so results come in any order, and of several doubts at once. What
        # only a run of several places shows is a finding if it is wrong twice.
        self._doubt_kept(places, rows)
        if places[0] in self.known.combined:
            self.mended += places if rows[0].is_right else ()
            whole = rows[0].model_copy(update={"is_combined": True})
            return () if rows[0].is_right else (whole,)
        once = self._repeated.pop(tuple(places), None)
        if once is not None:
            if not rows[0].is_wrong:
                return (once.only_once,)
            self.may_chain = False  # the next chain would show the same, and answer nothing
            return (rows[0],)
        # Fewer rows than places: the run says nothing of each. Its places count as not tried, so
        # that no group has an answer by it.
        if len(rows) < len(places):
            self._begun.subtract(place.group for place in places)
            self.taken -= len(places)
            self._alone += latest_first(rows[0], places)
            if rows[0].is_wrong:
                self._in_doubt.append(_Doubt(rows[0], tuple(places), set(places)))
            return ()
        for row in rows:
            self._note(row)
        self._resolve(rows)
        return tuple(rows)

    def put_back(self, places: Sequence[FaultPlace]) -> None:
        """Take places back that were taken, and whose run has shown nothing."""
        self.taken -= len(places)
        self._begun.subtract(place.group for place in places)
        self._rest = [*places, *self._rest]

    def left(self) -> tuple[RunRow, ...]:
        """Return the rows of several places that are still to be tried alone, or repeated."""
        doubts = (doubt.row for doubt in (*self._in_doubt, *self._again))
        return (*doubts, *self._repeated.values())

    def _resolve(self, rows: Sequence[RunRow]) -> None:
        # One place that is wrong alone explains its run, whose own row is dropped: it would be the
        # same finding at a place that is harder to read.
        for doubt in list(self._in_doubt):
            mine = [row for row in rows if row.place in doubt.untried]
            doubt.untried.difference_update(row.place for row in mine)
            is_explained = any(row.is_wrong for row in mine)
            if is_explained or not doubt.untried:
                self._in_doubt.remove(doubt)
            if not is_explained and not doubt.untried:
                self._again.append(doubt)

    def _note(self, run: RunRow) -> None:
        self._over[run.group] += 1
        self._wrong += run.is_wrong
        if run.is_right and run.resumed:
            self._resumed.add(run.group)
        if run.loads and not self.profile.loads:
            # With those to be tried again alone.
            taken = set(self.places) - {*self._waiting}
            self.profile = replace(self.profile, loads=run.loads)
            self.places = tuple(dict.fromkeys((*self.places, *self.map_of(self.profile))))
            self._arrange(taken=taken)
        self._try_again(run)

    def _arrange(self, *, taken: set[FaultPlace]) -> None:
        known, kept = self.known, {row.place.key for row in self.known.kept}
        places = [place for place in self.places if place.key not in kept]
        order = in_order(
            places, self.profile, question=self.question, seed=self.seed, last=known.right
        )
        first = [place for place in order.all if place.key in known.failed and place not in taken]
        self._examples = [place for place in first if place.key in known.examples]
        self._failed = [place for place in first if place.key not in known.examples]
        left_out = {*taken, *first}
        due = [place for place in order.needed if place not in left_out]
        tried = {part_of(place, self.profile) for place in taken}
        alone = one_of_each_part(due, self.profile, but=tried)[: self.singles]
        self._needed = alone if self.may_chain else due
        shared = [place for place in due if place not in self._needed]
        rest = [place for place in order.rest if place not in left_out]
        # Where no run is of one place alone, those that share runs are of every part of training.
        may_swap = self.may_chain and self.singles > 0
        spare = _spare(rest, shared, self.profile) if may_swap else []
        self._shared = fitted(shared, spare, self.profile)
        rest = [place for place in (*shared, *rest) if place not in self._shared]
        self._rest = sorted(rest, key=lambda place: place.key in known.right)

    def _doubt_kept(self, places: Sequence[FaultPlace], rows: Sequence[RunRow]) -> None:
        """Try again what was right in an earlier audit, if what failed there does so no more.

        Then something has changed after all that both follow from.
        """
        known = self.known
        is_mended = all(row.is_right for row in rows)
        if not (known.kept and is_mended and any(place.key in known.failed for place in places)):
            return
        kept = {row.place.key for row in known.kept}
        taken = {place for place in self.places if place.key not in kept} - {*self._waiting}
        self.known = replace(known, kept=())
        self._arrange(taken=taken)

    def _try_again(self, run: RunRow) -> None:
        """Add a place of a group to the needed ones, if its run should have resumed and did not."""
        group = run.group
        is_settled = group in self._resumed or run.status == "fail"
        if is_settled or self._begun[group] > self._over[group] or self._over[group] >= TRIES:
            return
        if resumes_from(run.place, self.profile) is None:
            return
        mine = (s for s in self._rest if s.group == group and part_of(s, self.profile) is not None)
        more = next(mine, None)
        if more is not None:
            self._rest.remove(more)
            self._needed.append(more)
