"""The fault sites of an audit in one list: which run comes next, and what its result changes.

Every site is a `Candidate` with a status. `SiteQueue.next_run` takes the first by status and order,
with those that can share its run, and `SiteQueue.learn` notes the result.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum, auto
from typing import NamedTuple

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


class Status(IntEnum):
    """The status of a fault site. Those before `RUNNING` are still to be tried, in this order."""

    #: It is the example of a finding of the earlier audit, and has a run of its own.
    EXAMPLE = auto()
    #: It failed in the earlier audit.
    FAILED = auto()
    #: An answer needs it, in a run of its own.
    NEEDED = auto()
    #: It was in a run of several sites that came out wrong: it is tried again, alone.
    SUSPECT = auto()
    #: An answer needs it, and its run may be shared.
    SHARED = auto()
    LATER = auto()
    RUNNING = auto()
    TRIED = auto()
    #: It was right in the earlier audit and must be here: it is not tried.
    UNCHANGED = auto()


# Those that were not in any run yet, which are put in a new order when more sites become known.
_UNTRIED = {Status.EXAMPLE, Status.FAILED, Status.NEEDED, Status.SHARED, Status.LATER}
_SHARING = {Status.FAILED, Status.SHARED, Status.LATER}
_TAKEN = {Status.RUNNING, Status.TRIED}


@dataclass(frozen=True)
class Candidate:
    """A fault site with its status."""

    site: FaultSite
    status: Status
    #: among those of its status
    order: int
    #: the reason for its status
    because: str
    #: the result of its run, once it was tried
    row: RunRow | None = None

    def __str__(self) -> str:
        status = f"{self.status.name.lower():9} {self.order:3}"
        return f"{status}  {self.site.group}, {self.site.name}: {self.because}"


class FaultRun(NamedTuple):
    """A run to be made: its number, and the fault sites that it is to answer."""

    number: int
    sites: tuple[FaultSite, ...]


class DoubtStage(Enum):
    """The stage of the doubt about a run of several sites that came out wrong.

    Runs go side by side, so results come in any order, and of several doubts at once. What only a
    run of several sites shows is a finding if it is wrong twice.
    """

    #: An earlier audit had it as a finding: it is made again.
    EARLIER = "wrong in the earlier audit, and none of its sites was wrong alone"
    #: Which of its sites was it?
    EACH_ALONE = "wrong, and each of its sites is tried alone"
    #: None is wrong alone. Was it chance?
    TO_REPEAT = "wrong, and none of its sites is wrong alone"
    REPEATING = "being repeated"
    SETTLED = "settled"
    #: It was a finding of the earlier audit, and is right now.
    MENDED = "wrong in the earlier audit, and right now"


@dataclass
class DoubtfulRun:
    """A run of several sites that came out wrong, and what is known of it."""

    sites: tuple[FaultSite, ...]
    stage: DoubtStage
    #: its own row; None of a run of an earlier audit
    row: RunRow | None = None

    def begin_again(self) -> None:
        self.stage = DoubtStage.REPEATING

    def give_back(self) -> None:
        """Wait again, as the run made for it has shown nothing."""
        self.stage = DoubtStage.EARLIER if self.row is None else DoubtStage.TO_REPEAT

    def learn_alone(self, rows: Sequence[RunRow | None]) -> None:
        """Note the rows of its sites, each from a run of its own; None was not tried yet.

        One that is wrong alone explains the run, whose own row is dropped: it would be the same
        finding at a site that is harder to read.
        """
        if any(row is not None and row.is_wrong for row in rows):
            self.stage = DoubtStage.SETTLED
        elif None not in rows:
            self.stage = DoubtStage.TO_REPEAT

    def settle(self, row: RunRow) -> tuple[RunRow, ...]:
        """Return the row that stands once the run was made again."""
        self.stage = DoubtStage.SETTLED
        if self.row is not None:
            return (row if row.is_wrong else self.row.inconclusive_row,)
        if row.is_right:
            self.stage = DoubtStage.MENDED
            return ()
        return (row.replace(is_combined=True),)


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

    @property
    def unchanged_keys(self) -> set[PlaceKey]:
        return {row.place.key for row in self.unchanged_rows}


NOTHING_KNOWN = EarlierSites()


def order_suspects(row: RunRow, places: Sequence[FaultSite]) -> list[FaultSite]:
    """Return the places of a run, with the one of its last fault first where it hung after that."""
    if not row.is_hung:
        return [*places]
    op_places = [place for place in places for _ in place.ops]
    last_place = op_places[min(max(row.landed, 1), len(op_places)) - 1]
    return [last_place, *(place for place in places if place is not last_place)]


@dataclass
class SiteQueue:
    """The fault sites of a job: those first that an answer needs, then the others in rounds.

    A clean run has no restart, so only a run with a fault shows which ranks load a file then. After
    the first such run the map is made anew, with all sites that it had. If no restart of a group
    resumed from a checkpoint although it should have, one more site of the group is needed.
    """

    profile: JobProfile
    #: makes the map of a job's fault sites
    build_map: Callable[[JobProfile], Sequence[FaultSite]]
    question: Question = "spot"
    seed: int = 0
    #: the sites that are not needed share runs where they can; see `chains`
    may_chain: bool = False
    #: of those that are needed, so many have a run of their own, to the end of training
    single_count: int = PARTS
    earlier_sites: EarlierSites = NOTHING_KNOWN
    #: the number of runs that were begun
    run_count: int = 0
    candidates: dict[FaultSite, Candidate] = field(default_factory=dict, init=False)
    doubts: list[DoubtfulRun] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        combined_sites = self.earlier_sites.combined
        self.doubts = [DoubtfulRun((site,), DoubtStage.EARLIER) for site in combined_sites]
        loads = next((row.loads for row in self.earlier_sites.unchanged_rows if row.loads), ())
        self.profile = replace(self.profile, loading_ranks=loads) if loads else self.profile
        self._add_sites()

    def __str__(self) -> str:
        """Return a table of all candidates and doubts, those first that are tried first."""
        candidates = sorted(self.candidates.values(), key=lambda c: (c.status, c.order))
        doubts = [f"doubt: {len(d.sites)} sites in a run, {d.stage.value}" for d in self.doubts]
        return "\n".join([*map(str, candidates), *doubts])

    # -- counts ----------------------------------------------------------------------------

    @property
    def sites(self) -> tuple[FaultSite, ...]:
        """All known sites of the job, those included that are not tried."""
        return tuple(self.candidates)

    @property
    def is_empty(self) -> bool:
        """Whether every known site was taken, and every run to be repeated."""
        return not self._count(*_UNTRIED, Status.SUSPECT) and not self._waiting_doubts

    @property
    def is_waiting(self) -> bool:
        """Whether a run under way may show that there are more sites to try."""
        is_repeating = any(doubt.stage is DoubtStage.REPEATING for doubt in self.doubts)
        return self._count(Status.RUNNING) > 0 or is_repeating

    @property
    def taken_count(self) -> int:
        """The number of sites that were tried or are under way."""
        return self._count(*_TAKEN)

    @property
    def needed_run_count(self) -> int:
        """The number of runs that an answer still needs."""
        single_count = self._count(Status.EXAMPLE, Status.NEEDED, Status.SUSPECT)
        shared_count = self._count_runs(Status.FAILED) + self._count_runs(Status.SHARED)
        return single_count + shared_count + len(self._waiting_doubts)

    @property
    def needed_site_count(self) -> int:
        """The number of sites that are still to be tried in any case."""
        return self._count(*_UNTRIED - {Status.LATER}, Status.SUSPECT)

    @property
    def groups(self) -> tuple[SiteCategory, ...]:
        """The groups of the sites that an answer still needs, in their order."""
        doubt_sites = [
            site
            for doubt in self.doubts
            if doubt.stage is DoubtStage.EARLIER
            for site in doubt.sites
        ]
        sites = (*doubt_sites, *self._list_sites(*_UNTRIED - {Status.LATER}))
        return tuple(dict.fromkeys(site.group for site in sites))

    @property
    def has_needed_runs(self) -> bool:
        """Whether an answer needs more of the sites, or a run to be repeated."""
        return self.needed_run_count > 0

    @property
    def has_doubt(self) -> bool:
        """Whether a run is to be repeated, which takes no more sites."""
        return any(doubt.stage is DoubtStage.TO_REPEAT for doubt in self.doubts)

    @property
    def mended_sites(self) -> tuple[FaultSite, ...]:
        """The runs of several sites of the earlier audit that are right now."""
        doubts = (doubt for doubt in self.doubts if doubt.stage is DoubtStage.MENDED)
        return tuple(site for doubt in doubts for site in doubt.sites)

    @property
    def _waiting_doubts(self) -> list[DoubtfulRun]:
        waiting_stages = (DoubtStage.EARLIER, DoubtStage.TO_REPEAT)
        return [doubt for doubt in self.doubts if doubt.stage in waiting_stages]

    def _count(self, *statuses: Status) -> int:
        return sum(candidate.status in statuses for candidate in self.candidates.values())

    def _count_runs(self, status: Status) -> int:
        """Return the number of runs that sites of a status take, shared where they can be."""
        waiting, runs = self._list_sites(status), 0
        while waiting:
            chain = {*self._build_chain(waiting, LONGEST)}
            waiting = [site for site in waiting if site not in chain]
            runs += 1
        return runs

    def _list_sites(self, *statuses: Status) -> list[FaultSite]:
        """Return the sites of these statuses, in the order in which they are tried."""
        candidates = (c for c in self.candidates.values() if c.status in statuses)
        return [c.site for c in sorted(candidates, key=lambda c: (c.status, c.order))]

    # -- the next run ----------------------------------------------------------------------

    def begin(self, *, is_short_of_time: bool) -> None:
        """Put in front the sites that show most, if there may be no time for others.

        Each has a run of its own: one run of several may be all that there is time for.
        """
        if is_short_of_time:
            shared_sites = self._list_sites(Status.SHARED)
            site_by_group = {site.group: site for site in reversed(shared_sites)}
            revealing_sites = [
                site_by_group[group] for group in REVEALING_GROUPS if group in site_by_group
            ]
            needed_sites = [*self._list_sites(Status.NEEDED), *revealing_sites]
            needed_sites.sort(key=lambda site: site.group not in REVEALING_GROUPS)
            self._assign(Status.NEEDED, needed_sites, "needed, and there may be no time for others")

    def next_run(self, site_limit: int | None = None) -> FaultRun:
        """Return the next run, of so many sites at most; with none, one that is to be repeated."""
        number, self.run_count = self.run_count, self.run_count + 1
        doubt = self._find_next_doubt(site_limit)
        if doubt is not None:
            doubt.begin_again()
            return FaultRun(number, doubt.sites)
        waiting = self._list_sites(*_UNTRIED, Status.SUSPECT)
        status = self.candidates[waiting[0]].status
        sites: tuple[FaultSite, ...] = (waiting[0],)
        if status in _SHARING:
            sites = self._build_chain(
                self._list_sites(status), LONGEST if site_limit is None else site_limit
            )
        self._assign(Status.RUNNING, sites, f"in run {number}")
        return FaultRun(number, sites)

    def _find_next_doubt(self, site_limit: int | None) -> DoubtfulRun | None:
        """Return the run that is to be made again before any site is tried."""
        repeats_first = site_limit == 0 or not self._count(Status.NEEDED, Status.SUSPECT)
        stages = [DoubtStage.TO_REPEAT] if repeats_first else []
        for stage in (*stages, DoubtStage.EARLIER):
            for doubt in self.doubts:
                if doubt.stage is stage:
                    return doubt
        return None

    def _build_chain(self, waiting: Sequence[FaultSite], site_limit: int) -> tuple[FaultSite, ...]:
        """Return the first of the waiting sites, and those that can share a run with it."""
        first_site, *other_sites = waiting[: CHAIN_CANDIDATES_MAX + 1]
        if not self.may_chain:
            return (first_site,)
        tried_rows = [c.row for c in self.candidates.values() if c.row is not None]
        wrong_count = sum(row.is_wrong for row in tried_rows)
        longest = min(site_limit, longest_chain(wrong=wrong_count, tried=len(tried_rows)))
        return build_chain(first_site, other_sites, self.profile, longest=longest)

    # -- the results -----------------------------------------------------------------------

    def learn(self, sites: Sequence[FaultSite], rows: Sequence[RunRow]) -> tuple[RunRow, ...]:
        """Note the result of a run; return the rows that are known to stand by now.

        The row of several sites in one is held back until each was tried alone. If one of them is
        wrong by itself, it is dropped; otherwise the run is repeated, and the row stands if it is
        wrong again.
        """
        self._release_unchanged(sites, rows)
        if (doubt := self._find_repeated(sites)) is not None:
            if doubt.row is not None and rows[0].is_wrong:
                self.may_chain = False  # the next chain would show the same, and answer nothing
            return doubt.settle(rows[0])
        # Fewer rows than sites: the run says nothing of each. They count as not tried, so
        # that no group has an answer by it.
        if len(rows) < len(sites):
            row = rows[0]
            self._append(
                Status.SUSPECT, order_suspects(row, sites), f"run {row.number}: {row.status}"
            )
            if row.is_wrong:
                self.doubts.append(DoubtfulRun(tuple(sites), DoubtStage.EACH_ALONE, row))
            return ()
        for site, row in zip(sites, rows, strict=True):
            self._record_row(site, row)
        self._resolve_doubts()
        return tuple(rows)

    def return_sites(self, sites: Sequence[FaultSite]) -> None:
        """Take sites back that were taken, and whose run has shown nothing."""
        if (doubt := self._find_repeated(sites)) is not None:
            doubt.give_back()
            return
        later_sites = [*sites, *self._list_sites(Status.LATER)]
        self._assign(Status.LATER, later_sites, "not needed for an answer")

    def list_unsettled(self) -> tuple[RunRow, ...]:
        """Return the rows of several sites that are still to be tried alone, or repeated."""
        settled_stages = (DoubtStage.SETTLED, DoubtStage.MENDED)
        open_doubts = (doubt for doubt in self.doubts if doubt.stage not in settled_stages)
        return tuple(doubt.row for doubt in open_doubts if doubt.row is not None)

    def _find_repeated(self, sites: Sequence[FaultSite]) -> DoubtfulRun | None:
        """Return the run of several sites that is being repeated with these."""
        repeated_runs = (d for d in self.doubts if d.stage is DoubtStage.REPEATING)
        return next((doubt for doubt in repeated_runs if doubt.sites == tuple(sites)), None)

    def _resolve_doubts(self) -> None:
        for doubt in [doubt for doubt in self.doubts if doubt.stage is DoubtStage.EACH_ALONE]:
            doubt.learn_alone([self.candidates[site].row for site in doubt.sites])
            if doubt.stage is DoubtStage.TO_REPEAT:  # in the order in which this is known
                self.doubts.remove(doubt)
                self.doubts.append(doubt)

    def _record_row(self, site: FaultSite, row: RunRow) -> None:
        self.candidates[site] = Candidate(site, Status.TRIED, row.number, row.headline, row)
        if row.loads and not self.profile.loading_ranks:
            self.profile = replace(self.profile, loading_ranks=row.loads)
            self._add_sites()
        self._add_retry(row)

    def _add_retry(self, row: RunRow) -> None:
        """Add a site of a group to the needed ones, if its run should have resumed and did not."""
        group = [c for site, c in self.candidates.items() if site.group == row.group]
        rows = [c.row for c in group if c.row is not None]
        has_resumed = any(row.is_right and row.resumed for row in rows)
        is_running = any(c.status is Status.RUNNING for c in group)
        if has_resumed or row.status == "fail" or is_running or len(rows) >= TRIES:
            return
        if find_last_resume_point(row.place, self.profile) is None:
            return
        resuming_site = next(
            (
                site
                for site in self._list_sites(Status.LATER)
                if site.group == row.group and find_part(site, self.profile) is not None
            ),
            None,
        )
        if resuming_site is not None:
            self._append(Status.NEEDED, [resuming_site], "no restart of its group has resumed")

    # -- the order -------------------------------------------------------------------------

    def _assign(
        self, status: Status, sites: Iterable[FaultSite], because: str, *, first_order: int = 0
    ) -> None:
        for order, site in enumerate(sites, first_order):
            self.candidates[site] = Candidate(site, status, order, because)

    def _append(self, status: Status, sites: Iterable[FaultSite], because: str) -> None:
        """Assign a status to sites that come after all others of it."""
        orders = [c.order for c in self.candidates.values() if c.status is status]
        self._assign(status, sites, because, first_order=1 + max(orders, default=-1))

    def _add_sites(self) -> None:
        """Add the sites of the map that are not known yet, and order all untried ones anew."""
        unchanged_keys = self.earlier_sites.unchanged_keys
        new_sites = [site for site in self.build_map(self.profile) if site not in self.candidates]
        unchanged_sites = [site for site in new_sites if site.key in unchanged_keys]
        self._assign(Status.LATER, new_sites, "new")
        self._assign(Status.UNCHANGED, unchanged_sites, "right in the earlier audit, and still so")
        self._order_untried()

    def _release_unchanged(self, sites: Sequence[FaultSite], rows: Sequence[RunRow]) -> None:
        """Try again what was right in an earlier audit, if what failed there does so no more.

        Then something has changed after all that both follow from.
        """
        earlier_sites = self.earlier_sites
        has_failed_site = any(site.key in earlier_sites.failed for site in sites)
        is_mended = has_failed_site and all(row.is_right for row in rows)
        if earlier_sites.unchanged_rows and is_mended:
            self.earlier_sites = replace(earlier_sites, unchanged_rows=())
            self._assign(
                Status.LATER, self._list_sites(Status.UNCHANGED), "right in the earlier audit"
            )
            self._order_untried()

    def _order_untried(self) -> None:
        """Assign a status and an order to every site that was in no run."""
        earlier_sites = self.earlier_sites
        taken_sites = {c.site for c in self.candidates.values() if c.status not in _UNTRIED}
        order = order_places(
            [c.site for c in self.candidates.values() if c.status is not Status.UNCHANGED],
            self.profile,
            question=self.question,
            seed=self.seed,
            late_keys=earlier_sites.right,
        )
        failed_sites = [
            site
            for site in order.all_places
            if site.key in earlier_sites.failed and site not in taken_sites
        ]
        example_sites = [site for site in failed_sites if site.key in earlier_sites.examples]
        left_out = {*taken_sites, *failed_sites}
        needed_sites = [site for site in order.needed if site not in left_out]
        later_sites = [site for site in order.later if site not in left_out]
        shared_sites = list[FaultSite]()
        if self.may_chain:
            single_sites = self._select_single_sites(needed_sites)
            shared_sites = [site for site in needed_sites if site not in single_sites]
            needed_sites = single_sites
            # Without runs of one site alone, those that share runs are of every part of training.
            spare_sites = (
                find_spares(later_sites, shared_sites, self.profile) if self.single_count else []
            )
            chained_sites = order_chains(shared_sites, spare_sites, self.profile)
            later_sites = [
                site for site in (*shared_sites, *later_sites) if site not in chained_sites
            ]
            shared_sites = chained_sites
        later_sites.sort(key=lambda site: site.key in earlier_sites.right)
        self._assign(Status.FAILED, failed_sites, "failed in the earlier audit")
        self._assign(Status.EXAMPLE, example_sites, "a finding of the earlier audit")
        self._assign(Status.NEEDED, needed_sites, "an answer needs it")
        self._assign(Status.SHARED, shared_sites, "an answer needs it")
        self._assign(Status.LATER, later_sites, "not needed for an answer")

    def _select_single_sites(self, needed_sites: Sequence[FaultSite]) -> list[FaultSite]:
        """Return the needed sites that have a run of their own: from each part of training one."""
        seen_statuses = {Status.SUSPECT, *_TAKEN}
        taken_sites = self._list_sites(*seen_statuses)
        tried_parts = {find_part(site, self.profile) for site in taken_sites}
        return select_part_places(needed_sites, self.profile, excluded_parts=tried_parts)[
            : self.single_count
        ]
