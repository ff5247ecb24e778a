"""A process that takes a network interface down, and up again.

`python -m chaos.extensions.cluster.existing.link INTERFACE SECONDS` returns once a
process of its own session has begun, which depends neither on the network nor
on its caller.
"""

import os
import signal
import subprocess
import sys

from chaos.run.clock import SystemClock

# To bring the interface up again: the node is lost to its users while it is down.
TRIES = 20
WORD_S = 0.3  # by then, the agent's answer has left the host


def main(interface: str, for_s: float) -> None:
    """Fork a process that outlives this one's parent, and does the work there."""
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _cut_link(interface, for_s)
    os._exit(0)


def _cut_link(interface: str, for_s: float) -> None:
    clock = SystemClock()
    routes = _ip("-4", "route", "show", "dev", interface).stdout.splitlines()
    clock.sleep(WORD_S)
    try:
        _ip("link", "set", "dev", interface, "down")
        clock.sleep(for_s)
    finally:
        for _ in range(TRIES):
            if _ip("link", "set", "dev", interface, "up").returncode == 0:
                break
            clock.sleep(0.5)
    for route in routes:  # the kernel forgets them with the link, but for the interface's own
        _ip("-4", "route", "replace", *route.split(), "dev", interface)


def _ip(*words: str) -> "subprocess.CompletedProcess[str]":
    command = ["ip", *words]
    return subprocess.run(command, check=False, capture_output=True, text=True)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
