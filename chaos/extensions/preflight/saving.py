"""Periodic checkpoints and checkpoints on notice: the committed work, and its time."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from chaos.extensions.preflight.capacity import Flags, Floats
from chaos.extensions.preflight.question import Question

# A commit that falls on the very moment counts: sums of floats may lie a rounding below it.
TINY = 1e-9


class JobTerms(NamedTuple):
    """The figures that determine the course of a job, a number each, or a vector of them.

    Budgets without limit are infinite.
    """

    nodes: Floats
    min_nodes: Floats
    is_elastic: Floats
    interval_s: Floats
    step_s: Floats
    work_s: Floats
    #: the time that training stands still for a save
    stop_s: Floats
    #: the time from then to its commit
    commit_delay_s: Floats
    is_queued: Floats
    saves_on_notice: Floats
    #: the probability of a notice before a loss
    notice_chance: Floats
    notice_s: Floats
    poll_s: Floats
    #: the time after the deadline in which survivors may still commit
    relaxed_s: Floats
    #: the time after it for which Ray waits for them
    hang_s: Floats
    detect_s: Floats
    teardown_s: Floats
    schedule_s: Floats
    #: from the end of the old group to the train function
    launch_s: Floats
    restore_s: Floats
    #: for so long all nodes are waited for; one try
    placement_s: Floats
    #: likewise, until an elastic job goes on with fewer
    shrink_delay_s: Floats
    resize_s: Floats
    max_failures: Floats
    max_preemptions: Floats
    max_tries: Floats
    #: losses that use up one of `max_preemptions`, being a start of the command
    losses_per_start: Floats
    #: whether starts that were used up, hosts and waits in vain are of one budget: a loss while a
    #: group starts counts as one while it trains, and a start with fewer nodes is no failed try
    has_single_budget: Floats
    on_demand: Floats
    #: whether the loss of one node, the host, ends a whole start
    has_host: Floats
    #: the time after which a start of the command is ended
    start_limit_s: Floats
    #: the times that it is queued again for that
    max_requeues: Floats
    #: the time before that at which a signal comes on which the job saves; 0: none does
    limit_signal_s: Floats


def list_terms(question: Question) -> list[float]:
    """Return the terms of one question, in their order."""
    job, settings, costs = question.job, question.settings, question.required_costs
    notice = question.market.notice
    is_announced = settings.hears_notices and notice.seconds > 0
    failure_limit, preemption_limit, try_limit = settings.limits
    return [
        job.nodes,
        job.min_nodes or job.nodes,
        job.min_nodes is not None,
        question.interval_s,
        costs.step_s,
        question.work_s,
        question.stop_s,
        question.commit_delay_s,
        settings.checkpoint_upload_mode == "async",
        job.saves_on_notice,
        notice.reliability if is_announced else 0.0,
        notice.seconds,
        settings.preemption_poll_s,
        settings.relaxed_s,
        settings.hang_s,
        costs.detect_s,
        costs.teardown_s,
        costs.schedule_s,
        costs.schedule_s + costs.start_s,
        costs.restore_s,
        settings.placement_s,
        settings.placement_s if job.min_nodes is None else settings.shrinks_after_s,
        settings.grows_every_s,
        _limit(failure_limit),
        _limit(preemption_limit),
        _limit(try_limit),
        settings.losses_per_start,
        settings.has_single_budget,
        job.on_demand_nodes,
        settings.has_agents and job.nodes > 1 and not job.on_demand_nodes,
        settings.start_limit_s,
        _limit(settings.limit_requeues),
        (settings.limit_signal_s or 0.0) if job.saves_on_notice else 0.0,
    ]


def _limit(budget: int) -> float:
    return np.inf if budget < 0 else budget


def count_commits(trained_s: Floats, terms: JobTerms) -> Floats:
    """Return the number of periodic saves committed so long after training began."""
    cycle_s = terms.interval_s + terms.stop_s
    count = np.floor(np.maximum(0.0, trained_s - terms.commit_delay_s) / cycle_s + TINY)
    # Ray 2.60 uploads beside training with one thread (`MAX_CHECKPOINT_UPLOAD_THREADS` is 1). An
    # upload that takes longer than a cycle waits for the one before it, so each commit comes later
    # after its save than the last one did, and the plain count above would be too high.
    is_late = (terms.is_queued > 0) & (terms.commit_delay_s > cycle_s)
    if not is_late.any():
        return count
    behind_s = np.maximum(terms.commit_delay_s, TINY)
    queued = np.floor(np.maximum(0.0, trained_s - cycle_s) / behind_s + TINY)
    return np.where(is_late, np.minimum(count, queued), count)


def count_finished_steps(trained_s: Floats, terms: JobTerms) -> Floats:
    """Return the number of steps finished so long after training began: none within a save."""
    cycles, partial_s = np.divmod(trained_s, terms.interval_s + terms.stop_s)
    steps: Floats = np.floor(
        (cycles * terms.interval_s + np.minimum(partial_s, terms.interval_s)) / terms.step_s + TINY
    )
    return steps


def find_remaining_s(left_s: Floats, terms: JobTerms) -> Floats:
    """Return the time of the remaining training, with its saves, until all is committed."""
    saves = np.ceil(left_s / terms.interval_s - TINY)
    saved_s = left_s + saves * terms.stop_s
    return np.maximum(saved_s, _find_upload_end_s(saves - 1, terms)) + terms.commit_delay_s


def _find_upload_end_s(saves: Floats, terms: JobTerms) -> Floats:
    """Return the time at which the thread has uploaded so many saves; 0 if none waits for it."""
    cycle_s = terms.interval_s + terms.stop_s
    done_s = np.maximum(
        saves * cycle_s + terms.commit_delay_s, cycle_s + saves * terms.commit_delay_s
    )
    return np.where((terms.is_queued > 0) & (saves > 0), done_s, 0.0)


class NoticeSaves(NamedTuple):
    """Saves on notice: their work, the saves so far, whether in time, the time after it."""

    useful_s: Floats
    saves: Floats
    is_saved: Flags
    past_s: Floats


def rescue(
    trained_s: Floats, left_s: Floats, latency_s: Floats, late_s: Floats, terms: JobTerms
) -> NoticeSaves:
    """Return the work that a save on notice keeps of attempts that end at the notice's deadline.

    The save begins once the watcher has polled and the step under way is done. It is uploaded
    after other waiting saves, and counts if it is committed by the deadline or `late_s` after
    it. Training continues after the save until the node is gone (Ray 2.60): that work is lost.
    """
    cycle_s = terms.interval_s + terms.stop_s
    save_start_s = np.where(latency_s < terms.notice_s, trained_s - terms.notice_s + latency_s, 0.0)
    cycles = np.floor(np.maximum(save_start_s, 0.0) / cycle_s)
    # The save on notice stands in the same queue: it may be written in time and still be committed
    # too late, behind the periodic ones.
    waits_s = np.maximum(terms.stop_s, _find_upload_end_s(cycles, terms) - save_start_s)
    save_delay_s = latency_s + waits_s + terms.commit_delay_s
    partial_s = np.minimum(save_start_s - cycles * cycle_s, terms.interval_s)
    saved_work_s = np.minimum(cycles * terms.interval_s + partial_s, left_s)
    # The blocking part after the deadline is a pause, not training time.
    pause_s = np.clip(trained_s - saved_work_s - cycles * terms.stop_s, 0.0, terms.stop_s)
    # A part of a save counts as a part, or the seconds of useful, save and lost would not add up to
    # the attempt's.
    saves = cycles + pause_s / np.maximum(terms.stop_s, TINY)
    is_saved = (
        (terms.saves_on_notice > 0) & (save_delay_s <= terms.notice_s + late_s) & (save_start_s > 0)
    )
    return NoticeSaves(
        saved_work_s, saves, is_saved, np.maximum(0.0, save_delay_s - terms.notice_s)
    )


def signal_s(luck: Floats, poll_s: Floats | float, step_s: Floats | float) -> Floats:
    """Return the seconds from a notice to the save: the next poll, and the step under way."""
    return luck * poll_s + step_s


# -- the length of a notice ---------------------------------------------------------------------

NOTICES_S = (0, 5, 10, 15, 20, 30, 45, 60, 90, 120)
# Times the measured upload: other sizes of a checkpoint, or speeds.
UPLOADS = (0.25, 0.5, 1.0, 2.0, 4.0)
# Midpoints of equal parts of a probability: an integral without chance, and the same each time.
_DRAWS = 2_001


@dataclass(frozen=True)
class NoticeCell:
    """One notice and one upload."""

    notice_s: float
    upload_s: float
    #: the probability, the notice's reliability included
    commits: float
    #: per loss, compared with a resume from the last periodic checkpoint
    steps_saved: float


def notice_sweep(question: Question) -> tuple[NoticeCell, ...]:
    """Return the surface of notice against upload, averaged over the moment of the poll.

    Closed form except for the poll: a loss may be anywhere between two periodic
    checkpoints with equal chance.
    """
    upload_s = question.required_costs.upload_s or 1.0
    return tuple(
        _cell(question, float(notice_s), upload_s * times)
        for times in UPLOADS
        for notice_s in NOTICES_S
    )


def _cell(question: Question, notice_s: float, upload_s: float) -> NoticeCell:
    costs, settings = question.required_costs, question.settings
    luck = (np.arange(_DRAWS) + 0.5) / _DRAWS
    latency_s = signal_s(luck, settings.preemption_poll_s, costs.step_s)
    window_s = notice_s + settings.relaxed_s * (notice_s > 0)
    # Two limits: the save must begin while the node is there, and be committed by the deadline, or
    # within the time that relaxed collectives give the survivors.
    fits = (latency_s < notice_s) & (latency_s + costs.save_s + upload_s <= window_s)
    reliability = question.market.notice.reliability if question.market.notice.seconds else 1.0
    unsaved_s = np.maximum(0.0, notice_s - latency_s - costs.save_s)
    each_s = np.where(fits, _mean_saved_s(question.interval_s, upload_s, unsaved_s), 0.0)
    saved_s, commits = float(each_s.mean()) * reliability, float(fits.mean()) * reliability
    return NoticeCell(notice_s, upload_s, commits, saved_s / costs.step_s)


def _mean_saved_s(interval_s: float, upload_s: float, unsaved_s: Floats) -> Floats:
    """Return the mean time that a save on notice spares, if `unsaved_s` are lost with it.

    Without it, a part of an interval is lost, each with equal chance, and the work that
    was not yet uploaded. If that is less than `unsaved_s`, nothing is spared.
    """
    least_s = np.clip(unsaved_s - min(upload_s, interval_s), -interval_s, interval_s)
    part_s = (interval_s - np.maximum(least_s, 0.0)) ** 2 / (2 * interval_s)
    spared: Floats = part_s - np.minimum(least_s, 0.0)
    return spared
