"""What Ray made of evicted pods, as a table of the recorded runs with `evict_node`.

    python -m tests.recorded.evictions

writes it into design note 23; a test holds the note to the recorded histories.
"""

import re
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from chaos.faults.evict_node import HOOK_MORE_S, EvictNode
from chaos.harness import load_recorded_history
from chaos.model.event import FailureDecided, FaultInvoked
from chaos.model.history import History
from chaos.model.launcher import LAUNCHER_FACTS
from chaos.model.plan import Plan
from chaos.run.directory import RunDirectory
from tests.recorded.guard import ROOT, RUNS

NOTE = ROOT / "docs/notes/0023-an-evicted-pod-is-charged-as-a-failure.md"
BEGIN = "<!-- evictions: written by python -m tests.recorded.evictions -->"
END = "<!-- end of evictions -->"

HEAD = (
    "| recorded run | op | SIGTERM, then SIGKILL | Ray's decision | the node, to Ray | charged to |"
)
WORDS = re.compile(r"the actor's node was (.*)")


def table() -> str:
    """Return the table as Markdown: one row for each eviction of each recorded run."""
    rows = [row for folder, plan, history in _runs() for row in _rows(folder, plan, history)]
    return "\n".join((HEAD, "| --- | --: | --- | --: | --- | --- |", *rows))


def _runs() -> Iterator[tuple[str, Plan, History]]:
    with tempfile.TemporaryDirectory() as folder, tarfile.open(RUNS) as archive:
        wanted = [entry for entry in archive if entry.name.startswith("evicted_")]
        archive.extractall(folder, wanted, filter="data")
        for run in sorted(Path(folder).iterdir()):
            directory = RunDirectory(run)
            yield run.name, directory.load_plan(), load_recorded_history(directory)


def _rows(run: str, plan: Plan, history: History) -> Iterator[str]:
    """Yield a row for each eviction; times count from its beginning."""
    decided = {e.attempt: (n, e) for n, e in history.select_events(FailureDecided)}
    for number, invoked in history.select_events(FaultInvoked):
        fault = plan.ops[invoked.op].fault
        assert isinstance(fault, EvictNode)
        at, event = decided[invoked.attempt]
        seconds = (history.time_ns(at) - history.time_ns(number)) / 1e9
        said = [found[1] for error in event.errors.values() if (found := WORDS.search(error))]
        term_s = fault.hook_s + HOOK_MORE_S if fault.hook_s else 0
        what = f"{term_s:g} s, {fault.grace_s:g} s; {_drain(fault)}"
        cells = (f"`{run}`", str(invoked.op), what, f"{seconds:.2f} s", *_told(said, event))
        yield f"| {' | '.join(cells)} |"


def _drain(fault: EvictNode) -> str:
    drain = f"drain {fault.drain_s:g} s" if fault.drain_s else "no drain"
    return f"hook {fault.hook_s:g} s" if fault.hook_s else drain


def _told(said: list[str], event: FailureDecided) -> tuple[str, str]:
    """Return what the dead rank's error says of its node, and the setting that pays for it."""
    unsaid = "still there" if event.error == "PreemptionError" else "named by no error"
    return (
        said[0].partition(":")[0] if said else unsaid
    ), f"`{LAUNCHER_FACTS['ray'].retries.settings[event.charged]}`"


def write() -> None:
    """Write the table into the note."""
    before, _, rest = NOTE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    NOTE.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    write()
