"""Only processes of the same user are heard at the gates, and only questions of the list."""

import os
import pickle
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from chaos.faults.order import Exhaust, Hang, Order, Raise, Slow
from chaos.faults.world import Target
from chaos.launch.gate_server import GateServer
from chaos.launch.process_world import ProcessWorld
from chaos.model.event import Committed, FailureDecided
from chaos.probe.gates import QUESTIONS, GateConnection, SocketController, StrangerError, connect
from chaos.run.armed_faults import ArmedFaults
from chaos.run.clock import SystemClock

NOBODY = 65534
VICTIM = Target(attempt=1, rank=2, pid=3, node_id="node-0")
ORDERS = [None, Raise("x"), Slow(0.5, None, 3), Hang("python"), Exhaust(7)]


class Answers:
    """Stands for the chaos controller: keeps what it was told, and gives the next order."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.orders: list[Order | None] = list(ORDERS)

    def __getattr__(self, name: str) -> Any:
        if name not in QUESTIONS:
            raise AttributeError(name)
        return lambda *arguments: self.told.append((name, *arguments))

    def await_hold(self, op: int) -> bool:
        return op == 1

    def arrive(self, op: int, target: Target) -> Order | None:
        self.told.append((op, target))
        return self.orders.pop(0)


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def name(answers: Answers, tmp_path: Path) -> Iterator[str]:
    name = f"chaos-test-{os.urandom(4).hex()}"
    server = GateServer(name, answers, ProcessWorld(SystemClock(), 2, ArmedFaults(tmp_path)))  # type: ignore[arg-type]
    yield name
    server.close()


@contextmanager
def asking(name: str) -> Iterator[SocketController]:
    controller = SocketController(name)
    try:
        yield controller
    finally:
        controller._gate.close()  # the process's, and open to its end


def test_every_question_that_can_be_asked_arrives_as_it_was_asked(
    name: str, answers: Answers
) -> None:
    committed = Committed(
        attempt=0, epoch=1, checkpoint=None, metrics=({"loss": float("inf"), "tags": ["a"]},)
    )
    decided = FailureDecided(
        attempt=0, decision="RETRY", charged="failures", error="e", errors={1: "died"}
    )

    with asking(name) as controller:
        controller.group_started({2: (VICTIM, "a handle")})
        controller.committed(committed)
        controller.failure_decided(decided)

        assert [controller.arrive(4, VICTIM) for _ in ORDERS] == ORDERS
        assert (controller.await_hold(1), controller.await_hold(2)) == (True, False)
        assert controller.live_nodes() == ["node-0", "node-1"]
        assert (controller.draining(), controller.preempted()) == ({}, [])
        assert controller.exhausted() == []
    assert answers.told[:2] == [("group_started", {2: VICTIM}), ("committed", committed)]


def test_the_list_of_questions_is_the_server_s(name: str) -> None:
    not_asked = {"ask", "send", "run_directory"}
    asked = {n for n in dir(SocketController) if not n.startswith("_")} - not_asked

    assert asked == set(QUESTIONS)
    assert all(get_type_hints(getattr(SocketController, n)) for n in asked)


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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_listener_of_another_user_is_told_nothing() -> None:
    name = f"chaos-test-{os.urandom(4).hex()}"
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setresuid(NOBODY, NOBODY, NOBODY)
            server = socket.socket(socket.AF_UNIX)
            server.bind(f"\0{name}")
            server.listen()
            os.write(tell, b"1")
            server.accept()[0].recv(1)
        finally:
            os._exit(0)
    os.read(ready, 1)

    with pytest.raises(StrangerError):
        connect(name)
    os.kill(pid, 9)
    os.waitpid(pid, 0)


def test_one_s_own_end_of_a_pair_is_no_stranger() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        GateConnection(ours)
