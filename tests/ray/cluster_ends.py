"""A harness as a process of its own, which is ended, and what belongs to it."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from chaos.model.event import RunStarted
from chaos.run.clock import SystemClock, elapsed_seconds
from chaos.run.held_folders import HELD_ENV
from chaos.run.journal import read_history
from tests.ray.command import ROOT, command

SMOKE = ROOT / "scenarios/smoke/worker_killed_mid_epoch.chaos.yaml"

SOON_S = 20.0


class Harness:
    """A `chaos run` whose baseline trains, and the folder that its cluster lives in."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.output = ""
        self.read_to("attempt 0 started")
        (attending,) = [p for p in self.children() if "chaos.run.held_folders" in p.cmdline()]
        self.folder = Path(attending.cmdline()[-1])
        self.belonging = belonging_to(self.folder)

    def read_to(self, words: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output += line
            if words in line:
                return

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children()

    def child(self, name: str) -> psutil.Process:
        """Return the last child of the harness's of a name, or that runs a module of that name."""
        found = [p for p in self.children() if p.name() == name or name in p.cmdline()]
        return max(found, key=psutil.Process.create_time)

    def end(self, number: int) -> int:
        """Send the harness a signal; gives its exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        self.read_to("a line that never comes")
        return self.process.wait(120)

    def has_left_nothing(self) -> bool:
        return within(
            SOON_S,
            lambda: (
                not self.folder.exists()
                and not any(p.is_running() and not is_zombie(p) for p in self.belonging)
                and not belonging_to(self.folder)
            ),
        )


@contextmanager
def harness(reports: Path, scenario: Path = SMOKE) -> Iterator[Harness]:
    with subprocess.Popen(
        command("run", scenario, "--reports", reports),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield Harness(process)
        finally:
            process.kill()


def belonging_to(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            names_it = any(str(folder) in part for part in process.cmdline())
            if names_it or process.environ().get(HELD_ENV) == str(folder):
                found.append(process)
        except psutil.Error:
            continue
    return found


def is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def within(seconds: float, is_so: Callable[[], bool]) -> bool:
    clock = SystemClock()
    start = clock.now_ns()
    while not is_so():
        if elapsed_seconds(start, clock) > seconds:
            return False
        clock.sleep(0.2)
    return True


def events(reports: Path, kind: type[Any]) -> list[Any]:
    found = (read_history(journals) for journals in reports.rglob("journals"))
    return [entry.event for history in found for entry in history if isinstance(entry.event, kind)]


def again_after(reports: Path) -> list[str]:
    return [why for event in events(reports, RunStarted) if (why := event.again_after)]
