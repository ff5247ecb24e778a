"""The fault sites that are still to be tried: those first that an answer needs, then in rounds."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from chaos.audit.chains import LONGEST, build_chain, longest_chain, order_chains
from chaos.audit.job_profile import JobProfile
from chaos.audit.run_row import RunRow
from chaos.audit.site_category import Question, SiteCategory
from chaos.audit.site_groups import FaultSite, PlaceKey
from chaos.audit.site_order import (
    PARTS,
    find_last_resume_point,
    find_part,
    find_spares,
    order_places,
    select_part_places,
)

# A worker that is killed within an epoch shows whether its restart goes on; one that is killed as
# it saves, whether it can.
REVEALING_GROUPS: tuple[SiteCategory, ...] = ("mid-epoch", "inside a save")
# The tries of a group until a restart in it has resumed from a checkpoint.
TRIES = 3
# The places among which those that share a run are looked for: many enough for the longest chain.
CHAIN_CANDIDATES_MAX = 1000


def order_suspects(row: RunRow, places: Sequence[FaultSite]) -> list[FaultSite]:
    """Return the places of a run, with the one of its last fault first where it hung after that."""
    if not row.is_hung:
        return [*places]
    op_places = [place for place in places for _ in place.ops]
    last_place = op_places[min(max(row.landed, 1), len(op_places)) - 1]
    return [last_place, *(place for place in places if place is not last_place)]


# A run to be made: its number, and the places that it is to answer.
Run: TypeAlias = tuple[int, tuple[FaultSite, ...]]


@dataclass
class _DoubtfulRun:
    """A run of several places that came out wrong, and those not yet tried alone."""

    row: RunRow
    places: tuple[FaultSite, ...]
    untried: set[FaultSite]


@dataclass(frozen=True)
class EarlierSites:
    """The places of an earlier audit of the job, by their fate there."""

    #: tried first, those of one finding each before the others, and alone
    failed: Collection[PlaceKey] = ()
    examples: Collection[PlaceKey] = ()
    #: tried after all others
    right: Collection[PlaceKey] = ()
    #: runs of several places that were wrong, while none of their places was
    combined: Sequence[FaultSite] = ()
    #: rows that hold still: their places are not tried again
    unchanged_rows: Sequence[RunRow] = ()


NOTHING_KNOWN = EarlierSites()


@dataclass
class SiteQueue:
    """The places that are still to be tried: those first that an answer needs, then in rounds.

    A clean run has no restart, so only a run with a fault shows which ranks load a file then. After
    the first such run the map is made anew, with all places that it had. If no restart of a group
    resumed from a checkpoint although it should have, one more place of the group is needed.

    The places of a run of several that came out wrong are tried again, each alone, and where none
    of them is wrong alone, the run is repeated.
    """

    profile: JobProfile
    #: makes the map of a job's places
    build_map: Callable[[JobProfile], Sequence[FaultSite]]
    question: Question = "spot"
    seed: int = 0
    places: Sequence[FaultSite] = ()
    #: the places that are not needed share runs where they can; see `chains`
    may_chain: bool = False
    #: of those that are needed, so many have a run of their own, to the end of training
    single_count: int = PARTS
    earlier_places: EarlierSites = NOTHING_KNOWN
    #: the places that were tried or are under way
    taken_count: int = 0
    #: the runs made for them
    run_count: int = 0
    _needed_places: list[FaultSite] = field(default_factory=list)
    #: those that an answer needs as well, and that may share runs
    _shared_places: list[FaultSite] = field(default_factory=list)
    #: the places of a run that came out wrong, to be tried one by one
    _single_places: list[FaultSite] = field(default_factory=list)
    _later_places: list[FaultSite] = field(default_factory=list)
    #: the places of an earlier audit that come first, and its runs of several places
    _example_places: list[FaultSite] = field(default_factory=list)
    _failed_places: list[FaultSite] = field(default_factory=list)
    _combined_places: list[FaultSite] = field(default_factory=list)
    #: of the latter, those that are right now
    mended_places: list[FaultSite] = field(default_factory=list)
    #: runs of several places that came out wrong, until each place was tried alone
    _doubtful_runs: list[_DoubtfulRun] = field(default_factory=list)
    #: of those, the runs to be repeated, as no place was wrong alone
    _runs_to_repeat: list[_DoubtfulRun] = field(default_factory=list)
    #: those that are being repeated, each with its first row
    _repeated_rows: dict[tuple[FaultSite, ...], RunRow] = field(default_factory=dict)
    #: the tried places that were wrong, by which the length of a chain is chosen
    _wrong_count: int = 0
    #: the places of each group in runs that are under way or over
    _begun_counts: Counter[SiteCategory] = field(default_factory=Counter)
    #: the places of each group in runs that are over
    _finished_counts: Counter[SiteCategory] = field(default_factory=Counter)
    #: the groups in which a right run has resumed from a checkpoint
    _resumed_groups: set[SiteCategory] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._combined_places = [*self.earlier_places.combined]
        loads = next((row.loads for row in self.earlier_places.unchanged_rows if row.loads), ())
        self.profile = replace(self.profile, loading_ranks=loads) if loads else self.profile
        self.places = self.build_map(self.profile)
        self._arrange_places(taken_places=set())

    @property
    def is_empty(self) -> bool:
        """Whether every known place was taken, and every run to be repeated."""
        return not (self._waiting_places or self._single_places or self._runs_to_repeat)

    @property
    def _waiting_places(self) -> tuple[FaultSite, ...]:
        """The places that were not tried yet, in order."""
        return (
            *self._earlier_failures,
            *self._needed_places,
            *self._shared_places,
            *self._later_places,
        )

    @property
    def _earlier_failures(self) -> tuple[FaultSite, ...]:
        """The places that failed in an earlier audit, and were not tried yet."""
        return (*self._combined_places, *self._example_places, *self._failed_places)

    @property
    def needed_run_count(self) -> int:
        """The number of runs that an answer still needs."""
        single_places = (
            *self._combined_places,
            *self._example_places,
            *self._needed_places,
            *self._single_places,
        )
        return (
            len(single_places)
            + len(self._runs_to_repeat)
            + sum(map(self._count_runs, (self._failed_places, self._shared_places)))
        )

    @property
    def needed_place_count(self) -> int:
        """The number of places that are still to be tried in any case."""
        failed_count = len(self._example_places) + len(self._failed_places)
        return (
            failed_count
            + len(self._needed_places)
            + len(self._shared_places)
            + len(self._single_places)
        )

    @property
    def groups(self) -> tuple[SiteCategory, ...]:
        """The groups of the places that an answer still needs, in their order."""
        places = (*self._earlier_failures, *self._needed_places, *self._shared_places)
        return tuple(dict.fromkeys(place.group for place in places))

    @property
    def has_needed_runs(self) -> bool:
        """Whether an answer needs more of the places, or a run to be repeated."""
        return self.needed_run_count > 0

    @property
    def has_doubt(self) -> bool:
        """Whether a run is to be repeated, which takes no more places."""
        return bool(self._runs_to_repeat)

    @property
    def is_waiting(self) -> bool:
        """Whether a run under way may show that there are more places to try."""
        return self.taken_count > self._finished_counts.total() or bool(self._repeated_rows)

    def begin(self, *, is_short_of_time: bool) -> None:
        """Put in front the places that show most, if there may be no time for others.

        Each has a run of its own: one run of several may be all that there is time for.
        """
        if is_short_of_time:
            place_by_group = {place.group: place for place in reversed(self._shared_places)}
            revealing_places = [
                place_by_group[group] for group in REVEALING_GROUPS if group in place_by_group
            ]
            self._shared_places = [
                place for place in self._shared_places if place not in revealing_places
            ]
            self._needed_places = sorted(
                (*self._needed_places, *revealing_places),
                key=lambda place: place.group not in REVEALING_GROUPS,
            )

    def take(self, place_limit: int | None = None) -> Run:
        """Return the number of the next run, from 0, and its places: at most so many.

        With none, it is a run that is to be repeated.
        """
        number, self.run_count = self.run_count, self.run_count + 1
        if self._runs_to_repeat and (
            place_limit == 0 or not (self._needed_places or self._single_places)
        ):
            doubt = self._runs_to_repeat.pop(0)
            self._repeated_rows[doubt.places] = doubt.row
            return number, doubt.places
        if self._combined_places:
            return number, (self._combined_places.pop(0),)
        places = self._take_places(LONGEST if place_limit is None else place_limit)
        self.taken_count += len(places)
        self._begun_counts.update(place.group for place in places)
        return number, places

    def _take_places(self, place_limit: int) -> tuple[FaultSite, ...]:
        if self._example_places:
            return (self._example_places.pop(0),)
        if self._failed_places:
            return self._take_chain(self._failed_places, place_limit)
        if self._needed_places or self._single_places:
            return ((self._needed_places or self._single_places).pop(0),)
        return self._take_chain(self._shared_places or self._later_places, place_limit)

    def _count_runs(self, places: Sequence[FaultSite]) -> int:
        """Return the number of runs that places take, shared where they can be."""
        waiting, runs = [*places], 0
        while waiting:
            self._take_chain(waiting, LONGEST)
            runs += 1
        return runs

    def _take_chain(self, waiting: list[FaultSite], place_limit: int) -> tuple[FaultSite, ...]:
        """Take the first of the waiting places, and those that can share a run with it."""
        first_place = waiting.pop(0)
        if not self.may_chain:
            return (first_place,)
        longest = min(
            place_limit, longest_chain(wrong=self._wrong_count, tried=self._finished_counts.total())
        )
        places = build_chain(
            first_place, waiting[:CHAIN_CANDIDATES_MAX], self.profile, longest=longest
        )
        chained_places = set(places)
        waiting[:] = [place for place in waiting if place not in chained_places]
        return places

    def record_rows(
        self, places: Sequence[FaultSite], rows: Sequence[RunRow]
    ) -> tuple[RunRow, ...]:
        """Note a run with faults; insert the places that it has shown, by their order.

        Return the rows that are known to stand by now. The row of several places in one is held
        back until each was tried alone. If one of them is wrong by itself, it is dropped;
        otherwise the run is repeated, and the row stands if it is wrong again.
        """
        # A run of several places goes through three stages, and stands in one list in each:
        #
        #   it was right         every place has its row; nothing is left to do
        #   it was wrong         `_doubtful_runs`, its places in `_single_places`: which was it?
        #   none is wrong alone  `_runs_to_repeat`, then `_repeated_rows`: was it chance?
        #
        # Runs go side by side, so results come in any order, and of several doubts at once. What
        # only a run of several places shows is a finding if it is wrong twice.
        self._retry_unchanged(places, rows)
        if places[0] in self.earlier_places.combined:
            self.mended_places += places if rows[0].is_right else ()
            combined_row = rows[0].replace(is_combined=True)
            return () if rows[0].is_right else (combined_row,)
        first_row = self._repeated_rows.pop(tuple(places), None)
        if first_row is not None:
            if not rows[0].is_wrong:
                return (first_row.inconclusive_row,)
            self.may_chain = False  # the next chain would show the same, and answer nothing
            return (rows[0],)
        # Fewer rows than places: the run says nothing of each. Its places count as not tried, so
        # that no group has an answer by it.
        if len(rows) < len(places):
            self._begun_counts.subtract(place.group for place in places)
            self.taken_count -= len(places)
            self._single_places += order_suspects(rows[0], places)
            if rows[0].is_wrong:
                self._doubtful_runs.append(_DoubtfulRun(rows[0], tuple(places), set(places)))
            return ()
        for row in rows:
            self._record_row(row)
        self._resolve_doubts(rows)
        return tuple(rows)

    def return_places(self, places: Sequence[FaultSite]) -> None:
        """Take places back that were taken, and whose run has shown nothing."""
        self.taken_count -= len(places)
        self._begun_counts.subtract(place.group for place in places)
        self._later_places = [*places, *self._later_places]

    def list_unsettled(self) -> tuple[RunRow, ...]:
        """Return the rows of several places that are still to be tried alone, or repeated."""
        doubts = (doubt.row for doubt in (*self._doubtful_runs, *self._runs_to_repeat))
        return (*doubts, *self._repeated_rows.values())

    def _resolve_doubts(self, rows: Sequence[RunRow]) -> None:
        # One place that is wrong alone explains its run, whose own row is dropped: it would be the
        # same finding at a place that is harder to read.
        for doubt in list(self._doubtful_runs):
            doubt_rows = [row for row in rows if row.place in doubt.untried]
            doubt.untried.difference_update(row.place for row in doubt_rows)
            is_explained = any(row.is_wrong for row in doubt_rows)
            if is_explained or not doubt.untried:
                self._doubtful_runs.remove(doubt)
            if not is_explained and not doubt.untried:
                self._runs_to_repeat.append(doubt)

    def _record_row(self, run: RunRow) -> None:
        self._finished_counts[run.group] += 1
        self._wrong_count += run.is_wrong
        if run.is_right and run.resumed:
            self._resumed_groups.add(run.group)
        if run.loads and not self.profile.loading_ranks:
            # With those to be tried again alone.
            taken_places = set(self.places) - {*self._waiting_places}
            self.profile = replace(self.profile, loading_ranks=run.loads)
            self.places = tuple(dict.fromkeys((*self.places, *self.build_map(self.profile))))
            self._arrange_places(taken_places=taken_places)
        self._add_retry(run)

    def _arrange_places(self, *, taken_places: set[FaultSite]) -> None:
        earlier_places, unchanged_keys = (
            self.earlier_places,
            {row.place.key for row in self.earlier_places.unchanged_rows},
        )
        places = [place for place in self.places if place.key not in unchanged_keys]
        order = order_places(
            places,
            self.profile,
            question=self.question,
            seed=self.seed,
            late_keys=earlier_places.right,
        )
        failed_places = [
            place
            for place in order.all_places
            if place.key in earlier_places.failed and place not in taken_places
        ]
        self._example_places = [
            place for place in failed_places if place.key in earlier_places.examples
        ]
        self._failed_places = [
            place for place in failed_places if place.key not in earlier_places.examples
        ]
        left_out = {*taken_places, *failed_places}
        needed_places = [place for place in order.needed if place not in left_out]
        tried_parts = {find_part(place, self.profile) for place in taken_places}
        single_places = select_part_places(needed_places, self.profile, excluded_parts=tried_parts)[
            : self.single_count
        ]
        self._needed_places = single_places if self.may_chain else needed_places
        shared_places = [place for place in needed_places if place not in self._needed_places]
        later_places = [place for place in order.later if place not in left_out]
        # Where no run is of one place alone, those that share runs are of every part of training.
        may_swap = self.may_chain and self.single_count > 0
        spare_places = find_spares(later_places, shared_places, self.profile) if may_swap else []
        self._shared_places = order_chains(shared_places, spare_places, self.profile)
        later_places = [
            place for place in (*shared_places, *later_places) if place not in self._shared_places
        ]
        self._later_places = sorted(
            later_places, key=lambda place: place.key in earlier_places.right
        )

    def _retry_unchanged(self, places: Sequence[FaultSite], rows: Sequence[RunRow]) -> None:
        """Try again what was right in an earlier audit, if what failed there does so no more.

        Then something has changed after all that both follow from.
        """
        earlier_places = self.earlier_places
        is_mended = all(row.is_right for row in rows)
        if not (
            earlier_places.unchanged_rows
            and is_mended
            and any(place.key in earlier_places.failed for place in places)
        ):
            return
        unchanged_keys = {row.place.key for row in earlier_places.unchanged_rows}
        taken_places = {place for place in self.places if place.key not in unchanged_keys} - {
            *self._waiting_places
        }
        self.earlier_places = replace(earlier_places, unchanged_rows=())
        self._arrange_places(taken_places=taken_places)

    def _add_retry(self, run: RunRow) -> None:
        """Add a place of a group to the needed ones, if its run should have resumed and did not."""
        group = run.group
        is_settled = group in self._resumed_groups or run.status == "fail"
        if (
            is_settled
            or self._begun_counts[group] > self._finished_counts[group]
            or self._finished_counts[group] >= TRIES
        ):
            return
        if find_last_resume_point(run.place, self.profile) is None:
            return
        candidates = (
            s
            for s in self._later_places
            if s.group == group and find_part(s, self.profile) is not None
        )
        next_place = next(candidates, None)
        if next_place is not None:
            self._later_places.remove(next_place)
            self._needed_places.append(next_place)
