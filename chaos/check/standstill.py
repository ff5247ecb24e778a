"""The places in the job's code where ranks waited when their run was ended, in words."""

from collections.abc import Iterable, Sequence

from chaos.model.event import ThreadWaits
from chaos.model.history import History
from chaos.wording import join_names

#: of other threads of a rank, so many are named
_THREADS_MAX = 2


def find_waits(history: History) -> list[tuple[int, ThreadWaits]]:
    """Return the threads that waited in the job's own code, each with its event's number."""
    return list(history.select_events(ThreadWaits))


def describe_waits(waits: Iterable[ThreadWaits], *, cwd: str, is_still: bool = True) -> str:
    """Return in words where each rank waited; empty where no stack has a line of the job's.

    Of a run that did not stand still it is only known where its threads were.
    """
    by_rank: dict[int, list[ThreadWaits]] = {}
    for wait in waits:
        by_rank.setdefault(wait.rank, []).append(wait)
    # Ranks that wait alike are named together.
    ranks_by_text: dict[str, list[int]] = {}
    for rank, threads in sorted(by_rank.items()):
        ranks_by_text.setdefault(_describe_threads(threads, cwd), []).append(rank)
    singular_verb, plural_verb = ("waits", "wait") if is_still else ("was", "were")
    texts = []
    for text, ranks in ranks_by_text.items():
        rank_names = join_names([str(rank) for rank in ranks])
        subject = (
            f"rank {rank_names} {singular_verb}"
            if len(ranks) == 1
            else f"ranks {rank_names} {plural_verb}"
        )
        texts.append(f"{subject} in {text}")
    return "; ".join(texts)


def _describe_threads(threads: Sequence[ThreadWaits], cwd: str) -> str:
    main_wait, *other_waits = sorted(threads, key=lambda wait: not wait.is_main)
    source_locations = list(dict.fromkeys(_describe_location(wait, cwd) for wait in other_waits))[
        :_THREADS_MAX
    ]
    others_text = f", another thread in {join_names(source_locations)}" if source_locations else ""
    return f"{_describe_location(main_wait, cwd)}{others_text}"


def _describe_location(wait: ThreadWaits, cwd: str) -> str:
    file = wait.file.removeprefix(f"{cwd.rstrip('/')}/")
    callee = f" at `{wait.callee}`" if wait.callee else ""
    caller = "" if wait.caller_line is None else f", called from line {wait.caller_line}"
    return f"{file}:{wait.line}{callee} (in `{wait.function}`{caller})"
