"""Messages between the processes of a run: length, then a pickle, over a unix socket."""

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

    def send(self, message: Any) -> None:  # noqa: ANN401 - whatever can be pickled
        """Send one message, whole; `OSError` where the other end is gone."""
        body = self._dumps(message)
        with self._lock:
            self.end.sendall(_LENGTH.pack(len(body)) + body)

    def receive(self) -> Any:  # noqa: ANN401 - whatever was sent
        """Wait for one message; `EOFError` where the other end is gone.

        `TimeoutError` where a time-out was set on the socket, and is over.
        """
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        return pickle.loads(self._exactly(length))  # noqa: S301 - our own processes alone

    def close(self) -> None:
        """Close this end."""
        self.end.close()

    def _exactly(self, count: int) -> bytes:
        parts = []
        while count:
            try:
                part = self.end.recv(count)
            except TimeoutError:
                raise  # the other end is there, and silent
            except OSError as error:
                raise EOFError from error
            if not part:
                raise EOFError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def listen(name: str) -> socket.socket:
    """Listen at a name in the abstract namespace, which no file and no port stands for."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(f"\0{name}")
    server.listen(128)
    return server


def connect(name: str, dumps: Callable[[Any], bytes] = pickle.dumps) -> Wire:
    """Connect to a listener's name."""
    end = socket.socket(socket.AF_UNIX)
    end.connect(f"\0{name}")
    return Wire(end, dumps)
