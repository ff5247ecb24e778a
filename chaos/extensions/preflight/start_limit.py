"""The time limit of a start (Slurm's --time), and the starts that a training takes under it."""

import math
from bisect import bisect_left
from typing import NamedTuple

import numpy as np

from chaos.extensions.preflight.estimate import format_hours
from chaos.extensions.preflight.question import Question
from chaos.extensions.preflight.saving import (
    JobTerms,
    count_commits,
    find_remaining_s,
    list_terms,
    rescue,
)
from chaos.wording import plural


class LosslessCourse(NamedTuple):
    """The starts and the seconds that a training takes without any loss."""

    starts: int
    duration_s: float


def plan_lossless_course(question: Question) -> LosslessCourse | None:
    """Return the course of a training without any loss; None if no start gets it further.

    The time limit of a start counts from the moment it has its places, as in the simulation.
    """
    costs, limit_s = question.required_costs, question.settings.start_limit_s
    terms = JobTerms(*(np.array([term], dtype=float) for term in list_terms(question)))
    trained_s, work_s = limit_s - costs.start_s - costs.restore_s, question.work_s
    kept_s = _find_kept_work_s(trained_s, terms) if math.isfinite(limit_s) else work_s

    def find_last_s(ended_starts: int) -> float:
        left_s = np.array([work_s - ended_starts * kept_s])
        return float(find_remaining_s(left_s, terms)[0])

    def is_enough(ended_starts: int) -> bool:
        return find_last_s(ended_starts) <= trained_s

    ended_starts = 0
    if not is_enough(0):
        if kept_s <= 0:
            return None
        ended_starts = bisect_left(range(math.ceil(work_s / kept_s)), True, key=is_enough)
    ended_s = ended_starts * (costs.schedule_s + limit_s + costs.teardown_s) if ended_starts else 0
    return LosslessCourse(ended_starts + 1, ended_s + costs.begin_s + find_last_s(ended_starts))


def _find_kept_work_s(trained_s: float, terms: JobTerms) -> float:
    """Return the work that a start which trains so long leaves to the next one."""
    trained = np.array([max(0.0, trained_s)])
    useful_s = count_commits(trained, terms) * terms.interval_s
    signal_terms = terms._replace(notice_s=terms.limit_signal_s)
    no_time = np.zeros(1)
    notice_save = rescue(trained, terms.work_s, no_time + terms.step_s, no_time, signal_terms)
    saved_s = np.where(notice_save.is_saved, notice_save.useful_s, 0.0)
    return float(np.maximum(useful_s, saved_s)[0])


def explain_impossible_starts(question: Question) -> str | None:
    """Return in words that a training never ends within its starts, whatever is lost; None if not.

    A start that a loss uses up is followed by one with all of its time, if the platform begins one.
    """
    why, (_, retries, _) = explain_start_limit(question), question.settings.limits
    if why is None or retries == 0 or plan_lossless_course(question) is None:
        return why
    return None


def explain_start_limit(question: Question) -> str | None:
    """Return in words that a training does not end within its starts if nothing is lost."""
    settings = question.settings
    if not math.isfinite(settings.start_limit_s):
        return None
    course, limit = plan_lossless_course(question), format_hours(settings.start_limit_s / 3600)
    if course is None:
        words = f"each start is ended after {limit}, and none saves anything for the next one"
        is_silent = settings.limit_signal_s is None or question.job.saves_on_notice
        hint = "if it saves on its signal, --set job.saves_on_notice=true"
        return words if is_silent else f"{words}, as far as is said: {hint}"
    requeues = settings.limit_requeues
    if requeues < 0 or course.starts <= requeues + 1:
        return None
    if requeues:
        return (
            f"the training takes {course.starts} starts of {limit} without any loss, and is queued "
            f"again {plural(requeues, 'time')} at that limit"
        )
    course = plan_lossless_course(remove_start_limit(question))
    assert course is not None
    return (
        f"the training takes {format_hours(course.duration_s / 3600)} without any loss, and its "
        f"start is ended after {limit} (start_limit_h) and not queued again for that "
        "(limit_requeues is 0)"
    )


def remove_start_limit(question: Question) -> Question:
    """Return the question with starts that no time limit ends."""
    settings = question.settings.model_copy(update={"start_limit_h": None})
    return question.model_copy(update={"settings": settings})
