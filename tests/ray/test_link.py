"""A host's network goes down, and comes back whatever becomes of who asked for it."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from chaos.run.clock import SystemClock, elapsed_seconds
from tests.ray.command import ROOT
from tests.ray.hosts import Host, hosts, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

KNOCK = "import socket, sys; s = socket.socket(); s.settimeout(1); print(s.connect_ex(('{}', 9)))"
REFUSED = 111  # nobody listens, and the host says so


@pytest.fixture
def two() -> Iterator[list[Host]]:
    with hosts(2) as made:
        yield made


def answers(at: Host, other: Host) -> bool:
    ask = [*at.prefix(), sys.executable, "-c", KNOCK.format(other.ip)]
    done = subprocess.run(ask, capture_output=True, text=True, check=True)
    return int(done.stdout) == REFUSED


def becomes(answer: bool, at: Host, other: Host) -> bool:
    clock = SystemClock()
    start = clock.now_ns()
    while answers(at, other) is not answer:
        if elapsed_seconds(start, clock) > 20:
            return False
    return True


def test_a_host_is_silent_and_answers_again_with_the_routes_it_had(two: list[Host]) -> None:
    here, there = two
    route = ["ip", "-n", there.name, "route", "replace", "10.99.0.0/24", "via", here.ip]
    subprocess.run(route, check=True)
    assert answers(here, there)
    cut = [sys.executable, "-m", "chaos.extensions.cluster.existing.link", "eth0", "2"]

    subprocess.run([*there.prefix(), *cut], cwd=ROOT, check=True)

    assert becomes(False, here, there)
    assert becomes(True, here, there)
    shown = ["ip", "-n", there.name, "route", "show", "10.99.0.0/24"]
    routes = subprocess.run(shown, capture_output=True, text=True, check=True).stdout
    assert f"via {here.ip}" in routes
