"""Checks of the place in training: no step twice, none left out, and every epoch once."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chaos.check.analysis import RunAnalysis, RunTables
from chaos.check.attempt import Commit, Start
from chaos.check.cadence import describe_other_cadences
from chaos.check.restarts import RepeatedSteps, Restart
from chaos.check.result import conclude, inconclusive, nothing_due, own_check, without_restart
from chaos.model.event import DependentSeen
from chaos.model.launcher import LauncherWords
from chaos.model.verdict import Anomaly, CheckResult
from chaos.words import plural

# -- cursor ----------------------------------------------------------------------------------------


CURSOR = "cursor"


@own_check(CURSOR, asks="Did every restart go on at the place that its checkpoint says?")
def check_cursor(analysis: RunAnalysis) -> CheckResult:
    """Require that training continues where the checkpoint left it: no step twice, none left out.

    The promise of the cursor. The first epoch after a restart has the baseline's number of steps
    per rank. Workers count them from their last report, so a part that is done twice
    (Lightning-AI/pytorch-lightning#19815) or left out (Lightning-AI/pytorch-lightning#5325) shows
    as another number. Nor are its inputs those of another place, by as many steps as the whole run
    is too long or too short: such a job went back, or ahead (Lightning-AI/pytorch-lightning#850, a
    finished epoch trained again). With `expect.sampling: at_least_once` that epoch may be longer by
    as many steps as the restart discarded on the rank, and never shorter: a source that does not
    know of the newest steps hands their samples out again. They stay in the lineage, and the work
    after them has no equal in the baseline. An attempt with another number of workers is left out.
    """
    if not analysis.restarts:
        return without_restart(CURSOR, analysis)
    if analysis.reference is None:
        return inconclusive(CURSOR, f"{analysis.no_reference} to count an epoch's steps by")
    alike = [r for r in analysis.restarts if r.attempt.index not in analysis.resized]
    if not alike:
        return nothing_due(
            CURSOR, "after the restart an epoch has another number of workers' steps"
        )
    anomalies = [
        anomaly
        for restart in alike
        for anomaly in list(_wrong_first_epochs(restart, analysis, analysis.reference))
        or _at_another_place(restart, analysis)
    ]
    counted = sum(_whole_starts(restart, analysis) for restart in alike)
    doubts = [*analysis.unplaced.values(), *_unfinished(alike, analysis)]
    again = analysis.repeated_steps
    if again and (analysis.inputs is None or not analysis.inputs.are_watched):
        doubts.append(f"{_made_again(again)}; of which samples they were is not known")
    if not (counted or anomalies or doubts):
        is_stopped = analysis.error_was_expected
        why = "the job stopped, as expected, before it had an epoch whole again"
        return nothing_due(CURSOR, why if is_stopped else "the restart had no step left to make")
    return conclude(
        CURSOR,
        anomalies=anomalies,
        doubts=doubts,
        evidence=counted,
        summary=(_made_again(again) if again else "no step repeated or skipped")
        + f" after {plural(len(alike), 'restart')}"
        + (", as `sampling: at_least_once` allows; none was skipped" if again else ""),
    )


def _whole_starts(restart: Restart, analysis: RunAnalysis) -> int:
    return sum(_is_whole(restart, start, analysis) for start in _starts(restart))


def _unfinished(restarts: Sequence[Restart], analysis: RunAnalysis) -> Iterator[str]:
    last = restarts[-1]
    if last is not analysis.restarts[-1] or analysis.error_was_expected:
        return
    # One that made no step and ended well had nothing left to train: `epochs` counts them all.
    is_idle = not last.attempt.steps and analysis.run.ending.is_finished
    if not is_idle and not _whole_starts(last, analysis):
        yield f"no rank finished the first epoch of attempt {last.attempt.index}"


def _made_again(made: Sequence[RepeatedSteps]) -> str:
    """Return in words how many steps were repeated: those of the rank that repeated most."""
    most: dict[int, int] = {}
    for repeat in made:
        most[repeat.attempt] = max(most.get(repeat.attempt, 0), repeat.steps)
    return f"{plural(sum(most.values()), 'step')} trained a second time"


def _at_another_place(restart: Restart, analysis: RunAnalysis) -> Iterator[Anomaly]:
    # Asked only where the number of steps is right (`check_cursor`): a job that went back by a
    # whole epoch has epochs of the right length, and only its inputs show it.
    index = restart.attempt.index
    by = analysis.input_offsets.get(index)
    if by is None or -by in {r.steps for r in analysis.repeated_steps if r.attempt == index}:
        return
    did = "trained again" if by < 0 else "left out"
    yield Anomaly(
        message=f"attempt {index} went {'back' if by < 0 else 'ahead'}: at epoch "
        f"{restart.epoch} it was given the inputs that the baseline has {plural(abs(by), 'step')} "
        f"{'before' if by < 0 else 'after'} that place; they were {did}",
        events=tuple(start.number for start in _starts(restart)),
    )


def _starts(restart: Restart) -> list[Start]:
    """Return the ranks whose place is known, in order."""
    return [start for _, start in sorted(restart.attempt.starts.items()) if start.settled]


def _is_whole(restart: Restart, start: Start, analysis: RunAnalysis) -> bool:
    """Return whether the rank made all the steps of its first epoch that it was going to make."""
    is_last = restart is analysis.restarts[-1]
    finished = is_last and analysis.run.ending.is_finished
    return finished or restart.attempt.ended_epoch(start.rank, start.epoch)


def _wrong_first_epochs(
    restart: Restart, analysis: RunAnalysis, reference: RunTables
) -> Iterator[Anomaly]:
    for start in _starts(restart):
        rank, epoch = start.rank, start.epoch
        steps = restart.attempt.steps_of(rank, epoch)
        cadences = list(_other_cadences(restart, start, reference))
        if cadences:
            yield from cadences
            continue
        due = reference.lineage.count(rank, epoch) - start.step
        more = len(steps) - due
        if more == 0 or (more < 0 and not _is_whole(restart, start, analysis)):
            continue
        lost = restart.lost_steps.get(rank, 0)
        is_lax = analysis.plan.expect.sampling == "at_least_once"
        if is_lax and 0 < more <= lost:
            continue
        did = "repeated" if more > 0 else "skipped"
        allowed = f"; it threw away {lost}" if is_lax and more > 0 else ""
        yield Anomaly(
            message=f"rank {rank} {did} {plural(abs(more), 'step')} of epoch {epoch} after "
            f"the restart: {len(steps)} instead of {due}{allowed}{_resumed(restart)}",
            events=(start.number, *(s.number for s in steps[due:])),
        )


def _other_cadences(restart: Restart, start: Start, reference: RunTables) -> Iterator[Anomaly]:
    """Yield each optimizer that stepped after other batches than in the baseline."""
    lineage, rank = reference.lineage, start.rank
    optimizers = lineage.optimizers.get(rank, {})
    if len(optimizers) == 1:
        return
    due = [step for e in lineage.epochs.get(rank, ()) for step in lineage.steps_of(rank, e)]
    split = sum((step.epoch, step.step) <= start.place for step in due)
    made = restart.attempt.steps.by_rank.get(rank, ())
    for text in describe_other_cadences(made, due[split:], optimizers, due[:split]):
        message = f"on rank {rank} {text}, after the restart at {start.place}"
        yield Anomaly(message=message, events=(start.number,))


def _resumed(restart: Restart) -> str:
    """Return where an attempt resumed, and the evidence, as the end of a sentence."""
    attempt = restart.attempt
    if attempt.place is None or not attempt.grounds:
        return ""
    return f"; it resumed at {attempt.place}: {attempt.grounds}"


# -- epochs ----------------------------------------------------------------------------------------


EPOCHS = "epochs"


@own_check(EPOCHS, asks="Was every epoch trained once, and as long as it should be?")
def check_epochs(analysis: RunAnalysis) -> CheckResult:
    """Require that the lineage commits epochs 0, 1, 2, … once each, as many as the baseline.

    The promise of contiguous steps. Every epoch but the first after a restart (`cursor` judges
    those) has the baseline's number of steps per rank. The metric that carries the epoch, if the
    scenario names one, has the baseline's values. A job that is handed a checkpoint and starts over
    all the same (ray-project/ray#46814), or that trains a finished epoch again
    (Lightning-AI/pytorch-lightning#850), trains more epochs than its baseline. The number of epochs
    is not compared where clean runs differ in it, as one does that stops early by a loss that it
    does not repeat. Of a job that reports by the clock only the number of steps is due, over the
    whole run. Where epochs end with saves, and another number of workers trained some, another
    number of epochs is no proof. A job that depends on this one (`job.then`) begins when all this
    is done, and not before.
    """
    ours = analysis.run.lineage
    anomalies = [*_contiguity(_done_epochs(analysis.run), analysis.terms)]
    doubts = []
    if analysis.reference is not None and analysis.is_by_steps:
        anomalies += _steps_in_all(analysis, analysis.reference)
    elif analysis.reference is not None:
        number = [*_wrong_number(analysis, analysis.reference)]
        if number and analysis.resized and analysis.run.reports_nothing:
            doubts.append(
                f"{number[0].message}; with another number of workers the job may make, and save "
                "after, another number of steps, by which its epochs end"
            )
        else:
            anomalies += number
        anomalies += [*_wrong_lengths(analysis, analysis.reference)]
        anomalies += [*_wrong_epoch_metric(analysis, analysis.reference)]
        anomalies += [*_released_early(analysis, analysis.reference)]
    elif analysis.plan.ops:
        doubts.append(f"{analysis.no_reference} to count epochs by")
    if not analysis.run.ending.is_finished and not analysis.error_was_expected:
        doubts.append("the job did not finish")
    if anomalies and (hint := _usual_cause(analysis)):
        first = anomalies[0]
        anomalies[0] = first.model_copy(update={"message": f"{first.message}; {hint}"})
    summary = _epochs_summary(analysis)
    if not ours.commits and not ours.steps and not doubts and analysis.error_was_expected:
        return nothing_due(EPOCHS, summary)
    evidence = len(ours.commits) + len(ours.steps)
    return conclude(EPOCHS, anomalies=anomalies, doubts=doubts, evidence=evidence, summary=summary)


def _epochs_summary(analysis: RunAnalysis) -> str:
    done = plural(analysis.run.epochs_done, "epoch")
    if analysis.reference is None:
        return f"{done}, each once; nothing to compare with"
    if analysis.error_was_expected:
        return f"{done}, each once, until the job ended with the expected error"
    if analysis.epochs_vary:
        return f"{done}, each once; clean runs differ in how many they train"
    if analysis.is_by_steps:
        steps = plural(analysis.run.lineage.steps_done, "step")
        return f"{done}, each once; {steps} in all, as in the baseline"
    return f"{done}, each once, as in the baseline"


class _DoneEpoch(NamedTuple):
    """An epoch that was done, and an event that shows it."""

    epoch: int
    number: int


def _done_epochs(tables: RunTables) -> list[_DoneEpoch]:
    """Return the epochs that were done.

    A job that keeps its state itself continues after an epoch whose report a fault cut off, or
    prevented. Of such a job, and of one that reports nothing, every epoch counts that was trained.
    """
    ours = tables.lineage
    # Ray's commits are the epochs of a job that goes on from them. One with files of its own may be
    # killed between its save and its report, and rightly never reports that epoch: there the steps
    # show that it was trained, and the next attempt's place that it was saved.
    done = [_DoneEpoch(commit.epoch, commit.number) for commit in ours.commits]
    if tables.gives_no_checkpoint or tables.reports_nothing:
        committed = {epoch for epoch, _ in done}
        trained = {e: steps[-1].number for (_, e), steps in ours.steps.items() if steps}
        reported = {epoch for a in tables.attempts for _, epoch in a.reported}
        starts = [start for a in tables.attempts for start in a.starts.values() if start.moved]
        reported |= {start.epoch - 1 for start in starts if start.step == 0}
        if _found_nothing_left(tables):
            reported |= trained.keys()
        done += [_DoneEpoch(e, n) for e, n in trained.items() if e in reported - committed]
        done.sort()
    return done


def _found_nothing_left(tables: RunTables) -> bool:
    """Return whether the last attempt found, in a store of its own, that nothing was left to do."""
    last = next(reversed(tables.attempts), None)
    is_idle = last is not None and last.index > 0 and not last.steps and last.place is None
    return is_idle and tables.ending.is_finished


def _contiguity(done: list[_DoneEpoch], terms: LauncherWords) -> Iterator[Anomaly]:
    due = 0
    for epoch, number in done:
        if epoch < due:
            message = f"epoch {epoch} was {terms.ended} twice"
            yield Anomaly(message=message, events=(number,))
        elif epoch > due:
            one = epoch == due + 1
            lost = f"epoch {due} was" if one else f"epochs {due}-{epoch - 1} were"
            message = f"{lost} never {terms.ended}, and epoch {epoch} was"
            yield Anomaly(message=message, events=(number,))
        due = max(due, epoch + 1)


def _wrong_number(analysis: RunAnalysis, reference: RunTables) -> Iterator[Anomaly]:
    ours, due = _done_epochs(analysis.run), _due(reference)
    if analysis.epochs_vary:
        return
    if len(ours) > due:
        message = f"{plural(len(ours), 'epoch')} were trained, the baseline has {due}"
        yield Anomaly(message=message, events=tuple(number for _, number in ours[due:]))
    elif len(ours) < due and analysis.run.ending.is_finished:
        message = f"the job finished after {plural(len(ours), 'epoch')}, the baseline has {due}"
        yield Anomaly(message=message, events=tuple(number for _, number in ours[-1:]))


def _due(reference: RunTables) -> int:
    """Return the number of epochs of the baseline."""
    return len(_done_epochs(reference) if reference.reports_nothing else reference.lineage.commits)


def _released_early(analysis: RunAnalysis, reference: RunTables) -> Iterator[Anomaly]:
    """Yield each dependent job that began before the last epoch was done, or the last step made.

    Epochs are not counted where their number is no proof: see `check_epochs`.
    """
    done, due = _done_epochs(analysis.run), _due(reference)
    is_counted = not (analysis.epochs_vary or analysis.resized or analysis.is_by_steps)
    for number, seen in analysis.history.of(DependentSeen):
        by_then = sum(one.number < number for one in done)
        later = [step.number for step in analysis.run.lineage.all_steps() if step.number > number]
        if seen.began and (later or (is_counted and by_then < due)):
            yield Anomaly(
                message=f"{seen.script} ({seen.after}) began when {by_then} of "
                f"{plural(due, 'epoch')} had been trained",
                events=(number, *later[:1]),
            )


def _steps_in_all(analysis: RunAnalysis, reference: RunTables) -> Iterator[Anomaly]:
    ours, theirs = analysis.run.lineage, reference.lineage
    for rank in theirs.ranks if analysis.run.ending.is_finished and not analysis.resized else ():
        made, due = (sum(c.count(rank, e) for e in c.epochs.get(rank, ())) for c in (ours, theirs))
        if made != due:
            last = [step.number for step in ours.all_steps() if step.rank == rank][-1:]
            message = f"rank {rank} made {plural(made, 'step')} in all, the baseline {due}"
            yield Anomaly(message=message, events=tuple(last), is_result=False)


def _wrong_lengths(analysis: RunAnalysis, reference: RunTables) -> Iterator[Anomaly]:
    ours, theirs = analysis.run.lineage, reference.lineage
    committed = {commit.epoch for commit in ours.commits}
    epochs = {c.epoch for c in theirs.commits}
    if reference.reports_nothing:
        committed, epochs = ({e for e, _ in _done_epochs(c)} for c in (analysis.run, reference))
        if not analysis.run.ending.is_finished:
            # A save as the job is ended, within a notice, looks like the end of its last epoch.
            last = {max(committed, default=-1)}
            committed, epochs = committed - last, epochs - last
    for rank, epoch in sorted(set(ours.steps) | set(theirs.steps), key=lambda key: key[::-1]):
        surplus = ours.count(rank, epoch) - theirs.count(rank, epoch)
        # Each length is judged once: a surplus or missing epoch by its number, one that was resumed
        # in by `cursor`, and the others here.
        if surplus == 0 or (rank, epoch) in ours.resumed or epoch in epochs ^ committed:
            continue
        if analysis.epochs_vary and epoch > max(epochs, default=-1):
            continue  # the baseline never came there
        if any(step.attempt in analysis.resized for step in ours.steps_of(0, epoch)):
            continue  # with another number of workers, an epoch has another number of steps
        is_whole = epoch in committed or analysis.run.ending.is_finished
        if surplus > 0 or is_whole:
            steps = ours.steps_of(rank, epoch)
            yield Anomaly(
                message=f"rank {rank} made {plural(len(steps), 'step')} in epoch {epoch}, "
                f"the baseline {theirs.count(rank, epoch)}",
                events=tuple(s.number for s in steps[-1:]),
                is_result=False,  # a count: what was trained in these steps is the result
            )


def _wrong_epoch_metric(analysis: RunAnalysis, reference: RunTables) -> Iterator[Anomaly]:
    key = analysis.plan.job.epoch_metric
    if key is None:
        return
    theirs = {commit.epoch: commit for commit in reference.lineage.commits}
    for mine in analysis.run.lineage.commits:
        due = _metric_values(theirs[mine.epoch], key) if mine.epoch in theirs else None
        ours = _metric_values(mine, key)
        if due is not None and mine.of_survivors:
            due = due[:1]
        if due is not None and ours != due:
            yield Anomaly(
                message=f"report {mine.epoch} says `{key}` {_metric_words(ours)}, "
                f"the baseline's {_metric_words(due)}",
                events=(mine.number,),
            )
            return


def _metric_values(commit: Commit, key: str) -> list[object]:
    return [metrics.get(key) for metrics in commit.metrics]


def _metric_words(values: list[object]) -> str:
    return " and ".join(dict.fromkeys("nothing" if v is None else str(v) for v in values))


def _usual_cause(analysis: RunAnalysis) -> str | None:
    """Return the usual cause, where it was seen: no rank read the checkpoint that it was handed."""
    for restart in analysis.restarts:
        offered = [c for c in restart.checkpoints.values() if c is not None]
        if offered and restart.attempt.steps and not restart.attempt.asked:
            return f"no rank of attempt {restart.attempt.index} asked for its checkpoint"
    return None
