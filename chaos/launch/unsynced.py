"""The files whose content is lost with a machine's power, as it was written and not synced."""

from collections.abc import Iterable, Mapping

from chaos.model.event import JournalOpened, StepDone
from chaos.model.history import History
from chaos.model.trigger import build_path_patterns
from chaos.probe.write_ledger import FileState, LedgerLine

_WHOLE_WRITES, _PARTIAL_WRITES = ("created", "replaced"), ("extended", "opened")


def find_rewritten(lines: Iterable[LedgerLine]) -> set[str]:
    """Return the training's files that were written as a whole, by what does not sync them unseen.

    Most content of a file that is appended to, or changed in place, is older.
    """
    lines = list(lines)
    whole_files = {line.path for line in lines if line.is_output and line.how in _WHOLE_WRITES}
    self_synced = {line.path for line in lines if line.how == "synced" and not line.state}
    return whole_files - self_synced - {line.path for line in lines if line.how in _PARTIAL_WRITES}


def find_files_at_risk(
    states: Mapping[str, FileState], lines: Iterable[LedgerLine], *, since_ns: float
) -> list[str]:
    """Return which of some files, in their present states, a loss of power may leave empty.

    Linux writes back what is older than 30 s (`vm.dirty_expire_centisecs`, by default); the time of
    a real epoch is longer, and that of one in a test is not. So those are at risk that were written
    since one epoch ago (unix, ns): of files whose names differ in numbers alone, the newest.
    """
    synced = {tuple(line.state) for line in lines if line.how == "synced"}
    all_ns = max((state[0] for state in synced if len(state) == 1), default=0)
    patterns = build_path_patterns([list(states)])
    newest: dict[str, str] = {}
    for path in sorted(states, key=lambda path: (states[path][1], path)):
        newest[patterns[path]] = path
    change_times = {path: states[path][1] for path in newest.values()}
    since_ns = max(since_ns, all_ns)
    return sorted(
        changed_path
        for changed_path, ns in change_times.items()
        if ns > since_ns and states[changed_path] not in synced
    )


def find_epoch_ago_ns(history: History) -> float:
    """Return the time that lies one epoch of steps before the last one (unix, ns); 0 without any.

    What was saved as the epoch before ended came later, and the save before that one earlier.
    """
    journals = {
        history[number].source: (number, opening)
        for number, opening in history.select_events(JournalOpened)
    }
    steps = [(number, step) for number, step in history.select_events(StepDone)]
    if not steps:
        return 0.0
    epoch, step, rank = steps[-1][1].epoch, steps[-1][1].step, steps[-1][1].rank
    candidates = ((epoch - 1, step + 1), (epoch, 1) if step > 1 else (epoch - 1, 1))
    for training_place in candidates:
        for number, event in reversed(steps):
            if (event.epoch, event.step) == training_place and event.rank == rank:
                first_number, journal = journals[history[number].source]
                return journal.wall_ns + history.time_ns(number) - history.time_ns(first_number)
    return 0.0
