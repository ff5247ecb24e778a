"""The account that a queue gives of a job's starts, beside what was seen of their attempts."""

from collections.abc import Iterator

from chaos.check.analysis import RunAnalysis
from chaos.model.event import JobAccounted, WorkerGroupStarted
from chaos.model.history import History
from chaos.wording import plural


def describe_job_starts(analysis: RunAnalysis) -> Iterator[str]:
    """Yield a note on the starts that Slurm accounts for, and the attempts seen in each.

    No verdict: a right job may have starts without an attempt, which ended before its ranks met.
    """
    descriptions = [
        f"start {account.start}: {account.outcome}, {attempts}"
        for account, attempts in _find_starts(analysis.history)
    ]
    if descriptions:
        yield (
            f"Slurm accounts for {plural(len(descriptions), 'start')} of the job: "
            f"{'; '.join(descriptions)}"
        )


def _find_starts(history: History) -> Iterator[tuple[JobAccounted, str]]:
    """Yield each start with what was seen in it: the groups since the start before it."""
    # A start that follows a requeue waits for credentials of the one before it for some seconds:
    # its ranks do not meet before the end of that one is recorded.
    attempts: list[int] = []
    for number in history.select_numbers(JobAccounted, WorkerGroupStarted):
        event = history[number].event
        if isinstance(event, WorkerGroupStarted):
            attempts.append(event.attempt)
        elif isinstance(event, JobAccounted):
            yield event, _describe_attempts(attempts)
            attempts = []


def _describe_attempts(attempts: list[int]) -> str:
    if not attempts:
        return "in which no attempt was seen to begin"
    noun = "attempt" if len(attempts) == 1 else "attempts"
    return f"{noun} {', '.join(map(str, attempts))}"
