"""Did every restart begin from the newest committed checkpoint?"""

from collections.abc import Iterator, Mapping

from chaos.check.attempt import Commit
from chaos.check.files import Save, place_of
from chaos.check.restarts import Restart
from chaos.check.result import conclude, plural, without_restart
from chaos.check.trial import Trial
from chaos.model.verdict import Anomaly, CheckResult

NAME = "resume-point"


def check(trial: Trial) -> CheckResult:
    """Require that a new attempt goes on from the checkpoint that was committed last.

    The promise of the resume point. None only where nothing was committed.
    Older: ray-project/ray#9036 (resume and retention disagree). None although
    there is one: ray-project/ray#5734. Handed, and left alone:
    ray-project/ray#46814. That `report()` returned is no commit in Ray 2.60:
    the controller records a report at its next poll. A job that keeps files
    of its own goes on from the newest save of its kind that every rank had
    finished (latest by name: allenai/open-instruct#542).
    """
    if not trial.restarts:
        return without_restart(NAME, trial)
    anomalies = []
    for restart in trial.restarts:
        if len(set(restart.handed.values())) > 1:
            continue  # which of them would be right is `agreement`'s to say
        found = list(_handed(restart, trial.run.committed)) or list(_left_alone(trial, restart))
        anomalies += found or list(_own_files(trial, restart))
    doubts = [
        f"no rank of attempt {restart.attempt.index} said which checkpoint it was handed"
        for restart in trial.restarts
        if not restart.handed
    ]
    return conclude(
        NAME,
        anomalies=anomalies,
        doubts=doubts,
        evidence=sum(len(restart.handed) for restart in trial.restarts),
        summary=f"{plural(len(trial.restarts), 'restart')} from the newest commit, on every rank",
    )


def _handed(restart: Restart, commits: Mapping[str, Commit]) -> Iterator[Anomaly]:
    newest = restart.newest.checkpoint if restart.newest else None
    wrong = [s for s in restart.attempt.starts.values() if s.checkpoint != newest]
    if not wrong or restart.newest is None:
        return
    who, handed = f"attempt {restart.attempt.index}", wrong[0].checkpoint
    commit = None if handed is None else commits.get(handed)
    if handed is not None and (commit is None or commit.attempt >= restart.attempt.index):
        return  # never committed at all
    was = f"{restart.newest.checkpoint} (epoch {restart.newest.epoch}) was committed"
    message = f"{who} was handed no checkpoint and started from scratch, although {was}"
    if commit is not None:
        message = f"{who} was handed {handed} (epoch {commit.epoch}), although {was} after it"
    yield Anomaly(message=message, events=(*(s.number for s in wrong), restart.newest.number))


def _left_alone(trial: Trial, restart: Restart) -> Iterator[Anomaly]:
    """Find an attempt that was handed a checkpoint, and trained as if there were none."""
    attempt, files = restart.attempt, trial.run.files
    handed = next((c for c in restart.handed.values() if c is not None), None)
    read = any(files.newest_loaded(attempt.index, rank) for rank in attempt.starts)
    if handed is None or read or attempt.index not in trial.began_anew:
        return
    why = "and loaded nothing from it" if attempt.asked else "and no rank asked for it"
    yield Anomaly(
        message=f"attempt {attempt.index} started from scratch: it was handed {handed}, {why}",
        events=tuple(start.number for start in attempt.starts.values()),
    )


def _own_files(trial: Trial, restart: Restart) -> Iterator[Anomaly]:
    attempt, files = restart.attempt, trial.run.files
    reference = trial.reference
    ray_keeps = reference is not None and any(c.checkpoint for c in reference.lineage.commits)
    if not trial.run.keeps_own_files or ray_keeps or not attempt.first_steps:
        return
    since = min(start.number for start in attempt.starts.values()) if attempt.starts else 0
    saves = list(files.published(before=since))
    read = False
    for rank in sorted(attempt.starts):
        load = files.newest_loaded(attempt.index, rank)
        origin = None if load is None else files.origin(load[1])
        if load is None or origin is None:
            continue
        read = True
        newest = _newest_of_all([s for s in saves if s.series == origin.series])
        if newest is not None and place_of(load[1]) < newest.place and newest is not origin:
            yield Anomaly(
                message=f"rank {rank} resumed from {load[1].path}, saved at {_at(origin)}; "
                f"{newest.path} of {_at(newest)} was there",
                events=(newest.number, load[0]),
            )
            return
    newest = _newest_of_all(saves)
    starts = [start.place for start in attempt.starts.values()]
    if not read and newest is not None and all(place == (0, 0) for place in starts):
        yield Anomaly(
            message=f"attempt {attempt.index} started from scratch, although {newest.path} of "
            f"{_at(newest)} was there: no rank read it",
            events=(newest.number, *(s.number for s in attempt.starts.values())),
        )


def _newest_of_all(saves: list[Save]) -> Save | None:
    """Give the newest save that every rank has, if they save at all: the oldest of their newest."""
    newest = {save.rank: save for save in saves}
    return min(newest.values(), key=lambda save: save.place, default=None)


def _at(save: Save) -> str:
    return f"epoch {save.epoch}" + (f", step {save.step}" if save.step else "")
