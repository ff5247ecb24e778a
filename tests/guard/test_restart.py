"""What a start knows of the starts before it."""

import os
import socket
import subprocess
import sys

import pytest

from chaos.guard.restart import is_same_job_as
from tests.guard.test_judge import start


def test_a_start_by_the_same_command_is_the_same_job(monkeypatch: pytest.MonkeyPatch) -> None:
    before = start(0)
    monkeypatch.setattr(sys, "orig_argv", list(before.command))
    assert is_same_job_as([start(0, command=("python", "other.py")), before])
    assert not is_same_job_as([before, start(1, command=("python", "other.py"))])


def test_a_start_beside_one_that_is_running_is_another_job(monkeypatch: pytest.MonkeyPatch) -> None:
    command = (sys.executable, "-c", "print(flush=True); input()")
    monkeypatch.setattr(sys, "orig_argv", list(command))
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as running:
        assert running.stdout is not None
        assert running.stdout.readline()
        here = start(0, command=command, pid=running.pid, host=socket.gethostname())
        elsewhere = start(0, command=command, pid=running.pid, host="another")
        # The number of its process, which another one has had in its container.
        own = start(0, command=command, pid=os.getpid(), host=socket.gethostname())
        assert (is_same_job_as([here]), is_same_job_as([elsewhere])) == (False, True)
        assert is_same_job_as([own])
        running.communicate(b"\n")
    assert is_same_job_as([here])
