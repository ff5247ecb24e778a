"""Memory is the machine's: of all runs side by side the largest process ends, and no other."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from chaos.model.event import MemoryExhausted
from chaos.processes import memory_monitor
from chaos.processes.memory_monitor import MemoryMonitor
from chaos.run.clock import SystemClock
from chaos.run.journal import Journal, read_history

HOLDS = (
    "import sys, time; held = b'1' * (int(sys.argv[1]) << 20); print(flush=True); time.sleep(90)"
)


@contextmanager
def holding(mib: int) -> Iterator[psutil.Process]:
    """Yield a process that holds so much memory."""
    words = [sys.executable, "-c", HOLDS, str(mib)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield psutil.Process(process.pid)
        finally:
            process.kill()


def look(run: MemoryMonitor, ranks: dict[int, int], folder: Path) -> list[tuple[int, int | None]]:
    """Have a run look; gives the pids and ranks that it ended."""
    folder.mkdir(exist_ok=True)
    journal = Journal(folder, "harness", role="harness", clock=SystemClock())
    run.kill_largest(ranks, journal)
    journal.close()
    return [(e.pid, e.rank) for _, e in read_history(folder).select_events(MemoryExhausted)]


def test_a_run_ends_what_is_its_own_and_leaves_it_alone_where_another_run_holds_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as opened:
        hog, modest, driver = (opened.enter_context(holding(mib)) for mib in (64, 4, 128))
        monkeypatch.setattr(
            memory_monitor, "measure_used_share", lambda: 1.0 if hog.is_running() else 0.5
        )
        theirs, ours = MemoryMonitor(), MemoryMonitor()
        opened.enter_context(theirs.watch_processes(lambda: [hog, driver], lambda: driver.pid))
        opened.enter_context(ours.watch_processes(lambda: [modest], lambda: None))

        assert look(ours, {modest.pid: 0}, tmp_path / "ours") == []
        assert hog.is_running()

        # Its rank, for it is the driver that holds the most, and Ray ends no driver either.
        assert look(theirs, {hog.pid: 3}, tmp_path / "theirs") == [(hog.pid, 3)]

        monkeypatch.setattr(memory_monitor, "measure_used_share", lambda: 0.5)
        assert look(ours, {modest.pid: 0}, tmp_path / "ours") == []
        assert modest.is_running()
        assert driver.is_running()


def test_a_run_that_is_over_is_looked_at_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_monitor, "measure_used_share", lambda: 1.0)
    with holding(64) as past, holding(4) as present:
        over, ours = MemoryMonitor(), MemoryMonitor()
        with over.watch_processes(lambda: [past], lambda: None):
            pass
        with ours.watch_processes(lambda: [present], lambda: None):
            assert look(ours, {}, tmp_path / "ours") == [(present.pid, None)]
        assert past.is_running()
