"""Child processes of the ranks, which hold state that no check sees."""

from chaos.check.analysis import RunAnalysis
from chaos.check.divergence import divergence
from chaos.model.event import LoaderProcesses, ProcessSeen
from chaos.words import plural


def describe_unseen_children(analysis: RunAnalysis) -> str:
    """Return, as the end of a sentence, that the job has child processes; empty without any.

    Of the rank whose numbers differ first, in any attempt, and without processes of its loaders.
    """
    first = divergence(analysis)
    rank = 0 if first is None or first.rank is None else first.rank
    loaders = dict[int, int]()
    children = 0
    history = analysis.history
    for number in history.numbers_of(LoaderProcesses, ProcessSeen):
        what = history[number].what
        if isinstance(what, LoaderProcesses) and what.rank == rank:
            loaders[what.attempt] = what.count
        elif isinstance(what, ProcessSeen) and what.rank == rank:
            children = max(children, what.job_children - loaders.get(what.attempt, 0))
    if not children:
        return ""
    return (
        f"; rank {rank} has {plural(children, 'child process', 'child processes')} of the job's, "
        "whose state no check sees"
    )
