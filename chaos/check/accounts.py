"""The account that a queue gives of a job's starts, beside what was seen of their attempts."""

from collections.abc import Iterator

from chaos.check.analysis import RunAnalysis
from chaos.model.event import JobAccounted, WorkerGroupStarted
from chaos.model.history import History
from chaos.words import plural


def notes(analysis: RunAnalysis) -> Iterator[str]:
    """Yield a note on the starts that Slurm accounts for, and the attempts seen in each.

    No verdict: a right job may have starts without an attempt, which ended before its ranks met.
    """
    told = [f"start {one.start}: {one.how}, {seen}" for one, seen in _starts(analysis.history)]
    if told:
        yield f"Slurm accounts for {plural(len(told), 'start')} of the job: {'; '.join(told)}"


def _starts(history: History) -> Iterator[tuple[JobAccounted, str]]:
    """Yield each start with what was seen in it: the groups since the start before it."""
    # A start that follows a requeue waits for credentials of the one before it for some seconds:
    # its ranks do not meet before the end of that one is recorded.
    groups: list[int] = []
    for number in history.numbers_of(JobAccounted, WorkerGroupStarted):
        event = history[number].what
        if isinstance(event, WorkerGroupStarted):
            groups.append(event.attempt)
        elif isinstance(event, JobAccounted):
            yield event, _in_words(groups)
            groups = []


def _in_words(groups: list[int]) -> str:
    if not groups:
        return "in which no attempt was seen to begin"
    name = "attempt" if len(groups) == 1 else "attempts"
    return f"{name} {', '.join(map(str, groups))}"
