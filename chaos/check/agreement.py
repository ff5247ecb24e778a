"""Did all ranks of an attempt go on from one and the same place?"""

from collections.abc import Mapping

from chaos.check.components import group_of
from chaos.check.files import place_of
from chaos.check.restarts import Restart
from chaos.check.result import conclude, plural, without_restart
from chaos.check.sightings import parts_of
from chaos.check.sightings import place_of as seen_at
from chaos.check.trial import Trial
from chaos.model.event import FileLoaded
from chaos.model.verdict import Anomaly, CheckResult

NAME = "agreement"


def check(trial: Trial) -> CheckResult:
    """Require that all ranks of a new attempt agree on checkpoint, epoch and step.

    Also on the age of the files of one kind that several of them read, and on
    the model that they enter with, where they agree on it in the baseline.
    Where all state is seen to be what it must be at their place, the ages of
    files do not matter: what was read is no training state then, but a log
    that each rank keeps at its own pace. The promise
    that ranks and parts agree: files of each rank without a barrier
    (ray-project/ray#41700), a file that only some ranks find
    (facebookresearch/detectron2#1732), two streams that each pick their own
    newest (pytorch/torchtitan PR #4686).
    """
    if not trial.restarts:
        return without_restart(NAME, trial)
    anomalies = [
        anomaly
        for restart in trial.restarts
        for anomaly in (_starts(restart) or _files(trial, restart) or _models(trial, restart),)
        if anomaly is not None
    ]
    unheard = [r.attempt.index for r in trial.restarts if not r.attempt.starts]
    return conclude(
        NAME,
        anomalies=anomalies,
        doubts=[f"no rank of attempt {index} said how it started" for index in unheard],
        evidence=sum(len(restart.attempt.starts) for restart in trial.restarts),
        summary=f"all ranks went on from one place in {plural(len(trial.restarts), 'restart')}",
    )


def _starts(restart: Restart) -> Anomaly | None:
    starts = dict(sorted(restart.attempt.starts.items()))
    handed = {rank: _name(start.checkpoint) for rank, start in starts.items()}
    places = {r: f"epoch {s.epoch}, step {s.step}" for r, s in starts.items() if s.settled}
    events = tuple(start.number for start in starts.values())
    if len(set(handed.values())) > 1:
        said = f"attempt {restart.attempt.index} was not handed one checkpoint: {_each(handed)}"
        return Anomaly(message=said, events=events)
    if len(set(places.values())) > 1:
        said = f"the ranks of attempt {restart.attempt.index} went on at several places: "
        return Anomaly(message=said + _each(places), events=events)
    return None


def _files(trial: Trial, restart: Restart) -> Anomaly | None:
    index = restart.attempt.index
    by_series: dict[str, dict[int, tuple[int, FileLoaded]]] = {}
    for rank in sorted(restart.attempt.starts):
        for series, found in trial.run.files.newest_of_series(index, rank).items():
            by_series.setdefault(series, {})[rank] = found
    for newest in by_series.values():
        ages = {rank: place_of(load) for rank, (_, load) in newest.items()}
        if len(set(ages.values())) <= 1 or _is_no_matter(trial, restart, ranks=set(newest)):
            continue
        told = {
            rank: f"{newest[rank][1].path} of epoch {epoch}, step {step}"
            for rank, (epoch, step) in ages.items()
        }
        return Anomaly(
            message=f"the ranks of attempt {index} read files of different ages: {_each(told)}; "
            "ranks must agree on the newest save that all of them have",
            events=tuple(number for number, _ in newest.values()),
        )
    return None


def _is_no_matter(trial: Trial, restart: Restart, *, ranks: set[int]) -> bool:
    """Say whether what ranks read cannot matter.

    A fault ended the attempt before anybody trained; or these ranks were seen
    to go on with the model, and everybody with all the state that was due.
    """
    attempt = restart.attempt
    if attempt.index in trial.hits and not attempt.first_steps:
        return True
    rows = [row for row in trial.components if row.attempt == attempt.index]
    models = {row.rank for row in rows if row.group == "model" and row.standing == "restored"}
    return models >= ranks and not any(row.is_broken for row in rows)


def _models(trial: Trial, restart: Restart) -> Anomaly | None:
    entries = trial.run.sightings.entries
    mine = [
        (n, s) for (index, _), (n, s) in sorted(entries.items()) if index == restart.attempt.index
    ]
    if trial.reference is None or len({(s.epoch, s.step) for _, s in mine}) != 1:
        return None
    theirs = trial.reference.sightings.by_place
    due = [theirs.get(seen_at(seen)) for _, seen in mine]
    for name in sorted(parts_of(mine[0][1])):
        if group_of(name) != "model" or name in trial.unstable:
            continue
        digests = {s.rank: parts_of(s)[name].digest for _, s in mine if name in parts_of(s)}
        agreed = {parts_of(seen)[name].digest for seen in due if name in parts_of(seen)}
        if len(set(digests.values())) > 1 and len(agreed) == 1:
            rank = next(r for r, d in digests.items() if d != digests[min(digests)])
            return Anomaly(
                message=f"rank {rank} entered attempt {restart.attempt.index} with another model "
                f"than rank {min(digests)}: not all ranks loaded it, and nothing made them equal",
                events=tuple(number for number, _ in mine),
            )
    return None


def _each(told: Mapping[int, str]) -> str:
    return ", ".join(f"rank {rank} {what}" for rank, what in told.items())


def _name(checkpoint: str | None) -> str:
    return "nothing" if checkpoint is None else checkpoint
