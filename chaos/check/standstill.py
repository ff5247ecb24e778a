"""The ranks of a run that was ended: where they waited in the job's code, and which was held."""

from collections.abc import Iterable

from chaos.check.analysis import RunAnalysis
from chaos.check.kinds.progress import WaitingThread
from chaos.check.prose.progress import describe_threads
from chaos.model.event import GateReached, GateReleased, ThreadWaits
from chaos.model.history import History


def find_waits(history: History) -> list[tuple[int, ThreadWaits]]:
    """Return the threads that waited in the job's own code, each with its event's number."""
    return list(history.select_events(ThreadWaits))


def describe_waits(waits: Iterable[ThreadWaits], *, cwd: str, is_still: bool = True) -> str:
    """Return in words where each rank waited; empty where no stack has a line of the job's.

    Of a run that did not stand still it is only known where its threads were.
    """
    return describe_threads(build_waiting_threads(waits, cwd), is_still=is_still)


def build_waiting_threads(waits: Iterable[ThreadWaits], cwd: str) -> tuple[WaitingThread, ...]:
    """Return the threads that waited, their files named from the working folder."""
    folder = f"{cwd.rstrip('/')}/"
    return tuple(
        WaitingThread(
            rank=wait.rank,
            file=wait.file.removeprefix(folder),
            line=wait.line,
            function=wait.function,
            callee=wait.callee,
            caller_line=wait.caller_line,
            is_main=wait.is_main,
        )
        for wait in waits
    )


def find_held_rank(analysis: RunAnalysis) -> int | None:
    """Return the rank that was still held at its place when the run ended; None without one."""
    released_gates = {
        (event.op, event.attempt, event.rank)
        for _, event in analysis.history.select_events(GateReleased)
    }
    last_gates = {
        event.op: (event.op, event.attempt, event.rank)
        for _, event in analysis.history.select_events(GateReached)
    }
    held_ops = {op for op, gate in last_gates.items() if gate not in released_gates}
    for injection in analysis.injections:
        if injection.op.index in held_ops and not injection.outcomes:
            return injection.rank
    return None
