"""The state of many runs of one job, and what a change of the pool does to them."""

import numpy as np

from chaos.preflight.capacity import Counts, Flags, Floats
from chaos.preflight.question import Question

_TINY = 1e-9


class Runs:
    """Vectors over runs. `ready_s`: when training begins or began; infinite while waiting.

    `used` nodes are the job's; `work_s` is committed work. What is only
    trained is not kept: at each change it is computed from the time since `ready_s`.
    With `spares_starts` a loss before that moment takes no node of the job.
    """

    def __init__(
        self, question: Question, up: Counts, horizon_s: float, *, spares_starts: bool = False
    ) -> None:
        assert question.costs is not None
        self._question, self._horizon_s = question, horizon_s
        self._spares_starts = spares_starts
        self._job, self._set, self._costs = question.job, question.settings, question.costs
        self._tau, self._all = question.interval_s, question.work_s
        runs = len(up)
        self.going: Flags = np.ones(runs, dtype=np.bool_)
        self.finished, self.spent = np.zeros((2, runs), dtype=np.bool_)
        self.failures, self.preemptions, self.restarts = np.zeros((3, runs), dtype=np.int64)
        self.noticed, self.rescued = np.zeros((2, runs), dtype=np.int64)
        self.end_s, self.work_s, self.useful_s, self.save_s = np.zeros((4, runs))
        self.lost_s, self.restart_s, self.wait_s, self.node_s = np.zeros((4, runs))
        self.lost_steps = np.zeros(runs)
        self._since_s, self._paid_s = np.zeros((2, runs))
        self._begin(np.zeros(runs), up, np.zeros(runs), self.going)

    # -- between two changes -------------------------------------------------------------------

    def train_until(self, now_s: Floats, up: Counts) -> None:
        """Finish the runs that reach their last step before `now_s`, and pay for the nodes."""
        left_s = (self._all - self.work_s) / self._speed()
        saves = np.ceil(left_s / self._tau - _TINY)
        done_s = self.ready_s + left_s + saves * self._costs.save_s + self._costs.upload_s
        done = self.going & (done_s <= now_s)
        self.node_s += np.where(
            self.going, (np.where(done, done_s, now_s) - self._paid_s) * up, 0.0
        )
        self._paid_s = now_s
        if not done.any():
            return
        self._account_start(done, done_s)
        self.useful_s += np.where(done, left_s, 0.0)
        self.save_s += np.where(done, saves * self._costs.save_s + self._costs.upload_s, 0.0)
        self.work_s = np.where(done, self._all, self.work_s)
        self._end(done, done_s)
        self.finished |= done

    # -- at a change ---------------------------------------------------------------------------

    def meet(self, now_s: Floats, before: Counts, up: Counts, lost: Counts, luck: Floats) -> None:
        """Let a change take effect: hits, charges, restarts, growth; then the horizon."""
        self._stop_at_horizon(now_s)
        hit = self.going & np.isfinite(self.ready_s) & self._is_hit(before, lost, luck[0])
        if self._spares_starts:
            hit &= now_s >= self.ready_s
        grows = self.going & ~hit & self._wants_more(up)
        stops = hit | grows
        if not stops.any():
            return
        noticed = hit & self._is_noticed(luck[1])
        window_s = self._window_s(lost, luck[3])
        over_s = self._keep(stops, noticed, now_s, (luck[2], window_s))
        self._charge(hit, noticed, now_s)
        waited = ~np.isfinite(self.ready_s)
        pause_s = over_s + np.where(hit & ~noticed, self._costs.detect_s, 0.0)
        pause_s = pause_s + np.where(waited, 0.0, self._costs.teardown_s)
        self._begin(now_s, up, pause_s, stops & self.going)

    def _is_hit(self, before: Counts, lost: Counts, luck: Floats) -> Flags:
        """Say whether a loss of `lost` among `before` nodes takes one of those in use."""
        idle = before - self.used
        spared = (lost > 0) & (lost <= idle)
        if not spared.any():
            return lost > 0
        chance = np.ones(len(lost))
        for n in range(int(lost[spared].max())):
            chance *= np.where(n < lost, (idle - n) / np.maximum(before - n, 1), 1.0)
        return (lost > 0) & ~(spared & (luck < chance))

    def _wants_more(self, up: Counts) -> Flags:
        """Say which runs wait for nodes that are there now, or may grow."""
        enough = up >= (self._job.min_nodes or self._job.nodes)
        waits = ~np.isfinite(self.ready_s) & enough
        return waits | ((up > self.used) & (self.used < self._job.nodes) & enough)

    def _is_noticed(self, luck: Floats) -> Flags:
        notice = self._question.market.notice
        if not self._set.preemption_watcher or notice.seconds == 0:
            return np.zeros(len(luck), dtype=np.bool_)
        told: Flags = luck < notice.reliability
        return told

    def _window_s(self, lost: Counts, luck: Floats) -> Floats:
        """Give how long after its notice a save may still commit.

        Survivors may commit beyond the deadline where Ray's collectives are
        relaxed, and rank 0, which speaks for all, is not among the lost.
        """
        grace_s = self._set.preemption_grace_s
        window_s = np.full(len(lost), self._question.market.notice.seconds)
        if not (self._set.relax_collectives_on_preemption and grace_s):
            return window_s
        has_rank_0 = luck * self.used >= lost
        return window_s + np.where(has_rank_0, grace_s, 0.0)

    def _keep(
        self, stops: Flags, noticed: Flags, now_s: Floats, signal: tuple[Floats, Floats]
    ) -> Floats:
        """Add what was committed when training stopped, and count the rest as lost.

        Gives how long past the deadline just-in-time saves went on.
        """
        self._account_start(stops, now_s)
        trained_s = np.where(stops, np.maximum(0.0, now_s - self.ready_s), 0.0)
        cycle_s = self._tau + self._costs.save_s
        commits = np.floor(np.maximum(0.0, trained_s - self._costs.upload_s) / cycle_s + _TINY)
        useful_s, saves = commits * self._tau, commits
        left_s = (self._all - self.work_s) / self._speed()  # beyond it nothing is trained
        over_s = np.zeros(len(stops))
        if self._job.saves_on_notice and noticed.any():
            rescued_s, count, is_saved, past_s = self._saved_in_time(
                trained_s, left_s, noticed, signal
            )
            is_better = is_saved & (rescued_s > useful_s)
            useful_s = np.where(is_better, rescued_s, useful_s)
            saves = np.where(is_better, count, saves)
            over_s = np.where(is_better, past_s, 0.0)
            self.rescued += is_better
        self.noticed += noticed
        finished = np.minimum(self._finished(trained_s), left_s / self._costs.step_s)
        self.lost_steps += np.maximum(0.0, finished - useful_s / self._costs.step_s)
        self.work_s += useful_s * self._speed()
        self.useful_s += useful_s
        self.save_s += saves * self._costs.save_s
        # A save that began within the notice may have ended after the deadline.
        self.lost_s += np.maximum(0.0, trained_s - useful_s - saves * self._costs.save_s)
        return over_s

    def _finished(self, trained_s: Floats) -> Floats:
        """Count the steps that are finished so long after training began: none within a save."""
        cycles, rest_s = np.divmod(trained_s, self._tau + self._costs.save_s)
        steps = (cycles * self._tau + np.minimum(rest_s, self._tau)) / self._costs.step_s
        whole: Floats = np.floor(steps + _TINY)
        return whole

    def _saved_in_time(
        self,
        trained_s: Floats,
        left_s: Floats,
        noticed: Flags,
        signal: tuple[Floats, Floats],
    ) -> tuple[Floats, Floats, Flags, Floats]:
        """Give what a save on notice holds, its saves, whether it committed, and how late.

        It begins once the watcher has polled and the step under way is done.
        Training goes on behind it until the node is gone (Ray 2.60), which is lost.
        """
        costs, notice_s = self._costs, self._question.market.notice.seconds
        luck, window_s = signal
        latency_s = signal_s(luck, self._set.preemption_poll_s, costs.step_s)
        begun_s = np.where(latency_s < notice_s, trained_s - notice_s + latency_s, 0.0)
        taken_s = latency_s + costs.save_s + costs.upload_s
        cycle_s = self._tau + costs.save_s
        whole = np.floor(np.maximum(begun_s, 0.0) / cycle_s)
        rest_s = np.minimum(begun_s - whole * cycle_s, self._tau)
        is_saved = noticed & (taken_s <= window_s) & (begun_s > 0)
        held_s = np.minimum(whole * self._tau + rest_s, left_s)
        # What of the blocking part lies behind the deadline is a pause, not training time.
        saves = whole + np.clip((trained_s - held_s - whole * costs.save_s), 0, costs.save_s) / max(
            costs.save_s, _TINY
        )
        return held_s, saves, is_saved, np.maximum(0.0, taken_s - notice_s)

    def _charge(self, hit: Flags, noticed: Flags, now_s: Floats) -> None:
        """Charge each hit to its budget, as Ray's default failure policy does."""
        self.preemptions += noticed
        self.failures += hit & ~noticed
        out = np.zeros(len(hit), dtype=np.bool_)
        if self._set.max_failures >= 0:
            out |= self.failures > self._set.max_failures
        if self._set.max_preemption_failures >= 0:
            out |= self.preemptions > self._set.max_preemption_failures
        out &= hit
        self.restarts += hit & ~out
        self._end(out, now_s)
        self.spent |= out

    def _begin(self, now_s: Floats, up: Counts, pause_s: Floats, which: Flags) -> None:
        """Begin a new attempt, or wait where there are too few nodes for one."""
        size = np.minimum(up, self._job.nodes)
        can = size >= (self._job.min_nodes or self._job.nodes)
        begin_s = now_s + pause_s + self._costs.begin_s
        if self._job.min_nodes is not None:
            # Ray 2.60 first asks for all workers, and goes on with fewer when that timed out.
            is_short = size < self._job.nodes
            begin_s = begin_s + np.where(is_short, self._set.group_start_timeout_s, 0.0)
        if not hasattr(self, "ready_s"):
            self.ready_s, self.used = np.zeros(len(up)), np.zeros(len(up), dtype=np.int64)
        self.ready_s = np.where(which, np.where(can, begin_s, np.inf), self.ready_s)
        self.used = np.where(which, np.where(can, size, 0), self.used)
        self._since_s = np.where(which, now_s, self._since_s)

    def _account_start(self, which: Flags, now_s: Floats) -> None:
        """Count the time since the last stop as restarting or waiting."""
        is_waiting = ~np.isfinite(self.ready_s)
        spent_s = np.where(which, np.minimum(now_s, self.ready_s) - self._since_s, 0.0)
        self.wait_s += np.where(is_waiting, spent_s, 0.0)
        self.restart_s += np.where(is_waiting, 0.0, spent_s)

    def _stop_at_horizon(self, now_s: Floats) -> None:
        late = self.going & (now_s >= self._horizon_s)
        if late.any():
            self._keep(late, np.zeros(len(late), dtype=np.bool_), now_s, (now_s, now_s))
            self._end(late, now_s)

    def _end(self, which: Flags, at_s: Floats) -> None:
        self.end_s = np.where(which, at_s, self.end_s)
        self.going = self.going & ~which

    def _speed(self) -> Floats:
        """Give the worth of a second of training: the share of the nodes that take part."""
        return np.maximum(self.used, 1) / self._job.nodes


def signal_s(luck: Floats, poll_s: float, step_s: float) -> Floats:
    """Give the seconds from a notice to the save: the next poll, and the step under way."""
    return luck * poll_s + step_s
