"""Periodic checkpoints and checkpoints on notice: the committed work, and its time."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from chaos.preflight.capacity import Flags, Floats
from chaos.preflight.question import Question

# A commit that falls on the very moment counts: sums of floats may lie a rounding below it.
TINY = 1e-9


class JobTerms(NamedTuple):
    """The figures that determine the course of a job, a number each, or a vector of them.

    Budgets without limit are infinite.
    """

    nodes: Floats
    least: Floats
    is_elastic: Floats
    tau_s: Floats
    step_s: Floats
    work_s: Floats
    #: the time that training stands still for a save
    stop_s: Floats
    #: the time from then to its commit
    behind_s: Floats
    is_queued: Floats
    saves_on_notice: Floats
    #: the probability of a notice before a loss
    told: Floats
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
    place_s: Floats
    restore_s: Floats
    #: for so long all nodes are waited for; one try
    ask_s: Floats
    #: likewise, until an elastic job goes on with fewer
    shrinks_s: Floats
    resize_s: Floats
    max_failures: Floats
    max_preemptions: Floats
    max_tries: Floats
    #: losses that use up one of `max_preemptions`, being a start of the command
    each_start: Floats
    #: whether starts that were used up, hosts and waits in vain are of one budget: a loss while a
    #: group starts counts as one while it trains, and a start with fewer nodes is no failed try
    one_budget: Floats
    on_demand: Floats
    #: whether the loss of one node, the host, ends a whole start
    has_host: Floats


def terms_of(question: Question) -> list[float]:
    """Return the terms of one question, in their order."""
    job, settings, costs = question.job, question.settings, question.known_costs
    notice = question.market.notice
    is_told = settings.hears_notices and notice.seconds > 0
    failures, others, tries = settings.limits
    return [
        job.nodes,
        job.min_nodes or job.nodes,
        job.min_nodes is not None,
        question.interval_s,
        costs.step_s,
        question.work_s,
        question.stop_s,
        question.behind_s,
        settings.checkpoint_upload_mode == "async",
        job.saves_on_notice,
        notice.reliability if is_told else 0.0,
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
        _limit(failures),
        _limit(others),
        _limit(tries),
        settings.each_start,
        settings.one_budget,
        job.on_demand_nodes,
        settings.hosts_rendezvous and job.nodes > 1 and not job.on_demand_nodes,
    ]


def _limit(budget: int) -> float:
    return np.inf if budget < 0 else budget


def commits(trained_s: Floats, of: JobTerms) -> Floats:
    """Return the number of periodic saves committed so long after training began."""
    cycle_s = of.tau_s + of.stop_s
    count = np.floor(np.maximum(0.0, trained_s - of.behind_s) / cycle_s + TINY)
    # Ray 2.60 uploads beside training with one thread (`MAX_CHECKPOINT_UPLOAD_THREADS` is 1). An
    # upload that takes longer than a cycle waits for the one before it, so each commit comes later
    # after its save than the last one did, and the plain count above would be too high.
    is_late = (of.is_queued > 0) & (of.behind_s > cycle_s)
    if not is_late.any():
        return count
    behind_s = np.maximum(of.behind_s, TINY)
    queued = np.floor(np.maximum(0.0, trained_s - cycle_s) / behind_s + TINY)
    return np.where(is_late, np.minimum(count, queued), count)


def finished_steps(trained_s: Floats, of: JobTerms) -> Floats:
    """Return the number of steps finished so long after training began: none within a save."""
    cycles, rest_s = np.divmod(trained_s, of.tau_s + of.stop_s)
    steps: Floats = np.floor((cycles * of.tau_s + np.minimum(rest_s, of.tau_s)) / of.step_s + TINY)
    return steps


def finish_after_s(left_s: Floats, of: JobTerms) -> Floats:
    """Return the time of the remaining training, with its saves, until all is committed."""
    saves = np.ceil(left_s / of.tau_s - TINY)
    saved_s = left_s + saves * of.stop_s
    return np.maximum(saved_s, _uploaded_s(saves - 1, of)) + of.behind_s


def _uploaded_s(saves: Floats, of: JobTerms) -> Floats:
    """Return the time at which the thread has uploaded so many saves; 0 if none waits for it."""
    cycle_s = of.tau_s + of.stop_s
    done_s = np.maximum(saves * cycle_s + of.behind_s, cycle_s + saves * of.behind_s)
    return np.where((of.is_queued > 0) & (saves > 0), done_s, 0.0)


class Rescue(NamedTuple):
    """Saves on notice: their work, the saves so far, whether in time, the time after it."""

    useful_s: Floats
    saves: Floats
    is_saved: Flags
    past_s: Floats


def rescue(
    trained_s: Floats, left_s: Floats, latency_s: Floats, late_s: Floats, of: JobTerms
) -> Rescue:
    """Return the work that a save on notice keeps of attempts that end at the notice's deadline.

    The save begins once the watcher has polled and the step under way is done. It is uploaded
    after other waiting saves, and counts if it is committed by the deadline or `late_s` after
    it. Training continues after the save until the node is gone (Ray 2.60): that work is lost.
    """
    cycle_s = of.tau_s + of.stop_s
    begun_s = np.where(latency_s < of.notice_s, trained_s - of.notice_s + latency_s, 0.0)
    whole = np.floor(np.maximum(begun_s, 0.0) / cycle_s)
    # The save on notice stands in the same queue: it may be written in time and still be committed
    # too late, behind the periodic ones.
    waits_s = np.maximum(of.stop_s, _uploaded_s(whole, of) - begun_s)
    taken_s = latency_s + waits_s + of.behind_s
    rest_s = np.minimum(begun_s - whole * cycle_s, of.tau_s)
    held_s = np.minimum(whole * of.tau_s + rest_s, left_s)
    # The blocking part after the deadline is a pause, not training time.
    stood_s = np.clip(trained_s - held_s - whole * of.stop_s, 0.0, of.stop_s)
    # A part of a save counts as a part, or the seconds of useful, save and lost would not add up to
    # the attempt's.
    saves = whole + stood_s / np.maximum(of.stop_s, TINY)
    is_saved = (of.saves_on_notice > 0) & (taken_s <= of.notice_s + late_s) & (begun_s > 0)
    return Rescue(held_s, saves, is_saved, np.maximum(0.0, taken_s - of.notice_s))


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
    upload_s = question.known_costs.upload_s or 1.0
    return tuple(
        _cell(question, float(notice_s), upload_s * times)
        for times in UPLOADS
        for notice_s in NOTICES_S
    )


def _cell(question: Question, notice_s: float, upload_s: float) -> NoticeCell:
    costs, settings = question.known_costs, question.settings
    luck = (np.arange(_DRAWS) + 0.5) / _DRAWS
    latency_s = signal_s(luck, settings.preemption_poll_s, costs.step_s)
    window_s = notice_s + settings.relaxed_s * (notice_s > 0)
    # Two limits: the save must begin while the node is there, and be committed by the deadline, or
    # within the time that relaxed collectives give the survivors.
    fits = (latency_s < notice_s) & (latency_s + costs.save_s + upload_s <= window_s)
    reliability = question.market.notice.reliability if question.market.notice.seconds else 1.0
    with_s = np.maximum(0.0, notice_s - latency_s - costs.save_s)
    each_s = np.where(fits, _mean_saved_s(question.interval_s, upload_s, with_s), 0.0)
    saved_s, commits = float(each_s.mean()) * reliability, float(fits.mean()) * reliability
    return NoticeCell(notice_s, upload_s, commits, saved_s / costs.step_s)


def _mean_saved_s(interval_s: float, upload_s: float, with_s: Floats) -> Floats:
    """Return the mean time that a save on notice spares, if `with_s` are lost with it.

    Without it, a part of an interval is lost, each with equal chance, and the work that
    was not yet uploaded. If that is less than `with_s`, nothing is spared.
    """
    least_s = np.clip(with_s - min(upload_s, interval_s), -interval_s, interval_s)
    part_s = (interval_s - np.maximum(least_s, 0.0)) ** 2 / (2 * interval_s)
    spared: Floats = part_s - np.minimum(least_s, 0.0)
    return spared
