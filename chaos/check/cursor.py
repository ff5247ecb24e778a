"""Did every restart go on at the place that its checkpoint says?"""

from collections.abc import Iterator, Sequence

from chaos.check.attempt import Start
from chaos.check.repeats import Repeat, repeats, surplus
from chaos.check.restarts import Restart
from chaos.check.result import conclude, nothing_due, plural, unknown, without_restart
from chaos.check.shift import shifts
from chaos.check.trial import Course, Trial
from chaos.model.verdict import Anomaly, CheckResult

NAME = "cursor"


def check(trial: Trial) -> CheckResult:
    """Require that training goes on where the checkpoint left it: no step twice, none left out.

    The promise of the cursor. The first epoch after a restart has the
    baseline's number of steps per rank: workers count them from their last
    report, so a part that is done twice (Lightning-AI/pytorch-lightning#19815)
    or left out (Lightning-AI/pytorch-lightning#5325) shows as another number.
    And its inputs are not those of another place, by as many steps as the
    whole run is too long or too short: such a job went back, or ahead
    (Lightning-AI/pytorch-lightning#850, a finished epoch trained again).
    With `expect.sampling: at_least_once` that epoch may be longer by as many
    steps as the restart threw away on the rank, and never shorter: a source
    that has not heard of the newest steps hands their samples out again. They
    stay in the lineage, and what comes after them has no equal in the
    baseline. An attempt with another number of workers is left out.
    """
    if not trial.restarts:
        return without_restart(NAME, trial)
    if trial.reference is None:
        return unknown(NAME, f"{trial.no_reference} to count an epoch's steps by")
    anomalies, doubts, counted = [], [], 0
    alike = [r for r in trial.restarts if r.attempt.index not in trial.resized]
    if not alike:
        return nothing_due(NAME, "after the restart an epoch has another number of workers' steps")
    for restart in alike:
        anomalies += list(_anomalies(restart, trial, trial.reference)) or list(
            _shifted(restart, trial)
        )
        whole = sum(_is_whole(restart, start, trial) for start in _starts(restart))
        if whole == 0 and restart is trial.restarts[-1] and not trial.error_was_expected:
            doubts.append(f"no rank finished the first epoch of attempt {restart.attempt.index}")
        counted += whole
    again = list(repeats(trial))
    if again and (trial.feeds is None or not trial.feeds.are_watched):
        doubts.append(f"{_again(again)}; of which samples they were is not known")
    if not counted and not anomalies and trial.error_was_expected:
        return nothing_due(NAME, "the job stopped, as expected, before it had an epoch whole again")
    return conclude(
        NAME,
        anomalies=anomalies,
        doubts=doubts,
        evidence=counted,
        summary=(_again(again) if again else "no step repeated or skipped")
        + f" after {plural(len(alike), 'restart')}"
        + (", as `sampling: at_least_once` allows; none was skipped" if again else ""),
    )


def _again(made: Sequence[Repeat]) -> str:
    """Say how many steps of the job: those of the rank that made most of them again."""
    most: dict[int, int] = {}
    for repeat in made:
        most[repeat.attempt] = max(most.get(repeat.attempt, 0), repeat.steps)
    return f"{plural(sum(most.values()), 'step')} trained a second time"


def _shifted(restart: Restart, trial: Trial) -> Iterator[Anomaly]:
    by = shifts(trial).get(restart.attempt.index)
    if by is None or -by in {r.steps for r in repeats(trial) if r.attempt == restart.attempt.index}:
        return
    did = "trained again" if by < 0 else "left out"
    yield Anomaly(
        message=f"attempt {restart.attempt.index} went {'back' if by < 0 else 'ahead'}: at epoch "
        f"{restart.epoch} it was given the inputs that the baseline has {plural(abs(by), 'step')} "
        f"{'before' if by < 0 else 'after'} that place; they were {did}",
        events=tuple(start.number for start in _starts(restart)),
    )


def _starts(restart: Restart) -> list[Start]:
    return [start for _, start in sorted(restart.attempt.starts.items())]


def _is_whole(restart: Restart, start: Start, trial: Trial) -> bool:
    """Say whether the rank made all the steps it was going to make in its first epoch."""
    is_last = restart is trial.restarts[-1]
    finished = is_last and trial.run.ending.is_finished
    return finished or restart.attempt.ended_epoch(start.rank, start.epoch)


def _anomalies(restart: Restart, trial: Trial, reference: Course) -> Iterator[Anomaly]:
    for start in _starts(restart):
        rank, epoch = start.rank, start.epoch
        steps = restart.attempt.by_epoch.get((rank, epoch), ())
        due = reference.lineage.count(rank, epoch) - start.step
        more = surplus(restart, start, reference)
        if more == 0 or (more < 0 and not _is_whole(restart, start, trial)):
            continue
        lost = restart.lost_steps.get(rank, 0)
        is_lax = trial.plan.expect.sampling == "at_least_once"
        if is_lax and 0 < more <= lost:
            continue
        did = "repeated" if more > 0 else "skipped"
        allowed = f"; it threw away {lost}" if is_lax and more > 0 else ""
        yield Anomaly(
            message=f"rank {rank} {did} {plural(abs(more), 'step')} of epoch {epoch} after "
            f"the restart: {len(steps)} instead of {due}{allowed}",
            events=(start.number, *(s.number for s in steps[due:])),
        )
