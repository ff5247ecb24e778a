"""What all campaigns share: a tally, its one line of figures, a command line, a bound on a call.

A campaign does seeded harm many times and looks at what came of it. Whatever is not as
promised is a violation with a kind; a campaign without one is clean.
"""

import argparse
import io
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TypeVar

from chaos.run.clock import SystemClock, elapsed_seconds

ROOT = Path(__file__).parents[2]
PROCESSES, FILES, TRACEBACKS = "processes left", "files left", "tracebacks"
CODES, GREENER, BLAMED = "wrong exit codes", "verdicts greener than the truth", "right jobs blamed"
# Every line of figures tells these, whatever else its campaign looks for.
KINDS = (PROCESSES, FILES, TRACEBACKS, CODES, GREENER, BLAMED)
TRACEBACK = "Traceback (most recent call last)"
CLOCK = SystemClock()
Result = TypeVar("Result")


@dataclass
class Tally:
    """What a campaign has done, and what was not as promised. `figures` stand in its line."""

    name: str
    seed: int
    others: tuple[str, ...] = ()
    figures: Counter[str] = field(default_factory=Counter)
    violations: list[tuple[str, str]] = field(default_factory=list)
    tries: int = 0
    skipped: str = ""
    began_ns: int = field(default_factory=CLOCK.now_ns)

    def violated(self, kind: str, what: str) -> None:
        """Note that something was not as promised; `what` must be enough to find it again."""
        assert kind in (*KINDS, *self.others)
        self.violations.append((kind, what))
        say(f"  {kind}: {what}")

    @property
    def is_clean(self) -> bool:
        """Whether everything was as promised."""
        return not self.violations

    def line(self) -> str:
        """Return the one line of figures."""
        if self.skipped:
            return f"{self.name}: skipped: {self.skipped}"
        counts = Counter(kind for kind, _ in self.violations)
        minutes = elapsed_seconds(self.began_ns, CLOCK) / 60
        parts = [
            ", ".join([f"{self.tries:,} tries", *self._figures()]),
            ", ".join(f"{counts[kind]} {kind}" for kind in (*KINDS, *self.others)),
            f"seed {self.seed}, {minutes:.0f} min",
        ]
        return f"{self.name}: {'; '.join(parts)}"

    def _figures(self) -> Iterator[str]:
        for name, count in sorted(self.figures.items()):
            yield f"{count:,} {name}"


@dataclass(frozen=True)
class Asked:
    """How much a campaign is to do, and on which backend where it has a choice."""

    tries: int
    seed: int = 1
    backend: str = "fork"


Campaign = Callable[[Asked], Tally]


def main(campaign: Campaign, *, tries: int, backends: Sequence[str] = ("fork",)) -> None:
    """Carry out a campaign as a command: its line goes to stdout, its progress to stderr."""
    doc = sys.modules["__main__"].__doc__ or ""
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("--tries", type=int, default=tries)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", choices=backends, default=backends[0])
    asked = parser.parse_args()
    # What is started would inherit that they are ignored: by `nohup`, and by `&` in a shell script.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _leave)  # what was started is ended, and its folders are removed
    tally = campaign(Asked(asked.tries, asked.seed, asked.backend))
    sys.stdout.write(f"{tally.line()}\n")
    sys.exit(0 if tally.is_clean else 1)


def _leave(number: int, frame: FrameType | None) -> None:
    del frame
    sys.exit(128 + number)


def say(words: str) -> None:
    """Write a line of progress."""
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


class TooSlowError(BaseException):
    """A call took longer than it may. No `except Exception` on the way may catch it."""


def bounded(call: Callable[[], Result], *, seconds: float) -> Result:
    """Return what a call returns, or raise `TooSlowError`: also out of a wait for a file.

    A thread sends a signal, since pytest-timeout has the process's only alarm.
    """
    is_over = threading.Event()
    caller = threading.get_ident()

    def wake() -> None:
        if not is_over.wait(seconds):
            signal.pthread_kill(caller, signal.SIGUSR2)

    def raise_it(number: int, frame: FrameType | None) -> None:
        del number, frame
        if not is_over.is_set():
            raise TooSlowError(f"longer than {seconds:g} s")

    before = signal.signal(signal.SIGUSR2, raise_it)
    watch = threading.Thread(target=wake, daemon=True)
    watch.start()
    try:
        return call()
    finally:
        is_over.set()
        watch.join()
        signal.signal(signal.SIGUSR2, before)


@contextmanager
def quiet_terminal() -> Iterator[io.StringIO]:
    """Yield what is written to stdout and stderr meanwhile, warnings of libraries included."""
    written, out, err = io.StringIO(), sys.stdout, sys.stderr
    sys.stdout = sys.stderr = written
    try:
        yield written
    finally:
        sys.stdout, sys.stderr = out, err


def is_root() -> bool:
    """Return whether this process may become another user and mount file systems."""
    return os.geteuid() == 0
