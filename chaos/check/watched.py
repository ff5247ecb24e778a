"""Was the run seen from beginning to end?"""

from collections.abc import Iterator

from chaos.check.attempt import Attempt
from chaos.check.belonging import mixed_up
from chaos.check.result import conclude, plural
from chaos.check.trial import Trial
from chaos.model.event import Disturbed, FaultInvoked, JournalCut, ObserverFailed, ProbeFailed
from chaos.model.verdict import CheckResult

NAME = "watched"


def check(trial: Trial) -> CheckResult:
    """Require that nothing a check reads is missing from the history.

    Unknown where the run was disturbed, a file of it is another run's or lacks
    lines, observer or probe failed, a journal is torn, or was lost with
    its node before all of it had come from there, a rank trained
    without having started, steps are missing between two steps, no worker
    group was seen, or the run was left before its end. A worker that we
    killed ourselves may leave a last line unfinished.
    """
    doubts = [*failures(trial), *_torn(trial)]
    for attempt in trial.run.attempts:
        doubts += [*_unheard(attempt), *_gaps(attempt)]
    if not any(attempt.opened is not None for attempt in trial.run.attempts):
        doubts.append("no worker group was seen")
    ended = trial.run.ending.ended
    if ended is None:
        doubts.append("the end of the run was not recorded")
    elif ended[1].interrupted:
        doubts.append("the run was interrupted")
    sources = {entry.source for entry in trial.history.entries}
    seen = plural(len(trial.history), "event")
    summary = f"{seen} in {plural(len(sources), 'journal')}, none torn or missing"
    return conclude(NAME, doubts=doubts, evidence=len(trial.history), summary=summary)


def failures(trial: Trial) -> Iterator[str]:
    """Give what we failed in ourselves: what is missing then proves nothing of the job.

    So it is with files that do not belong together, or were damaged since.
    """
    for _, disturbed in trial.history.of(Disturbed):
        yield disturbed.why
    yield from mixed_up(trial)
    for _, failed in trial.history.of(ObserverFailed):
        yield f"the observer failed in {failed.where}: {failed.error}"
    for _, lost in trial.history.of(ProbeFailed):
        yield f"the probe of rank {lost.rank} failed in {lost.where}: {lost.error}"
    for _, cut in trial.history.of(JournalCut):
        yield (
            f"what {cut.source} wrote last is unknown: node {cut.node_id[:8]} was lost with it "
            "before it had come from there"
        )


def _torn(trial: Trial) -> Iterator[str]:
    struck = {f"worker-{pid}" for pid in _killed_pids(trial)}
    for source in trial.history.torn:
        if source not in struck:
            yield f"the last line of the journal {source} is cut short"


def _killed_pids(trial: Trial) -> set[int]:
    invoked = [event for _, event in trial.history.of(FaultInvoked)]
    on_nodes = {op.index for op in trial.plan.ops if op.fault.nodes_lost}
    on_all = {op.index for op in trial.plan.ops if op.fault.takes_others}
    lost_nodes = {e.node_id for e in invoked if e.op in on_nodes}
    groups = {e.attempt for e in invoked if e.op in on_all}
    places = [(a.index, place) for a in trial.run.attempts for place in a.places]
    struck = {p.pid for index, p in places if p.node_id in lost_nodes or index in groups}
    return {e.pid for e in invoked} | struck


def _unheard(attempt: Attempt) -> Iterator[str]:
    heard = {step.rank for step in attempt.steps}
    if attempt.commits:
        heard |= {place.rank for place in attempt.places}
    for rank in sorted(heard - set(attempt.starts)):
        yield f"how rank {rank} of attempt {attempt.index} started was not seen"


def _gaps(attempt: Attempt) -> Iterator[str]:
    """Find holes in what we saw: each worker counts its steps from 1, or from where it went on."""
    places = {(rank, start.epoch): start.step for rank, start in attempt.starts.items()}
    for (rank, epoch), steps in attempt.by_epoch.items():
        before = places.get((rank, epoch), 0)
        for step in steps:
            if step.step != before + 1:
                yield (
                    f"rank {rank} of attempt {attempt.index} went from step {before} to "
                    f"{step.step} of epoch {epoch}: the history has a hole"
                )
            before = step.step
