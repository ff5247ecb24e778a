"""Was every epoch trained once, and as long as it should be?"""

from collections.abc import Iterator

from chaos.check.attempt import Commit
from chaos.check.result import conclude, nothing_due, plural
from chaos.check.trial import Course, Trial
from chaos.model.verdict import Anomaly, CheckResult

NAME = "epochs"


def check(trial: Trial) -> CheckResult:
    """Require that the lineage commits epochs 0, 1, 2, … once each, as many as the baseline.

    The promise of contiguous steps. Every epoch but the first after a
    restart (`cursor` judges those) has the baseline's number of steps per
    rank, and the metric that carries the epoch, if the scenario names one,
    has the baseline's values. A job that is handed a checkpoint and starts
    over all the same (ray-project/ray#46814), or that trains a finished
    epoch again (Lightning-AI/pytorch-lightning#850), trains more epochs
    than its baseline. How many is not asked where clean runs differ in it, as
    one does that stops early by a loss that it does not repeat. Of a job that
    reports by the clock only the number of steps is due, over the whole run.
    """
    ours = trial.run.lineage
    anomalies = [*_contiguity(_done(trial))]
    doubts = []
    if trial.reference is not None and trial.is_by_steps:
        anomalies += _steps_in_all(trial, trial.reference)
    elif trial.reference is not None:
        anomalies += [*_number(trial, trial.reference), *_lengths(trial, trial.reference)]
        anomalies += [*_metric(trial, trial.reference)]
    elif trial.plan.ops:
        doubts.append(f"{trial.no_reference} to count epochs by")
    if not trial.run.ending.is_finished and not trial.error_was_expected:
        doubts.append("the job did not finish")
    if anomalies and (hint := _hint(trial)):
        first = anomalies[0]
        anomalies[0] = first.model_copy(update={"message": f"{first.message}; {hint}"})
    summary = _summary(trial)
    if not ours.commits and not ours.steps and not doubts and trial.error_was_expected:
        return nothing_due(NAME, summary)
    evidence = len(ours.commits) + len(ours.steps)
    return conclude(NAME, anomalies=anomalies, doubts=doubts, evidence=evidence, summary=summary)


def _summary(trial: Trial) -> str:
    done = plural(len(trial.run.lineage.commits), "epoch")
    if trial.reference is None:
        return f"{done}, each once; nothing to compare with"
    if trial.error_was_expected:
        return f"{done}, each once, until the job ended with the expected error"
    if trial.epochs_vary:
        return f"{done}, each once; clean runs differ in how many they train"
    if trial.is_by_steps:
        steps = plural(trial.run.lineage.steps_done, "step")
        return f"{done}, each once; {steps} in all, as in the baseline"
    return f"{done}, each once, as in the baseline"


def _done(trial: Trial) -> list[tuple[int, int]]:
    """Give the epochs that were done, each with an event.

    A job that keeps files of its own goes on after an epoch whose report a
    fault cut off, or kept from beginning: that it was trained is enough.
    """
    ours = trial.run.lineage
    done = [(commit.epoch, commit.number) for commit in ours.commits]
    if trial.run.keeps_own_files:
        committed = {epoch for epoch, _ in done}
        trained = {e: steps[-1].number for (_, e), steps in ours.steps.items() if steps}
        reported = {epoch for a in trial.run.attempts for _, epoch in a.reported}
        starts = [start for a in trial.run.attempts for start in a.starts.values() if start.path]
        reported |= {start.epoch - 1 for start in starts if start.step == 0}
        done += [i for i in trained.items() if i[0] not in committed and i[0] in reported]
        done.sort()
    return done


def _contiguity(done: list[tuple[int, int]]) -> Iterator[Anomaly]:
    due = 0
    for epoch, number in done:
        if epoch < due:
            message = f"epoch {epoch} was committed twice"
            yield Anomaly(message=message, events=(number,))
        elif epoch > due:
            one = epoch == due + 1
            lost = f"epoch {due} was" if one else f"epochs {due}-{epoch - 1} were"
            message = f"{lost} never committed, and epoch {epoch} was"
            yield Anomaly(message=message, events=(number,))
        due = max(due, epoch + 1)


def _number(trial: Trial, reference: Course) -> Iterator[Anomaly]:
    ours, due = _done(trial), len(reference.lineage.commits)
    if trial.epochs_vary:
        return
    if len(ours) > due:
        message = f"{plural(len(ours), 'epoch')} were trained, the baseline has {due}"
        yield Anomaly(message=message, events=tuple(number for _, number in ours[due:]))
    elif len(ours) < due and trial.run.ending.is_finished:
        message = f"the job finished after {plural(len(ours), 'epoch')}, the baseline has {due}"
        yield Anomaly(message=message, events=tuple(number for _, number in ours[-1:]))


def _steps_in_all(trial: Trial, reference: Course) -> Iterator[Anomaly]:
    ours, theirs = trial.run.lineage, reference.lineage
    for rank in theirs.ranks if trial.run.ending.is_finished and not trial.resized else ():
        made, due = (sum(c.count(rank, e) for e in c.epochs.get(rank, ())) for c in (ours, theirs))
        if made != due:
            last = [step.number for step in ours.all_steps() if step.rank == rank][-1:]
            message = f"rank {rank} made {plural(made, 'step')} in all, the baseline {due}"
            yield Anomaly(message=message, events=tuple(last))


def _lengths(trial: Trial, reference: Course) -> Iterator[Anomaly]:
    ours, theirs = trial.run.lineage, reference.lineage
    committed = {commit.epoch for commit in ours.commits}
    epochs = {c.epoch for c in theirs.commits}
    for rank, epoch in sorted(set(ours.steps) | set(theirs.steps), key=lambda key: key[::-1]):
        surplus = ours.count(rank, epoch) - theirs.count(rank, epoch)
        # A surplus epoch has its own anomaly, and so has a missing one.
        if surplus == 0 or (rank, epoch) in ours.resumed or epoch in epochs ^ committed:
            continue
        if trial.epochs_vary and epoch > max(epochs, default=-1):
            continue  # the baseline never came there
        if any(step.attempt in trial.resized for step in ours.steps.get((0, epoch), ())):
            continue  # with another number of workers, an epoch has another number of steps
        is_whole = epoch in committed or trial.run.ending.is_finished
        if surplus > 0 or is_whole:
            steps = ours.steps.get((rank, epoch), ())
            yield Anomaly(
                message=f"rank {rank} made {plural(len(steps), 'step')} in epoch {epoch}, "
                f"the baseline {theirs.count(rank, epoch)}",
                events=tuple(s.number for s in steps[-1:]),
            )


def _metric(trial: Trial, reference: Course) -> Iterator[Anomaly]:
    key = trial.plan.job.epoch_metric
    if key is None:
        return
    theirs = {commit.epoch: commit for commit in reference.lineage.commits}
    for mine in trial.run.lineage.commits:
        due = _values(theirs[mine.epoch], key) if mine.epoch in theirs else None
        ours = _values(mine, key)
        if due is not None and mine.of_survivors:
            due = due[:1]
        if due is not None and ours != due:
            yield Anomaly(
                message=f"report {mine.epoch} says `{key}` {_say(ours)}, "
                f"the baseline's {_say(due)}",
                events=(mine.number,),
            )
            return


def _values(commit: Commit, key: str) -> list[object]:
    return [metrics.get(key) for metrics in commit.metrics]


def _say(values: list[object]) -> str:
    return " and ".join(dict.fromkeys("nothing" if v is None else str(v) for v in values))


def _hint(trial: Trial) -> str | None:
    """Name the usual cause, where it was seen: the checkpoint was offered and left alone."""
    for restart in trial.restarts:
        offered = [c for c in restart.handed.values() if c is not None]
        if offered and restart.attempt.steps and not restart.attempt.asked:
            return f"no rank of attempt {restart.attempt.index} asked for its checkpoint"
    return None
