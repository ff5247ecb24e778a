"""The files whose content is lost with a machine's power, as it was written and not synced."""

from collections.abc import Iterable, Mapping

from chaos.model.event import JournalOpened, StepDone
from chaos.model.history import History
from chaos.model.trigger import path_patterns
from chaos.probe.written import FileState, Written

_ANEW, _IN_PARTS = ("created", "replaced"), ("extended", "opened")


def written_anew(lines: Iterable[Written]) -> set[str]:
    """Return the training's files that were written as a whole, by what does not sync them unseen.

    Most content of a file that is appended to, or changed in place, is older.
    """
    lines = list(lines)
    found = {line.path for line in lines if line.is_output and line.how in _ANEW}
    by_themselves = {line.path for line in lines if line.how == "synced" and not line.state}
    return found - by_themselves - {line.path for line in lines if line.how in _IN_PARTS}


def at_risk(
    states: Mapping[str, FileState], lines: Iterable[Written], *, since_ns: float
) -> list[str]:
    """Return which of some files, in their present states, a loss of power may leave empty.

    Linux writes back what is older than 30 s (`vm.dirty_expire_centisecs`, by default); the time of
    a real epoch is longer, and that of one in a test is not. So those are at risk that were written
    since one epoch ago (unix, ns): of files whose names differ in numbers alone, the newest.
    """
    synced = {tuple(line.state) for line in lines if line.how == "synced"}
    all_ns = max((state[0] for state in synced if len(state) == 1), default=0)
    patterns = path_patterns([list(states)])
    newest: dict[str, str] = {}
    for path in sorted(states, key=lambda path: (states[path][1], path)):
        newest[patterns[path]] = path
    changed = {path: states[path][1] for path in newest.values()}
    since_ns = max(since_ns, all_ns)
    return sorted(p for p, ns in changed.items() if ns > since_ns and states[p] not in synced)


def an_epoch_ago_ns(history: History) -> float:
    """Return the time that lies one epoch of steps before the last one (unix, ns); 0 without any.

    What was saved as the epoch before ended came later, and the save before that one earlier.
    """
    opened = {history[number].source: (number, e) for number, e in history.of(JournalOpened)}
    done = [(number, step) for number, step in history.of(StepDone)]
    if not done:
        return 0.0
    epoch, step, rank = done[-1][1].epoch, done[-1][1].step, done[-1][1].rank
    ago = ((epoch - 1, step + 1), (epoch, 1) if step > 1 else (epoch - 1, 1))
    for place in ago:
        for number, event in reversed(done):
            if (event.epoch, event.step) == place and event.rank == rank:
                first, journal = opened[history[number].source]
                return journal.wall_ns + history.time_ns(number) - history.time_ns(first)
    return 0.0
