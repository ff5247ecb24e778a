"""Messages between the processes of a run: length, then a pickle, over a unix socket.

Both ends are of one `socketpair`, inherited or handed over by another process: there is no
name that another user of the machine could connect to. (The gates have a name, and
exchange no pickles: see `probe.gates`.)
"""

import pickle
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

_LENGTH = struct.Struct(">I")


class Wire:
    """One end of a connection; `send` may be called from several threads."""

    def __init__(self, end: socket.socket, dumps: Callable[[Any], bytes] = pickle.dumps) -> None:
        self.end = end
        self._dumps = dumps
        self._lock = threading.Lock()

    def send(
        self, message: Any, *, passed_socket: socket.socket | None = None
    ) -> None:  # whatever can be pickled
        """Send one message, whole, and hand over a socket along with it.

        Raises `OSError` if the other end is gone.
        """
        body = self._dumps(message)
        with self._lock:
            if passed_socket is None:
                self.end.sendall(_LENGTH.pack(len(body)) + body)
            else:
                # One byte carries the socket: of a longer part only some bytes might be sent.
                socket.send_fds(self.end, [_LENGTH.pack(len(body))[:1]], [passed_socket.fileno()])
                self.end.sendall(_LENGTH.pack(len(body))[1:] + body)

    def receive(self) -> Any:  # whatever was sent
        """Return the next message; raises `EOFError` if the other end is gone.

        Raises `TimeoutError` after the socket's time-out, if one is set.
        """
        return self._receive_message(receive_exactly(self.end, _LENGTH.size))

    def receive_with_socket(self) -> tuple[Any, socket.socket | None]:
        """Return the next message, and the socket that was handed over with it."""
        try:
            first_byte, fds, _, _ = socket.recv_fds(self.end, 1, 1)
        except TimeoutError:
            raise
        except OSError as error:
            raise EOFError from error
        if not first_byte:
            raise EOFError
        passed_socket = socket.socket(fileno=fds[0]) if fds else None
        return self._receive_message(
            first_byte + receive_exactly(self.end, _LENGTH.size - 1)
        ), passed_socket

    def close(self) -> None:
        self.end.close()

    def _receive_message(self, head: bytes) -> Any:
        (length,) = _LENGTH.unpack(head)
        return pickle.loads(receive_exactly(self.end, length))  # noqa: S301 - our own processes alone


def receive_exactly(end: socket.socket, count: int) -> bytes:
    """Return the next `count` bytes of a connection; raises `EOFError` if its other end is gone.

    Raises `TimeoutError` after the socket's time-out, if one is set.
    """
    parts = []
    while count:
        try:
            part = end.recv(count)
        except TimeoutError:
            raise  # the other end is there, and silent
        except OSError as error:
            raise EOFError from error
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
