"""The first signal ends a command in order; those after it break nothing that is being written."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.process import CHAOS, ROOT, environment

HEAD = """
import contextlib, os, signal, sys, time
from chaos.cli import signals

def send(name):
    os.kill(os.getpid(), getattr(signal, name))

signals.interrupt_when_signalled()
"""


def ended(code: str, *, before: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", before + HEAD + code],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_is_raised_and_its_code_is_known(name: str, code: int) -> None:
    done = ended(
        f"""
try:
    send("{name}")
except KeyboardInterrupt:
    sys.exit(signals.exit_code())
"""
    )

    assert (done.returncode, done.stderr) == (code, "")


def test_what_follows_the_first_signal_interrupts_nothing_that_is_on_its_way_out() -> None:
    done = ended(
        """
class Context:
    def __enter__(self): return self
    def __exit__(self, *_):
        send("SIGTERM")
        print("context")

def rows():
    try:
        yield
        send("SIGTERM")
    finally:
        send("SIGHUP")
        print("rows")

try:
    try:
        with Context():
            list(rows())
    finally:
        send("SIGINT")
        print("written")
except KeyboardInterrupt:
    sys.exit(signals.exit_code())
"""
    )

    assert (done.returncode, done.stdout) == (143, "rows\ncontext\nwritten\n")
    assert "Ctrl-C once more leaves at once" in done.stderr


def test_the_third_press_of_ctrl_c_leaves_at_once() -> None:
    done = ended(
        """
try:
    send("SIGINT")
finally:
    send("SIGINT")
    send("SIGINT")
    print("never", flush=True)
"""
    )

    assert (done.returncode, done.stdout) == (130, "")


def test_a_signal_that_somebody_swallowed_can_be_sent_again() -> None:
    done = ended(
        """
with contextlib.suppress(KeyboardInterrupt):
    send("SIGTERM")
try:
    send("SIGHUP")
except KeyboardInterrupt as error:
    print(error)
"""
    )

    assert done.stdout == "SIGTERM\n"


def test_a_signal_while_something_is_written_comes_after_it() -> None:
    done = ended(
        """
try:
    with signals.delay_signals():
        send("SIGTERM")
        print("written")
    print("never")
except KeyboardInterrupt:
    print("raised")
"""
    )

    assert done.stdout == "written\nraised\n"


def test_what_was_ignored_stays_ignored() -> None:
    done = ended(
        'send("SIGHUP"); print("goes on")',
        before="import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n",
    )

    assert (done.returncode, done.stdout) == (0, "goes on\n")


def test_a_fork_ends_by_signals_as_any_process() -> None:
    done = ended(
        """
pid = os.fork()
if pid == 0:
    send("SIGTERM")
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    )

    assert done.stdout == f"{-signal.SIGTERM}\n"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_during_imports_it_ends_at_once_and_without_a_word(name: str, tmp_path: Path) -> None:
    """The first module that a command imports is one that sends the signal."""
    (tmp_path / "rich").mkdir()
    (tmp_path / "rich" / "__init__.py").write_text(
        f"import os, signal; os.kill(os.getpid(), signal.{name}); assert False\n"
    )
    done = subprocess.run(
        [*CHAOS, "schema"],
        env=environment(PYTHONPATH=f"{tmp_path}:{ROOT}"),
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )

    assert (done.returncode, done.stdout, done.stderr) == (
        128 + getattr(signal, name),
        "",
        "",
    )
