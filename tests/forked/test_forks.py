"""A process that forks on request: each child has a connection, and its end is noticed at once."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaos.errors import HarnessError
from chaos.processes.forks import ForkingProcess, Forks, build_death_error, serve_forks
from chaos.processes.wire import Wire

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forks beside threads


@contextmanager
def forks() -> Iterator[tuple[int, Forks]]:
    """Yield a process that forks children who repeat what they are told, and the handle to it."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        try:
            request, wire = serve_forks(Wire(theirs))
            while request != "die":
                wire.send((request, wire.receive()))
        finally:
            os._exit(3)
    theirs.close()
    handle = Forks(Wire(ours), lambda: build_death_error("the process that forks"))
    try:
        yield pid, handle
    finally:
        handle.close()
        os.waitpid(pid, 0)


def test_each_child_has_the_request_and_a_connection_of_its_own() -> None:
    with forks() as (_, handle):
        (one, to_one), (two, to_two) = handle.fork("one"), handle.fork("two")
        to_two.send(2)
        to_one.send(1)

        assert (to_one.receive(), to_two.receive()) == (("one", 1), ("two", 2))
        assert one != two
        for wire in (to_one, to_two):
            wire.close()


def test_a_child_that_ends_is_noticed_by_its_connection_and_its_code_is_told() -> None:
    with forks() as (_, handle):
        pid, wire = handle.fork("die")

        with pytest.raises(EOFError):
            wire.receive()
        assert handle.exit_code(pid, within_s=10) == 3
        wire.close()


def test_where_the_process_that_forks_is_killed_it_is_said_what_is_gone() -> None:
    with forks() as (pid, handle):
        os.kill(pid, 9)

        with pytest.raises(HarnessError, match="the process that forks is gone, and chaos did not"):
            handle.fork("one")


def test_a_socket_that_is_handed_over_with_a_message_is_the_same_connection() -> None:
    ours, theirs = socket.socketpair()
    left, right = socket.socketpair()
    with ours, left:
        Wire(ours).send("take it", passed_socket=right)
        right.close()
        message, along = Wire(theirs).receive_with_socket()
        theirs.close()
        assert message == "take it"
        assert along is not None
        with along:
            Wire(left).send("hello")
            assert Wire(along).receive() == "hello"


@pytest.mark.parametrize(
    ("line", "how"),
    [
        ("raise SystemExit('no torch here')", "ended by itself, with exit code 1: no torch here"),
        ("raise SystemExit(3)", "ended by itself, with exit code 3: it printed nothing"),
        ("import os; os.kill(os.getpid(), 15)", "was ended by SIGTERM, and chaos did not end it"),
    ],
)
def test_a_process_that_ends_before_it_forks_is_named_by_how_it_ended(
    line: str, how: str, tmp_path: Path
) -> None:
    log = tmp_path / "root.log"
    process = ForkingProcess(["-c", line], env={}, cwd=str(tmp_path), log=log)
    try:
        with pytest.raises(HarnessError) as caught:
            process.forks.fork("job")
    finally:
        process.end()

    said = f"the process that jobs are forked from (it wrote to {log}) {how}"
    assert str(caught.value) == said
