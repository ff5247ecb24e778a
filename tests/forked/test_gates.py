"""Only processes of the same user are heard at the gates, and only questions of the list."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

import pytest

from chaos.faults.world import Target
from chaos.launch.gate_server import GateServer
from chaos.launch.process_world import ProcessWorld
from chaos.model.event import Committed, FailureDecided
from chaos.probe.gates import QUESTIONS, GateConnection, SocketController, StrangerError, connect
from chaos.run.armed_faults import ArmedFaults
from chaos.run.clock import SystemClock
from tests.forked.gates import NOBODY, ORDERS, Answers, asking

VICTIM = Target(attempt=1, rank=2, pid=3, node_id="node-0")


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def name(answers: Answers, tmp_path: Path) -> Iterator[str]:
    name = f"chaos-test-{os.urandom(4).hex()}"
    server = GateServer(name, answers, ProcessWorld(SystemClock(), 2, ArmedFaults(tmp_path)))  # type: ignore[arg-type]
    yield name
    server.close()


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
