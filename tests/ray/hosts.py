"""Hosts in network namespaces: each with an address of its own, and eyes of its own.

A bridge in a namespace of its own joins them. A folder can be hidden from a
host, as it is where no file system is shared.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NET = "10.77.41"


@dataclass(frozen=True)
class Host:
    """One namespace; `prefix` runs a command there."""

    name: str
    ip: str

    def prefix(self, *, hides: Path | None = None) -> list[str]:
        inside = ["ip", "netns", "exec", self.name]
        if hides is None:
            return inside
        return [*inside, "sh", "-c", f'mount -t tmpfs none {hides} && exec "$@"', "sh"]


def why_not() -> str | None:
    """Return why no hosts can be made here, None where they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need iproute2"
    name = f"chaos-try-{os.getpid()}"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return None if tried.returncode == 0 else "this kernel makes no network namespaces"


@contextlib.contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """Make hosts that reach each other, and remove them."""
    mark = f"chaos{os.getpid()}"
    bridge = f"{mark}-br"
    made = [Host(f"{mark}-{n}", f"{NET}.{n + 1}") for n in range(count)]
    try:
        _ip("netns", "add", bridge)
        _ip("-n", bridge, "link", "add", "br0", "type", "bridge")
        _ip("-n", bridge, "link", "set", "br0", "up")
        for number, host in enumerate(made):
            _join(host, bridge, f"v{number}")
        yield made
    finally:
        for name in [bridge, *(host.name for host in made)]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _join(host: Host, bridge: str, end: str) -> None:
    _ip("netns", "add", host.name)
    peer = ["type", "veth", "peer", "name", end, "netns", bridge]
    _ip("-n", host.name, "link", "add", "eth0", *peer)
    _ip("-n", host.name, "addr", "add", f"{host.ip}/24", "dev", "eth0")
    _ip("-n", host.name, "link", "set", "lo", "up")
    _ip("-n", host.name, "link", "set", "eth0", "up")
    _ip("-n", bridge, "link", "set", end, "master", "br0")
    _ip("-n", bridge, "link", "set", end, "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
