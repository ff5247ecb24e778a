"""Were there as many attempts as faults call for, each with as many workers as it may have?"""

from collections.abc import Iterator
from itertools import pairwise

from chaos.check.allowance import for_recovery
from chaos.check.attempt import Attempt
from chaos.check.result import conclude, plural, unknown
from chaos.check.trial import Trial
from chaos.model.event import FitCalled
from chaos.model.verdict import Anomaly, CheckResult

NAME = "attempts"


def check(trial: Trial) -> CheckResult:
    """Require one attempt more than there are attempts that a fault ended.

    Where `fit()` is expected to raise, the last of these has no successor.
    An attempt too many is a failure that nobody injected
    (Ray 2.60: a worker group that does not come up opens another). A run that
    is ended at its limit may be within a recovery: what was still to follow it
    is not known, for as long as a recovery may take. Each has the workers that
    `fit()` asked for: only an elastic job goes on with fewer, down to the
    number that it states (a rank that is missing makes every batch smaller,
    pytorch/torchtitan PR #4663).
    """
    opened = [attempt for attempt in trial.run.attempts if attempt.opened is not None]
    if not opened:
        return unknown(NAME, "no worker group was seen")
    due = _due(trial)
    doubts = []
    if trial.plan.expect.attempts is None:
        doubts += [f"what {s.op} came to is not known" for s in trial.strikes if s.is_in_doubt]
    anomalies = list(_too_many(trial, opened, due)) if len(opened) > due and not doubts else []
    anomalies += _of_another_size(trial, opened)
    if not trial.run.ending.is_over:
        doubts.append("the run was not seen to its end")
    if len(opened) < due and trial.plan.expect.attempts is not None and trial.excuse is not None:
        doubts.append(f"{_count(opened, due)}, but {trial.excuse}")
    if len(opened) == due - 1 and (cut := _cut_short(trial, opened[-1])):
        doubts.append(f"{_count(opened, due)}: {cut}")
    if len(opened) < due and not doubts:
        anomalies.append(_too_few(trial, opened, due))
    return conclude(
        NAME,
        anomalies=anomalies,
        doubts=doubts,
        evidence=len(opened),
        summary=f"{plural(len(opened), 'attempt')}, as due",
        measures={"attempts": len(opened)},
    )


def _due(trial: Trial) -> int:
    if trial.plan.expect.attempts is not None:
        return trial.plan.expect.attempts
    return 1 + len(trial.hits) - (trial.error_was_expected and bool(trial.hits))


def _cut_short(trial: Trial, last: Attempt) -> str:
    """Say that the run was ended at its limit while another attempt was still to follow."""
    deadline, hits = trial.run.ending.deadline, trial.hits.get(last.index, ())
    harmed = [at for strike in hits if (at := strike.hits[last.index]) is not None]
    if deadline is None or not harmed:
        return ""
    waited_s = (trial.history.time_ns(deadline[0]) - max(harmed)) / 1e9
    if waited_s > for_recovery(trial).seconds:
        return ""
    return f"the run was ended at its limit {waited_s:.0f} s after the last fault"


def _count(opened: list[Attempt], due: int) -> str:
    return f"{plural(len(opened), 'attempt')} instead of {due}"


def _too_many(trial: Trial, opened: list[Attempt], due: int) -> Iterator[Anomaly]:
    head = _count(opened, due)
    found = [
        (attempt, before) for before, attempt in pairwise(opened) if before.index not in trial.hits
    ]
    for attempt, before in found:
        assert attempt.opened is not None
        why = f": {before.decisions[-1].event.error}" if before.decisions else ""
        yield Anomaly(
            message=f"{head}: nothing was done to attempt {before.index}, and attempt "
            f"{attempt.index} followed it{why}",
            events=(attempt.opened,),
        )
    if not found:
        yield Anomaly(message=head, events=tuple(a.opened or 0 for a in opened[due:]))


def _of_another_size(trial: Trial, opened: list[Attempt]) -> Iterator[Anomaly]:
    least, most = _workers(trial)
    asked = f"{most} were asked for, and the job does not say that it is elastic"
    if least < most:
        asked = f"from {least} to {most} were asked for"
    for attempt in opened:
        if attempt.places and not least <= len(attempt.places) <= most:
            count = plural(len(attempt.places), "worker")
            message = f"attempt {attempt.index} had {count}; {asked}"
            yield Anomaly(message=message, events=(attempt.opened or 0,))


def _workers(trial: Trial) -> tuple[int, int]:
    """Give the fewest and the most workers that `fit()` was called with, or else the plan has."""
    job = trial.plan.job
    called = next((event for _, event in trial.history.of(FitCalled)), None)
    match called.settings.get("num_workers") if called is not None else None:
        case int(count):
            return count, count
        case [int(least), int(most)]:
            return least, most
        case _:
            return job.min_workers or job.workers, job.workers


def _too_few(trial: Trial, opened: list[Attempt], due: int) -> Anomaly:
    head = _count(opened, due)
    indexes = {attempt.index for attempt in opened}
    for index, hits in sorted(trial.hits.items()):
        if index + 1 not in indexes:
            events = tuple(number for strike in hits for number in strike.events)
            message = f"{head}: a fault ended attempt {index}, and none followed it"
            return Anomaly(message=message, events=events)
    return Anomaly(message=head)
