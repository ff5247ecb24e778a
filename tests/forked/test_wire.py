"""Messages arrive whole and in order, and the end of a connection is none."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.processes.wire import Wire


@given(st.lists(st.binary(max_size=5_000), max_size=5))
def test_messages_arrive_whole_and_in_order(messages: list[bytes]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender, receiver = Wire(ours), Wire(theirs)
        for message in messages:
            sender.send(message)

        assert [receiver.receive() for _ in messages] == messages


def test_the_end_of_a_connection_is_not_a_message() -> None:
    ours, theirs = socket.socketpair()
    ours.close()

    with theirs, pytest.raises(EOFError):
        Wire(theirs).receive()
