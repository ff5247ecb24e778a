"""`chaos` as a process of its own, in a place of its own, and what such a process leaves behind."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from chaos.run.clock import elapsed_seconds
from tests.campaigns.frame import CLOCK, FILES, PROCESSES, ROOT, TRACEBACK, TRACEBACKS, Tally
from tests.planted import BUGS, planted

TOKEN = "CHAOS_CAMPAIGN"
POLL_S = 0.01
GONE_S = 20.0
# chaos as its console script calls it; the byte says that from here on chaos is in charge.
LAUNCH = (
    "import os, sys; up = int(sys.argv.pop(1)); os.write(up, b'.'); os.close(up); "
    "from chaos.cli import main; main()"
)
# torch's cache of compiled code, one per user and not per process: it is meant to stay.
_OF_TORCH = "torchinductor_"
_DRAFT = re.compile(r"\..+\.\d+$")

SCENARIO = """\
scenario: {name}
job:
  script: {script}
  args: {{epochs: 4}}
  workers: 2
  failure: {{max_failures: 2}}
faults:
  - at: {{epoch: 2, step: 5, rank: 1}}
    kill_worker: {{signal: KILL}}
"""
# Jobs by what is true of each: right, or with a planted bug that a kill brings out.
RIGHT = "digits_ddp"
WRONG = ("digits_optimizer_lost", "digits_rng_lost", "digits_schedule_lost", "digits_one_epoch_off")


def job(name: str) -> Path:
    """Return the script of a job that is kept as a file."""
    return ROOT / "scenarios" / "jobs" / f"{name}.py"


def scenario(folder: Path, name: str) -> Path:
    """Write a scenario that kills one worker of a job; returns its file."""
    file = folder / f"{name}.chaos.yaml"
    script = planted(name, folder) if name in BUGS else job(name)
    file.write_text(SCENARIO.format(name=name, script=script), encoding="utf-8")
    return file


@dataclass(frozen=True)
class Place:
    """A folder of one try. What its processes have in common is a token in their environment."""

    folder: Path
    token: str = field(default_factory=lambda: os.urandom(8).hex())

    @property
    def temporary(self) -> Path:
        """The folder for temporary files, which must be empty in the end."""
        return self.folder / "t"

    @property
    def reports(self) -> Path:
        """The folder for reports."""
        return self.folder / "rep"

    def env(self) -> dict[str, str]:
        """Return the environment of a try, as if there were no terminal and it were not CI."""
        ours = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "PYTEST_"))}
        own = {TOKEN: self.token, "TMPDIR": str(self.temporary), "PYTHONPATH": str(ROOT)}
        return {**ours, "COLUMNS": "200", "NO_COLOR": "1", **own}

    def said(self) -> str:
        """Return what was written to stdout and stderr."""
        files = [file for file in (self.folder / "out", self.folder / "err") if file.exists()]
        return "".join(file.read_text(encoding="utf-8", errors="replace") for file in files)

    def written(self) -> int:
        """Return how much was written to stdout."""
        out = self.folder / "out"
        return out.stat().st_size if out.exists() else 0

    def processes(self) -> list[psutil.Process]:
        """Return the processes with this try's token that are alive, zombies left out."""
        mark = f"{TOKEN}={self.token}".encode()
        return [p for p in map(_process, _pids_with(mark)) if p is not None]

    def files_left(self) -> list[str]:
        """Return temporary files, and drafts of files that were never finished."""
        every = [path.name for path in self.temporary.glob("*")]
        left = [name for name in every if not name.startswith(_OF_TORCH)]
        drafts = self.reports.rglob(".*") if self.reports.is_dir() else ()
        return sorted(left + [path.name for path in drafts if _DRAFT.fullmatch(path.name)])


@contextmanager
def place(parent: Path | None = None) -> Iterator[Place]:
    """Yield a place, which is removed afterwards; its path is short, for unix sockets."""
    folder = Path(tempfile.mkdtemp(prefix="cc-", dir=parent))
    try:
        (folder / "t").mkdir()
        yield (here := Place(folder))
    finally:
        end(here.processes())
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Harness:
    """A running `chaos`; `began_ns` is when chaos's own first line was reached."""

    process: subprocess.Popen[bytes]
    began_ns: int

    @property
    def age_s(self) -> float:
        """How long chaos has been in charge."""
        return elapsed_seconds(self.began_ns, CLOCK)

    def wait(self, within_s: float) -> int | None:
        """Return the exit code, None where it does not end in time."""
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            return None


def start(
    words: Sequence[str | Path], here: Place, before: Sequence[str] = (), **options: Any
) -> Harness:
    """Start `chaos` with its output in the place's files, in a session of its own.

    `before` is a command that calls the one after it; `options` are those of
    `Popen`, in place of the usual ones.
    """
    ours, theirs = os.pipe()
    with (here.folder / "out").open("wb") as out, (here.folder / "err").open("wb") as err:
        usual = {"cwd": here.folder, "env": here.env(), "stdin": subprocess.DEVNULL}
        given = {**usual, "stdout": out, "stderr": err, "start_new_session": True, **options}
        command = [*before, sys.executable, "-c", LAUNCH, str(theirs), *map(str, words)]
        process = subprocess.Popen(command, pass_fds=[theirs], **given)
    os.close(theirs)
    os.read(ours, 1)  # or its end, where it never came so far
    os.close(ours)
    return Harness(process, CLOCK.now_ns())


def run_to_its_end(words: Sequence[str | Path], here: Place, limit_s: float = 300) -> int | None:
    """Run `chaos` undisturbed; returns its exit code, None where it had to be ended."""
    harness = start(words, here)
    code = harness.wait(limit_s)
    if code is None:
        end(here.processes())
        harness.process.wait()
    return code


def look_for_leftovers(
    here: Place,
    tally: Tally,
    what: str,
    *,
    within_s: float = GONE_S,
    besides: Sequence[psutil.Process] = (),
) -> None:
    """Note what a try has left: processes, which are ended, files, and tracebacks.

    `besides` are processes whose environment may not show the token any more:
    Ray's workers write their titles over it.
    """
    began = CLOCK.now_ns()
    while (left := _left(here, besides)) and elapsed_seconds(began, CLOCK) < within_s:
        CLOCK.sleep(0.2)
    if left:
        commands = [_command(process) for process in left]
        tally.violated(PROCESSES, f"{what}: {commands} after {within_s:g} s")
        end(left)
    if files := here.files_left():
        tally.violated(FILES, f"{what}: {files[:5]}")
    look_for_tracebacks(here, tally, what)


def look_for_tracebacks(here: Place, tally: Tally, what: str) -> None:
    """Note a traceback in what was written to the terminal."""
    said = here.said()
    if TRACEBACK in said:
        tally.violated(TRACEBACKS, f"{what}: {said.strip().splitlines()[-1][:200]}")


def end(processes: Sequence[psutil.Process]) -> None:
    """Kill processes, and wait for their end."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(processes, timeout=5)


def signal_session(harness: Harness, number: signal.Signals) -> None:
    """Send a signal to every process of the harness's session, as a terminal does that closes."""
    session = harness.process.pid
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if os.getsid(pid) == session:
                os.kill(pid, number)


def with_env(here: Place, changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return the environment of a place with some variables changed; None takes one away."""
    merged: dict[str, str | None] = {**here.env(), **changes}
    return {name: value for name, value in merged.items() if value is not None}


def _left(here: Place, besides: Sequence[psutil.Process]) -> list[psutil.Process]:
    alive = [p for p in besides if p.is_running() and _process(p.pid) is not None]
    return list({process.pid: process for process in [*here.processes(), *alive]}.values())


def _pids_with(mark: bytes) -> Iterator[int]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes():
                    yield int(folder.name)


def _process(pid: int) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process
    except psutil.NoSuchProcess:
        return None


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[-120:]
    except psutil.Error:
        return f"pid {process.pid}"
