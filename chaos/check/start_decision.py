"""Did every attempt that began anew have a reason that somebody was told?"""

from collections.abc import Iterator

from chaos.check.files import is_own
from chaos.check.restarts import Restart
from chaos.check.result import conclude, plural, without_restart
from chaos.check.trial import Trial
from chaos.model.event import FileLoaded
from chaos.model.verdict import Anomaly, CheckResult

NAME = "start-decision"


def check(trial: Trial) -> CheckResult:
    """Require that no rank trains from scratch because reading its checkpoint failed.

    The promise of an explicit start: a load that fails ends the attempt, or
    falls back to an older save; it is never taken for a first run
    (facebookresearch/metaseq#602). It is broken where a rank's load raised,
    nothing of this run was read after it, the rank trained all the same, and
    its state, where that was seen, is the one of the very beginning. Where
    nothing was saved yet there is nothing to fall back to.
    """
    if not trial.restarts:
        return without_restart(NAME, trial)
    anomalies = [a for restart in trial.restarts for a in _anomalies(trial, restart)]
    started = sum(len(restart.attempt.starts) for restart in trial.restarts)
    silent = [r.attempt.index for r in trial.restarts if not r.attempt.starts]
    return conclude(
        NAME,
        anomalies=anomalies,
        doubts=[f"how attempt {index} started was not seen" for index in silent],
        evidence=started,
        summary=f"{plural(len(trial.restarts), 'restart')}; no failed load was taken for a "
        "first run",
    )


def _anomalies(trial: Trial, restart: Restart) -> Iterator[Anomaly]:
    attempt = restart.attempt
    seen = any(index == attempt.index for index, _ in trial.run.sightings.entries)
    for rank, start in sorted(attempt.starts.items()):
        failed = _last_failure(trial, attempt.index, rank)
        was_saved = restart.newest is not None or any(
            trial.run.files.published(before=start.number)
        )
        if failed is None or rank not in attempt.first_steps or not was_saved:
            continue
        if seen and start.checkpoint is not None and attempt.index not in trial.began_anew:
            continue
        number, load = failed
        yield Anomaly(
            message=f"rank {rank} of attempt {attempt.index} could not read {load.path} "
            f"({load.error}), and trained from scratch without a word",
            events=(number, attempt.first_steps[rank]),
        )


def _last_failure(trial: Trial, attempt: int, rank: int) -> tuple[int, FileLoaded] | None:
    """Give the load that raised and that no later one made good."""
    failed = None
    for number, load in trial.run.files.loads.get((attempt, rank), ()):
        if load.error is not None:
            failed = number, load
        elif is_own(load):
            failed = None
    return failed
