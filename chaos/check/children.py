"""Child processes of the ranks, which hold state that no check sees."""

from chaos.check.analysis import RunAnalysis
from chaos.check.divergence import find_divergence
from chaos.model.event import LoaderProcesses, ProcessSeen
from chaos.wording import plural


def describe_unseen_children(analysis: RunAnalysis) -> str:
    """Return, as the end of a sentence, that the job has child processes; empty without any.

    Of the rank whose numbers differ first, in any attempt, and without processes of its loaders.
    """
    differing_number = find_divergence(analysis)
    rank = 0 if differing_number is None or differing_number.rank is None else differing_number.rank
    loaders = dict[int, int]()
    child_count = 0
    history = analysis.history
    for number in history.select_numbers(LoaderProcesses, ProcessSeen):
        event = history[number].event
        if isinstance(event, LoaderProcesses) and event.rank == rank:
            loaders[event.attempt] = event.count
        elif isinstance(event, ProcessSeen) and event.rank == rank:
            child_count = max(child_count, event.job_children - loaders.get(event.attempt, 0))
    if not child_count:
        return ""
    return (
        f"; rank {rank} has {plural(child_count, 'child process', 'child processes')} of the "
        f"job's, "
        "whose state no check sees"
    )
