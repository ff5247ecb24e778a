"""Does an attempt stop for good before the next one trains?"""

from collections.abc import Iterator

from chaos.check.attempt import Attempt
from chaos.check.result import conclude, nothing_due, plural, unknown
from chaos.check.trial import Trial
from chaos.model.event import ReportReturned, WorkerStarted
from chaos.model.verdict import Anomaly, CheckResult

NAME = "single-writer"

# A worker that is being ended may finish what it has in hand.
GRACE_NS = 1_000_000_000


def check(trial: Trial) -> CheckResult:
    """Require that nothing of an earlier attempt trains, reports or saves beside a later one.

    The promise of fencing: a worker that was only frozen, or cut off, comes
    back and writes over its successor's work (modal-projects/stitch PR #236).
    From a second after a later attempt was opened on (a rank of it started,
    or made a step, where that was not seen), no step, report, commit or file
    of an earlier one: the next one may be reading what it writes. And one
    process for each rank of an attempt.
    """
    if not trial.run.attempts:
        return unknown(NAME, "no attempt was seen")
    anomalies = [*_stragglers(trial), *_twins(trial)]
    if not anomalies and len(trial.run.attempts) == 1:
        return nothing_due(NAME, "there was one attempt, and one process for each of its ranks")
    return conclude(
        NAME,
        anomalies=anomalies,
        evidence=len(trial.run.attempts),
        summary=f"each of {plural(len(trial.run.attempts), 'attempt')} was silent once the next "
        "was there",
    )


def _stragglers(trial: Trial) -> Iterator[Anomaly]:
    """Find the last sign of each attempt, and lay it beside the beginning of the next."""
    history = trial.history
    for earlier in trial.run.attempts:
        began = [n for a in trial.run.attempts if a.index > earlier.index for n in _began(a)]
        last = _last_sign(trial, earlier)
        if not began or last is None:
            continue
        number, what = last
        late_ns = history.time_ns(number) - history.time_ns(min(began))
        if late_ns > GRACE_NS:
            yield Anomaly(
                message=f"attempt {earlier.index} was still at work {late_ns / 1e9:.1f} s after "
                f"the next one was opened: {what}",
                events=(min(began), number),
            )


def _began(attempt: Attempt) -> list[int]:
    """Give when an attempt was there: nothing where no sign of it was seen."""
    signs = [attempt.opened] if attempt.opened is not None else []
    signs = signs or [start.number for start in attempt.starts.values()]
    return [min(signs)] if signs else [step.number for step in attempt.steps[:1]]


def _last_sign(trial: Trial, attempt: Attempt) -> tuple[int, str] | None:
    signs = [(step.number, f"a step of rank {step.rank}") for step in attempt.steps[-1:]]
    signs += [(commit.number, "a commit") for commit in attempt.commits[-1:]]
    reports = [
        (n, e.rank) for n, e in trial.history.of(ReportReturned) if e.attempt == attempt.index
    ]
    files = [(s.number, s.rank) for s in trial.run.files.saves if s.attempt == attempt.index]
    signs += [(number, f"a report of rank {rank}") for number, rank in reports[-1:]]
    signs += [(number, f"a file of rank {rank}") for number, rank in files[-1:]]
    return max(signs, default=None)


def _twins(trial: Trial) -> Iterator[Anomaly]:
    seen: dict[tuple[int, int], tuple[int, int]] = {}
    for number, started in trial.history.of(WorkerStarted):
        before, pid = seen.setdefault((started.attempt, started.rank), (number, started.pid))
        if pid != started.pid:
            yield Anomaly(
                message=f"two processes were rank {started.rank} of attempt {started.attempt}: "
                f"pids {pid} and {started.pid}",
                events=(before, number),
            )
