"""Did every restart go on from something that was whole and recorded?"""

from collections.abc import Iterator, Mapping

from chaos.check.attempt import Commit
from chaos.check.restarts import Restart
from chaos.check.result import conclude, plural, without_restart
from chaos.check.trial import Trial
from chaos.model.event import CheckpointRead
from chaos.model.verdict import Anomaly, CheckResult

NAME = "committed-only"


def check(trial: Trial) -> CheckResult:
    """Require that what an attempt is handed, or asks for, was committed before it began.

    And that no rank goes on from a file of its own whose writing was never
    seen to end. The promise that nothing is resumed from what is not
    committed: files of a report that was cut off (ray-project/ray#41700), or
    half a file (Lightning-AI/pytorch-lightning#688). A file that cannot be
    read at all is `checkpoints`' to judge.
    """
    if not trial.restarts:
        return without_restart(NAME, trial)
    anomalies = [
        anomaly
        for restart in trial.restarts
        for anomaly in (*_handed(restart, trial.run.committed), *_read(trial, restart))
    ]
    anomalies += [a for restart in trial.restarts for a in _torn(trial, restart)]
    unheard = [r.attempt.index for r in trial.restarts if not r.handed]
    return conclude(
        NAME,
        anomalies=anomalies,
        doubts=[f"no rank of attempt {index} said what it was handed" for index in unheard],
        evidence=sum(len(restart.handed) for restart in trial.restarts),
        summary=f"{plural(len(trial.restarts), 'restart')} from what was committed, or anew",
    )


def _handed(restart: Restart, commits: Mapping[str, Commit]) -> Iterator[Anomaly]:
    for start in restart.attempt.starts.values():
        if not _is_known(start.checkpoint, restart, commits):
            yield Anomaly(
                message=f"attempt {restart.attempt.index} was handed {start.checkpoint}, which was "
                "never committed",
                events=(start.number,),
            )
            return


def _is_known(checkpoint: str | None, restart: Restart, commits: Mapping[str, Commit]) -> bool:
    if checkpoint is None:
        return True
    commit = commits.get(checkpoint)
    return commit is not None and commit.attempt < restart.attempt.index


def _read(trial: Trial, restart: Restart) -> Iterator[Anomaly]:
    handed = set(restart.handed.values())
    for number, read in trial.history.of(CheckpointRead):
        first = restart.attempt.first_steps.get(read.rank, len(trial.history))
        if read.attempt != restart.attempt.index or number > first or read.checkpoint in handed:
            continue
        if not _is_known(read.checkpoint, restart, trial.run.committed):
            yield Anomaly(
                message=f"rank {read.rank} of attempt {read.attempt} was given {read.checkpoint}, "
                "which was never committed",
                events=(number,),
            )


def _torn(trial: Trial, restart: Restart) -> Iterator[Anomaly]:
    files, index = trial.run.files, restart.attempt.index
    for rank in sorted(restart.attempt.first_steps):
        for number, load in files.loads.get((index, rank), ()):
            torn = files.torn(load.path, before=number)
            if load.error is None and load.saved_epoch is None and torn is not None:
                yield Anomaly(
                    message=f"rank {rank} of attempt {index} went on from {load.path}, whose "
                    f"writing by rank {torn.rank} was never finished",
                    events=(torn.number, number),
                )
