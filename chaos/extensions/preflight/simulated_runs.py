"""The state of many runs of some jobs on one pool, and the effect of a change of the pool.

Ray Train 2.60, as it is modelled here:

    training --loss--> detected, torn down  --> placed, started --> restored --> training
                              ^                        |                |
                              +--- a loss: a failed start of the        +--- a loss: as in training
                                   controller, charged to its budget

With too few nodes a job waits in between; an elastic one asks for all of them first.

A start of torchrun's command may have a time limit (Slurm's --time). It ends there, wherever it
is, and the job begins again only if it is queued again for that.
"""

from collections.abc import Sequence
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from chaos.extensions.preflight.capacity import Counts, Flags, Floats
from chaos.extensions.preflight.question import Question
from chaos.extensions.preflight.saving import (
    TINY,
    JobTerms,
    count_commits,
    count_finished_steps,
    find_remaining_s,
    list_terms,
    rescue,
    signal_s,
)

Rows: TypeAlias = NDArray[np.intp]
_Kind = TypeVar("_Kind", bound=np.generic)
# One 64-bit number of luck per run and change is cut into four shares of 16 bits each.
_PARTS, _BITS = 65_536, 16


class SimulatedRuns:
    """Vectors over the runs of each question, one question after another.

    The pools lie one after another, too; `pool_of` is the pool of each question.

    `ready_s`: the time at which training begins or began; infinite while waiting. `free_s`:
    the time at which the old group is gone. `used` nodes are the job's; `work_s` is committed
    work. Uncommitted work is not kept: at an attempt's end it is computed from the time since
    `ready_s`. `limit_s`: the time of a run's next event without a change of the pool.
    With `spares_starts` a loss before `ready_s` takes no node of the job.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        up: Counts,
        horizons_s: Sequence[float],
        *,
        pool_of: Sequence[int] | None = None,
        spares_starts: bool = False,
    ) -> None:
        pools = np.asarray(pool_of or [0] * len(questions))
        self._runs, self._spares_starts = len(up) // (int(pools.max()) + 1), spares_starts
        self._column = (pools[:, None] * self._runs + np.arange(self._runs)).reshape(-1)
        self._is_alone = len(questions) == 1
        self._question = np.arange(len(questions)).repeat(self._runs)
        table = np.array([list_terms(question) for question in questions], dtype=float).T
        # Terms that all questions share stay single numbers: spread over all rows, they cost time
        # at each change of the pool.
        self._varied = np.flatnonzero((table != table[:, :1]).any(axis=1))
        self._varying, self._shared_terms = table[self._varied], JobTerms(*table[:, :1])
        all_terms = JobTerms(*table)
        self._min_nodes = np.repeat(all_terms.min_nodes, self._runs)
        self._is_elastic = bool(all_terms.is_elastic.any())
        self._is_bounded, self._is_limited = (
            bool(np.isfinite(term).any()) for term in (all_terms.max_tries, all_terms.start_limit_s)
        )
        n = self.going = len(questions) * self._runs
        self._horizon_s = np.repeat(np.asarray(horizons_s, dtype=float), self._runs)
        self._up, self._passed_s, self._held_s = up.copy(), np.zeros(len(up)), np.zeros(len(up))
        self._has_group, self._waits, self._has_start = np.zeros((3, n), dtype=np.bool_)
        self.finished, self.spent, self.timed_out = np.zeros((3, n), dtype=np.bool_)
        self.failures, self.preemptions, self.start_failures = np.zeros((3, n), dtype=np.int64)
        self.requeues, self.restarts, self.noticed, self.rescued, self.used = np.zeros(
            (5, n), dtype=np.int64
        )
        self.end_s, self.work_s, self.useful_s, self.save_s = np.zeros((4, n))
        self.lost_s, self.restart_s, self.wait_s, self.node_s = np.zeros((4, n))
        self.lost_steps, self._tries, self.ready_s, self.free_s = np.zeros((4, n))
        self._since_s, self._done_s, self._gives_up_s = np.zeros((3, n))
        self._grows_s, self.limit_s, self._timeout_s, self._start_ends_s = np.full((4, n), np.inf)
        self._begin_attempt(np.arange(n), np.zeros(n), self._select_terms(np.arange(n)))

    # -- between two changes of the pool ---------------------------------------------------------

    def advance(self, now_s: Floats) -> None:
        """Advance every run to `now_s`: ends, growth, giving up."""
        run_now_s = self._spread_pools(now_s)
        while True:
            rows = _rows(self.limit_s <= run_now_s)
            if not len(rows):
                break
            # A run may have several such events before the pool changes: it grows, and then ends.
            # So the rows are asked again until none is due. Of events at one moment the end comes
            # first: a job that is done does not give up.
            at_s = self.limit_s[rows]
            is_done = self._done_s[rows] <= at_s
            has_given_up = ~is_done & (self._gives_up_s[rows] <= at_s)
            is_late = ~(is_done | has_given_up) & (self._horizon_s[rows] <= at_s)
            is_over = has_given_up | is_late
            times_out = ~(is_done | is_over) & (self._timeout_s[rows] <= at_s)
            for apply, is_due in (
                (self._finish, is_done),
                (self._cut_off, is_over),
                (self._reach_start_limit, times_out),
                (self._grow, ~(is_done | is_over | times_out)),
            ):
                if is_due.any():
                    apply(rows[is_due], at_s[is_due])
            self.spent[rows[has_given_up]] = True
        self._held_s += self._up * (now_s - self._passed_s)
        self._passed_s = now_s.copy()

    def _finish(self, rows: Rows, at_s: Floats) -> None:
        terms = self._select_terms(rows)
        self._account(rows, at_s)
        left_s = (terms.work_s - self.work_s[rows]) * terms.nodes / self.used[rows]
        self.useful_s[rows] += left_s
        self.save_s[rows] += at_s - self.ready_s[rows] - left_s
        self.work_s[rows] = terms.work_s
        self.finished[rows] = True
        self._end(rows, at_s)

    def _cut_off(self, rows: Rows, at_s: Floats) -> None:
        self._account(rows, at_s)
        self._keep_committed(rows, at_s, self._select_terms(rows))
        self._end(rows, at_s)

    def _grow(self, rows: Rows, at_s: Floats) -> None:
        """Add free nodes to the job: uncommitted work is recomputed."""
        terms = self._select_terms(rows)
        self._account(rows, at_s)
        self._keep_committed(rows, at_s, terms)
        self.free_s[rows] = at_s + terms.teardown_s
        self._begin_attempt(rows, at_s, terms, asks=False)

    def _reach_start_limit(self, rows: Rows, at_s: Floats) -> None:
        """End starts at their time limit, and begin again those that are queued again for it."""
        terms = self._select_terms(rows)
        self._account(rows, at_s)
        has_signal = np.broadcast_to(terms.limit_signal_s > 0, at_s.shape)
        self.noticed[rows] += has_signal
        latency_s, late_s = np.broadcast_to(terms.step_s, at_s.shape), np.zeros(len(rows))
        signal_terms = terms._replace(notice_s=terms.limit_signal_s)
        self._keep_committed(rows, at_s, signal_terms, (has_signal, latency_s, late_s))
        is_over = self.requeues[rows] >= terms.max_requeues
        self.timed_out[rows[is_over]] = True
        self._end(rows[is_over], at_s[is_over])
        rows, at_s = rows[~is_over], at_s[~is_over]
        if not len(rows):
            return
        terms = self._select_terms(rows)
        self.requeues[rows] += 1
        self.restarts[rows] += 1
        self.free_s[rows] = np.maximum(self.free_s[rows], at_s + terms.teardown_s)
        self._has_start[rows] = False
        self._begin_attempt(rows, at_s, terms)

    def _end(self, rows: Rows, at_s: Floats) -> None:
        column = self._column[rows]
        since_s = at_s - self._passed_s[column]
        self.node_s[rows] = self._held_s[column] + self._up[column] * since_s
        self.end_s[rows] = at_s
        self._has_group[rows] = self._waits[rows] = False
        self.limit_s[rows] = self._grows_s[rows] = np.inf
        self.going -= len(rows)

    # -- at a change of the pool -----------------------------------------------------------------

    def apply_change(
        self, up: Counts, lost: Counts, luck: NDArray[np.uint64], cut: Counts | None
    ) -> None:
        """Apply a change of the pool at the time of `advance`.

        `luck` is drawn for each run, the same for all questions. `cut` nodes leave because a
        repeated trace begins again: the attempt ends, without a charge.
        """
        previous_up, self._up = self._up, up.copy()
        departures = lost if cut is None else lost + cut
        is_hit = self._has_group & self._spread_pools(departures > 0)
        if self._spares_starts:
            is_hit &= self._spread_pools(self._passed_s) >= self.ready_s
        rows = self._select_hit_rows(_rows(is_hit), previous_up, departures, luck)
        can_resume = self._waits & self._spread_pools(up > previous_up)
        resumed_rows = _rows(can_resume & (self._spread_pools(up) >= self._min_nodes))
        if len(rows):
            self._end_attempts(rows, lost, luck)
        if len(resumed_rows):
            now_s = self._passed_s[self._column[resumed_rows]]
            self._account(resumed_rows, now_s)
            self._begin_attempt(resumed_rows, now_s, self._select_terms(resumed_rows))
        if self._is_elastic:
            self._plan_growth()

    def _select_hit_rows(
        self, rows: Rows, previous_up: Counts, departures: Counts, luck: NDArray[np.uint64]
    ) -> Rows:
        """Return the rows in which a loss among the nodes held takes one of those in use."""
        column = self._column[rows]
        held_nodes, departed = previous_up[column], departures[column]
        # A loss may take a spare node, which ends no attempt. Only a draw of all `departed` nodes
        # among the idle ones spares the job, one after the other without putting back.
        idle_nodes = held_nodes - self.used[rows]
        spared_rows = _rows((idle_nodes > 0) & (departed <= idle_nodes))
        if not len(spared_rows):
            return rows
        held_nodes = held_nodes - self._select_terms(rows).on_demand.astype(np.int64)
        held_nodes, departed, idle_nodes = (
            held_nodes[spared_rows],
            departed[spared_rows],
            idle_nodes[spared_rows],
        )
        chance = np.ones(len(spared_rows))
        for n in range(int(departed.max())):
            chance *= np.where(n < departed, (idle_nodes - n) / np.maximum(held_nodes - n, 1), 1.0)
        is_hit = np.ones(len(rows), dtype=np.bool_)
        is_hit[spared_rows] = _share(luck[column[spared_rows] % self._runs], 0) >= chance
        return rows[is_hit]

    def _end_attempts(self, rows: Rows, lost: Counts, luck: NDArray[np.uint64]) -> None:
        """End attempts by a loss: keep committed work, charge a budget, set the group's end."""
        # All rows at once, one run a row, so each case below is a mask and no branch. A loss meets
        # its attempt in one of three states, as in Ray Train 2.60:
        #
        #   training   with a notice, a preemption, and a save on notice may count; without, a
        #              failure, found out `detect_s` later
        #   starting   a failure of the controller's start, notice or not: a group that is placed
        #              fails as its node is gone; a notice saves nothing
        #   tearing    the old group is still going: a loss that is known before it is gone costs no
        #              retry, since the next group is placed without the node
        #
        # `lost_nodes` is 0 where a repeated trace begins again at its seam (`is_cut`): that ends
        # the attempt, since the nodes are other ones, but is no loss that was seen, and free of
        # charge. Luck is drawn per run and not per question, so that two settings meet the same
        # losses and what a change buys is measured in pairs.
        column, terms = self._column[rows], self._select_terms(rows)
        at_s, lost_nodes = self._passed_s[column], lost[column]
        drawn = luck[column % self._runs]
        notice_luck, poll_luck, rank_luck = _share(drawn, 1), _share(drawn, 2), _share(drawn, 3)
        is_announced, is_cut = (
            (notice_luck < terms.notice_chance) & (lost_nodes > 0),
            lost_nodes == 0,
        )
        is_starting = at_s < self.ready_s[rows] - terms.restore_s
        noticed = is_announced & ~is_starting
        self._account(rows, at_s)
        over_s = self._keep_notice_saves(
            rows, at_s, terms, (noticed, lost_nodes, poll_luck, rank_luck)
        )
        is_busy = at_s < self.free_s[rows]  # the old group is still being torn down
        # A group that is placed already is started, notice or not, and fails as its node is gone.
        is_unseen = ~is_announced | (is_starting & ~is_busy)
        found_s = at_s + np.where(is_unseen & ~is_cut, terms.detect_s, 0.0)
        is_known = is_busy & (found_s <= self.free_s[rows])
        is_free = is_cut | (is_starting & is_known)
        is_host = (terms.has_host > 0) & (rank_luck * np.maximum(self.used[rows], 1) < lost_nodes)
        fails_start = is_starting & (terms.has_single_budget == 0)
        self._charge(rows, at_s, terms, (noticed | (is_host & ~is_cut), fails_start, is_free))
        self.free_s[rows] = np.where(
            is_busy,
            np.maximum(self.free_s[rows], found_s),
            np.maximum(found_s, at_s + over_s) + terms.teardown_s,
        )
        has_group = self._has_group[rows]
        if not has_group.all():
            rows, at_s = rows[has_group], at_s[has_group]
            terms = self._select_terms(rows)
        self._begin_attempt(rows, at_s, terms)

    def _keep_notice_saves(
        self,
        rows: Rows,
        at_s: Floats,
        terms: JobTerms,
        notice: tuple[Flags, Counts, Floats, Floats],
    ) -> Floats:
        """Keep committed work, with a save on notice if there was one.

        Returns the time that the old group lasted after the deadline: for a save, or because
        survivors hang, which Ray ends only at the end of the grace.
        """
        noticed, lost_nodes, poll_luck, rank_luck = notice
        self.noticed[rows] += noticed
        # Ray's collectives are relaxed only for survivors, and need rank 0 among them.
        late_s = np.where(rank_luck * self.used[rows] >= lost_nodes, terms.relaxed_s, 0.0)
        latency_s = signal_s(poll_luck, terms.poll_s, terms.step_s)
        over_s = np.maximum(
            self._keep_committed(rows, at_s, terms, (noticed, latency_s, late_s)), terms.hang_s
        )
        return np.where(noticed, over_s, 0.0)

    def _keep_committed(
        self,
        rows: Rows,
        at_s: Floats,
        terms: JobTerms,
        signal: tuple[Flags, Floats, Floats] | None = None,
    ) -> Floats:
        """Add the work that was committed when training stopped; count the rest as lost.

        Returns the time that saves on notice took after the deadline.
        """
        trained_s = np.maximum(0.0, at_s - self.ready_s[rows])
        speed = np.maximum(self.used[rows], 1) / terms.nodes
        left_s = (terms.work_s - self.work_s[rows]) / speed  # the training is over after it
        saves = count_commits(trained_s, terms)
        useful_s, over_s = saves * terms.interval_s, np.zeros(len(rows))
        if signal is not None and terms.saves_on_notice.any():
            noticed, latency_s, late_s = signal
            notice_save = rescue(trained_s, left_s, latency_s, late_s, terms)
            # A save on notice that covers no more than the last periodic one is no rescue.
            is_better = noticed & notice_save.is_saved & (notice_save.useful_s > useful_s)
            useful_s = np.where(is_better, notice_save.useful_s, useful_s)
            saves = np.where(is_better, notice_save.saves, saves)
            over_s = np.where(is_better, notice_save.past_s, 0.0)
            self.rescued[rows] += is_better
        steps = np.minimum(count_finished_steps(trained_s, terms), left_s / terms.step_s)
        self.lost_steps[rows] += np.maximum(0.0, steps - useful_s / terms.step_s)
        self.work_s[rows] += useful_s * speed
        self.useful_s[rows] += useful_s
        saved_s = saves * terms.stop_s
        self.save_s[rows] += saved_s
        # A save that began within the notice may have ended after the deadline.
        self.lost_s[rows] += np.maximum(0.0, trained_s - useful_s - saved_s)
        return over_s

    def _charge(
        self, rows: Rows, at_s: Floats, terms: JobTerms, loss_kind: tuple[Flags, Flags, Flags]
    ) -> None:
        """Charge each loss to its budget, as Ray's default failure policy does."""
        noticed, is_starting, is_free = loss_kind
        starts_before = self._count_used_starts(rows, terms)
        self.preemptions[rows] += noticed
        self.start_failures[rows] += is_starting & ~is_free
        self.failures[rows] += ~(noticed | is_starting | is_free)
        starts = self._count_used_starts(rows, terms)
        self._has_start[rows] &= starts <= starts_before
        is_spent = (
            (self.failures[rows] > terms.max_failures)
            | (starts > terms.max_preemptions)
            | (self.start_failures[rows] + self._tries[rows] > terms.max_tries)
        )
        self.restarts[rows] += ~(is_free | is_spent)
        if is_spent.any():
            self.spent[rows[is_spent]] = True
            self._end(rows[is_spent], at_s[is_spent])

    def _count_used_starts(self, rows: Rows, terms: JobTerms) -> Floats:
        """Return what is charged beside the retries of a running group.

        For Ray the announced losses; for torchrun the starts of its command that are used up, by
        the loss of a host, by too many other losses, or by a wait in vain.
        """
        used: Floats = self.preemptions[rows] + self.failures[rows] // terms.losses_per_start
        return used + terms.has_single_budget * self._tries[rows]

    def _begin_attempt(
        self, rows: Rows, at_s: Floats, terms: JobTerms, *, asks: bool = True
    ) -> None:
        """Begin a new attempt, or wait if there are too few nodes for one.

        An elastic job first asks for as many workers as before the loss, and continues with
        fewer after a time-out (Ray 2.60).
        """
        size = np.minimum(self._up[self._column[rows]], terms.nodes)
        can_start = size >= terms.min_nodes
        free_s = self.free_s[rows]
        from_s = np.maximum(at_s, free_s)
        begin_s = from_s + terms.launch_s + terms.restore_s
        is_short: Floats | float = 0.0
        if self._is_elastic:
            is_short = np.where((size < terms.nodes) & asks, terms.is_elastic, 0.0)
            begin_s = begin_s + is_short * terms.shrink_delay_s
        speed = np.maximum(size, 1) / terms.nodes
        left_s = (terms.work_s - self.work_s[rows]) / speed
        done_s = np.where(can_start, begin_s + find_remaining_s(left_s, terms), np.inf)
        self.ready_s[rows] = np.where(can_start, begin_s, np.inf)
        self.used[rows] = np.where(can_start, size, 0)
        self._has_group[rows], self._waits[rows] = can_start, ~can_start
        self._since_s[rows], self._done_s[rows] = at_s, done_s
        gives_up_s: Floats | float = np.inf
        if self._is_bounded:
            gives_up_s = self._find_give_up_s(rows, from_s, terms, (can_start, is_short))
        self._gives_up_s[rows], self._grows_s[rows] = gives_up_s, np.inf
        self.limit_s[rows] = np.minimum(np.minimum(done_s, gives_up_s), self._horizon_s[rows])
        if self._is_limited:
            self._set_start_limit(rows, from_s, terms, can_start)

    def _set_start_limit(
        self, rows: Rows, from_s: Floats, terms: JobTerms, can_start: Flags
    ) -> None:
        """Set the time at which the limit ends the start that an attempt or a wait is in.

        The time limit of a start counts from the moment it has its places. A wait that times out
        uses a start up, so that the next one has all of its time again.
        """
        waited_s = from_s - self.free_s[rows] + terms.schedule_s
        is_new = ~self._has_start[rows] | (waited_s >= terms.placement_s)
        limit_s = from_s + terms.schedule_s + terms.start_limit_s
        ends_s = np.where(is_new, np.where(can_start, limit_s, np.inf), self._start_ends_s[rows])
        self._start_ends_s[rows], self._has_start[rows] = ends_s, can_start | ~is_new
        wait_ends_s = np.where(can_start, np.inf, self.free_s[rows] + terms.placement_s)
        timeout_s = np.where(ends_s < wait_ends_s, ends_s, np.inf)
        self._timeout_s[rows] = timeout_s
        self.limit_s[rows] = np.minimum(self.limit_s[rows], timeout_s)

    def _find_give_up_s(
        self, rows: Rows, from_s: Floats, terms: JobTerms, group: tuple[Flags, Floats | float]
    ) -> Floats:
        """Return the time at which placements that time out have used up the controller's budget.

        A job of fixed size retries while it waits, each time for `group_start_timeout_s`;
        an elastic one of Ray's waits until its least number of nodes is there.
        """
        can_start, is_short = group
        # Each try that finds no place within `group_start_timeout_s` is a failure of the
        # controller, and Ray's default for them has no limit; a question may set one.
        has_own = terms.has_single_budget == 0
        is_patient = has_own & (terms.is_elastic > 0)
        first_s = np.where(is_patient, from_s, self.free_s[rows])
        tries = np.floor((from_s - first_s + terms.schedule_s) / terms.placement_s + TINY)
        tries = tries + is_short * has_own
        failed = self.start_failures[rows] + self._tries[rows]
        used = np.where(has_own, failed, self._count_used_starts(rows, terms))
        tries_left = terms.max_tries - used
        can_wait = np.where(can_start, tries <= tries_left, is_patient)
        self._tries[rows] += np.where(can_start, tries, 0.0)
        return np.where(can_wait, np.inf, first_s + (tries_left + 1) * terms.placement_s)

    def _plan_growth(self) -> None:
        """Set the time at which elastic runs grow: Ray looks once in `resize_s` after a start."""
        has_more_nodes = self._has_group & (self._spread_pools(self._up) > self.used)
        rows = _rows(has_more_nodes | (self._grows_s < np.inf))
        if not len(rows):
            return
        terms = self._select_terms(rows)
        can_grow = (terms.is_elastic > 0) & (self.used[rows] < terms.nodes)
        rows = rows[can_grow]
        terms = self._select_terms(rows)
        now_s, up = self._passed_s[self._column[rows]], self._up[self._column[rows]]
        group_start_s = self.ready_s[rows] - terms.restore_s
        # Nodes that join while all of them are asked for are used at once.
        is_asking = (now_s < group_start_s - terms.launch_s) & (up > self.used[rows])
        # Ray looks for more nodes at fixed intervals after a start, so one that joins meanwhile is
        # idle until then, and is paid for.
        looks = np.maximum(1.0, np.ceil((now_s - group_start_s) / np.maximum(terms.resize_s, TINY)))
        look_s = np.where(terms.resize_s > 0, group_start_s + looks * terms.resize_s, now_s)
        grows_s = np.where((up > self.used[rows]) & ~is_asking, np.maximum(look_s, now_s), np.inf)
        self._grows_s[rows] = grows_s
        attempt_end_s = np.minimum(self._done_s[rows], self._gives_up_s[rows])
        attempt_end_s = np.minimum(attempt_end_s, self._timeout_s[rows])
        self.limit_s[rows] = np.minimum(np.minimum(attempt_end_s, grows_s), self._horizon_s[rows])
        if is_asking.any():
            rows, now_s = rows[is_asking], now_s[is_asking]
            self._account(rows, now_s)
            self._begin_attempt(rows, now_s, self._select_terms(rows))

    # -- used by all of these ----------------------------------------------------------------------

    def _account(self, rows: Rows, now_s: Floats) -> None:
        """Count the time since the last stop as restart or wait."""
        # Time since the last stop that was not training. What passes while the old group is torn
        # down is a restart even if nodes are missing by then: the job would not have begun with
        # them either.
        spent_s = np.minimum(now_s, self.ready_s[rows]) - self._since_s[rows]
        until_s = np.minimum(now_s, self.free_s[rows]) - self._since_s[rows]
        waited_s = np.where(self._waits[rows], spent_s - np.maximum(0.0, until_s), 0.0)
        self.wait_s[rows] += waited_s
        self.restart_s[rows] += spent_s - waited_s

    def _select_terms(self, rows: Rows) -> JobTerms:
        """Return the terms of these rows; one number each if all questions have the same."""
        if not len(self._varying):
            return self._shared_terms
        terms = list(self._shared_terms)
        for index, values in zip(self._varied, self._varying, strict=True):
            terms[index] = values.take(self._question[rows])
        return JobTerms._make(terms)

    def _spread_pools(self, values: NDArray[_Kind]) -> NDArray[_Kind]:
        """Return the values of each pool's run for each question's run."""
        return values if self._is_alone else values[self._column]


def pack_luck(*shares: float) -> int:
    """Return four shares below 1 as one number: hit, noticed, moment of the poll, rank 0 lives."""
    parts = [min(_PARTS - 1, int(share * _PARTS)) for share in shares]
    return sum(part << (_BITS * n) for n, part in enumerate(parts))


def _share(luck: NDArray[np.uint64], part: int) -> Floats:
    """Return one of the four shares of a number: one draw has all that a loss needs."""
    share: Floats = (luck >> np.uint64(_BITS * part) & np.uint64(_PARTS - 1)) / _PARTS
    return share


def _rows(flags: Flags) -> Rows:
    return flags.nonzero()[0]
