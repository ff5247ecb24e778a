"""Strangers, and what is no question, are not heard."""

import os
import pickle
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.launch.gate_server import GateServer
from chaos.launch.process_world import ProcessWorld
from chaos.probe.gates import StrangerError, connect
from chaos.run.armed_faults import ArmedFaults
from chaos.run.clock import SystemClock
from tests.forked.gates import NOBODY, Answers, asking


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def name(answers: Answers, tmp_path: Path) -> Iterator[str]:
    name = f"chaos-test-{os.urandom(4).hex()}"
    server = GateServer(name, answers, ProcessWorld(SystemClock(), 2, ArmedFaults(tmp_path)))  # type: ignore[arg-type]
    yield name
    server.close()


@pytest.mark.parametrize(
    "body",
    [
        pickle.dumps(("arrive", ())),
        b"\xff" * 9,
        b"",
        b"\x92\xa4quit\x90",  # in the right form, and no question
        b"\x92\xa6arrive\x90",  # a question without what it is asked with
    ],
    ids=["pickle", "garbage", "nothing", "unknown", "too few arguments"],
)
def test_what_is_no_question_ends_its_own_connection_alone(name: str, body: bytes) -> None:
    end = socket.socket(socket.AF_UNIX)
    end.connect(f"\0{name}")
    with end:
        end.sendall(struct.pack(">I", len(body)) + body)
        assert end.recv(1) == b""

    with asking(name) as controller:
        assert controller.live_nodes() == ["node-0", "node-1"]


def test_a_length_beyond_all_reason_is_not_waited_for(name: str) -> None:
    end = socket.socket(socket.AF_UNIX)
    end.connect(f"\0{name}")
    with end:
        end.sendall(b"\xff\xff\xff\xff")
        assert end.recv(1) == b""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_not_heard(name: str, tmp_path: Path) -> None:
    proof = tmp_path / "executed"
    pid = os.fork()
    if pid == 0:
        code = 9
        try:
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            code = _attack(name, proof)
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert not proof.exists()
    with asking(name) as controller:
        assert controller.live_nodes() == ["node-0", "node-1"]


def _attack(name: str, proof: Path) -> int:
    """Return 0 where neither a connection of one's own nor one as a client is of any use."""
    try:
        connect(name)
    except StrangerError:
        refused = True
    else:
        refused = False
    end = socket.socket(socket.AF_UNIX)
    end.settimeout(10)
    end.connect(f"\0{name}")
    body = pickle.dumps(_Touches(str(proof)))
    try:
        end.sendall(struct.pack(">I", len(body)) + body)
        is_closed = end.recv(1) == b""
    except (BrokenPipeError, ConnectionResetError):
        is_closed = True
    return 0 if refused and is_closed else 1


class _Touches:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.path, "w")
