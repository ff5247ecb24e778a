"""A process of a run, to be started: a new interpreter, or a fork of one that is warm."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from chaos.errors import HarnessError
from chaos.processes.forks import Forks, build_death_error
from chaos.processes.tree import is_running
from chaos.run.clock import SystemClock, elapsed_seconds

# For the forker to fork a process, likewise a matter of milliseconds.
FORK_S = 30.0
END_S = 5.0
POLL_S = 0.01


@dataclass(frozen=True)
class ProcessStart:
    """The start of a process: the words after the interpreter's own, environment, streams.

    A stream without a name is that of the process that starts this one.
    """

    words: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    stdout: str | None = None
    stderr: str | None = None
    #: the process that holds the view that it enters, None for none
    view: int | None = None


class ForkedProcess:
    """A forked process in the manner of `subprocess.Popen`; it leads a session of its own.

    Raises `HarnessError` if the process that forks is gone.
    """

    def __init__(self, forks: Forks, start: ProcessStart, *, process_name: str) -> None:
        self._forks = forks
        self._process_name = process_name
        self._clock = SystemClock()
        self.returncode: int | None = None
        self.pid, wire = forks.fork(start)
        wire.end.settimeout(FORK_S)
        try:
            wire.receive()  # from here on signals to its process group reach it
        except EOFError:  # it has ended: `poll` returns how
            pass
        except TimeoutError as error:
            raise HarnessError(f"{process_name} did not come to its first line") from error
        finally:
            wire.close()

    def poll(self) -> int | None:
        if self.returncode is None:
            within_s = 0.0 if is_running(self.pid) else END_S
            self.returncode = self._forks.exit_code(self.pid, within_s=within_s)
            if self.returncode is None and within_s:
                raise build_death_error(f"the process that {self._process_name} was forked from")
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        start = self._clock.now_ns()
        while (code := self.poll()) is None:
            if timeout is not None and elapsed_seconds(start, self._clock) > timeout:
                raise subprocess.TimeoutExpired(self._process_name, timeout)
            self._clock.sleep(POLL_S)
        return code


Process: TypeAlias = "subprocess.Popen[bytes] | ForkedProcess"
Starter: TypeAlias = Callable[[ProcessStart], Process]
