"""Did every restart begin from the newest committed checkpoint?"""

from collections.abc import Iterator, Mapping

from chaos.check.attempt import Commit
from chaos.check.restarts import Restart
from chaos.check.result import conclude, plural, without_restart
from chaos.check.trial import Trial
from chaos.model.verdict import Anomaly, CheckResult

NAME = "resume-point"


def check(trial: Trial) -> CheckResult:
    """Require that all ranks of a new attempt are handed the checkpoint committed last.

    None only where nothing was committed. Older: ray-project/ray#9036 (resume
    and retention disagree). None although there is one: ray-project/ray#5734.
    One that was never committed, or several: ray-project/ray#41700. That
    `report()` returned is no commit in Ray 2.60: the controller records a
    report at its next poll.
    """
    if not trial.restarts:
        return without_restart(NAME, trial)
    commits = {
        commit.checkpoint: commit
        for attempt in trial.run.attempts
        for commit in attempt.commits
        if commit.checkpoint is not None
    }
    anomalies = [a for restart in trial.restarts for a in _anomalies(restart, commits)]
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


def _anomalies(restart: Restart, commits: Mapping[str, Commit]) -> Iterator[Anomaly]:
    if len(set(restart.handed.values())) > 1:
        handed = ", ".join(f"rank {r} {_name(c)}" for r, c in restart.handed.items())
        yield Anomaly(
            message=f"attempt {restart.attempt.index} was not handed one checkpoint: {handed}",
            events=tuple(s.number for s in restart.attempt.starts.values()),
        )
        return
    newest = restart.newest.checkpoint if restart.newest else None
    wrong = [s for s in restart.attempt.starts.values() if s.checkpoint != newest]
    if wrong:
        yield Anomaly(
            message=_message(restart, wrong[0].checkpoint, commits),
            events=tuple(s.number for s in wrong)
            + ((restart.newest.number,) if restart.newest else ()),
        )


def _message(restart: Restart, handed: str | None, commits: Mapping[str, Commit]) -> str:
    who = f"attempt {restart.attempt.index}"
    commit = None if handed is None else commits.get(handed)
    known = commit is not None and commit.attempt < restart.attempt.index
    if handed is not None and not known:
        return f"{who} was handed {handed}, which was never committed"
    assert restart.newest is not None
    newest = f"{restart.newest.checkpoint} (epoch {restart.newest.epoch}) was committed"
    if commit is None:
        return f"{who} was handed no checkpoint and started from scratch, although {newest}"
    return f"{who} was handed {handed} (epoch {commit.epoch}), although {newest} after it"


def _name(checkpoint: str | None) -> str:
    return "nothing" if checkpoint is None else checkpoint
