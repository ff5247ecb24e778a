"""The places in the job's code where ranks waited when their run was ended, in words."""

from collections.abc import Iterable, Sequence

from chaos.model.event import ThreadWaits
from chaos.model.history import History
from chaos.words import listed

#: of other threads of a rank, so many are named
_THREADS_MAX = 2


def find_waits(history: History) -> list[tuple[int, ThreadWaits]]:
    """Return the threads that waited in the job's own code, each with its event's number."""
    return list(history.of(ThreadWaits))


def describe_waits(waits: Iterable[ThreadWaits], *, cwd: str, is_still: bool = True) -> str:
    """Return in words where each rank waited; empty where no stack has a line of the job's.

    Of a run that did not stand still it is only known where its threads were.
    """
    by_rank: dict[int, list[ThreadWaits]] = {}
    for wait in waits:
        by_rank.setdefault(wait.rank, []).append(wait)
    # Ranks that wait alike are named together.
    alike: dict[str, list[int]] = {}
    for rank, threads in sorted(by_rank.items()):
        alike.setdefault(_describe_threads(threads, cwd), []).append(rank)
    one, several = ("waits", "wait") if is_still else ("was", "were")
    texts = []
    for text, ranks in alike.items():
        names = listed([str(rank) for rank in ranks])
        who = f"rank {names} {one}" if len(ranks) == 1 else f"ranks {names} {several}"
        texts.append(f"{who} in {text}")
    return "; ".join(texts)


def _describe_threads(threads: Sequence[ThreadWaits], cwd: str) -> str:
    first, *others = sorted(threads, key=lambda wait: not wait.is_main)
    places = list(dict.fromkeys(_describe_place(wait, cwd) for wait in others))[:_THREADS_MAX]
    beside = f", another thread in {listed(places)}" if places else ""
    return f"{_describe_place(first, cwd)}{beside}"


def _describe_place(wait: ThreadWaits, cwd: str) -> str:
    file = wait.file.removeprefix(f"{cwd.rstrip('/')}/")
    callee = f" at `{wait.callee}`" if wait.callee else ""
    caller = "" if wait.caller_line is None else f", called from line {wait.caller_line}"
    return f"{file}:{wait.line}{callee} (in `{wait.function}`{caller})"
