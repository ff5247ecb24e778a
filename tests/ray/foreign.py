"""Ray clusters that chaos did not start: `ray start`, each node in a process of its own."""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from chaos.launch.ray.authentication import MODE
from chaos.launch.ray.settings import CLUSTER_ENV
from chaos.run.clock import SystemClock, elapsed_seconds

ROOT = Path(__file__).parents[2]
UP_S = 60.0
# A node that falls silent counts as dead after about three seconds.
HEALTH = {
    "RAY_health_check_initial_delay_ms": "0",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "4",
}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class ForeignCluster:
    """A head without CPUs, unless told otherwise, and nodes with one each.

    `prefix` runs a node's processes somewhere else, as `ip netns exec` does.
    """

    host: str = "127.0.0.1"
    head_cpus: int = 0
    env: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=_free_port)
    nodes: "list[subprocess.Popen[bytes]]" = field(default_factory=list)
    folders: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def start_head(self, prefix: Sequence[str] = ()) -> None:
        words = ["--head", f"--port={self.port}", f"--num-cpus={self.head_cpus}"]
        self._start([*words, "--include-dashboard=false"], self.host, prefix)
        self._await_head(prefix)

    def add_node(self, ip: str | None = None, prefix: Sequence[str] = ()) -> None:
        words = [f"--address={self.address}", "--num-cpus=1"]
        self._start(words, ip or self.host, prefix)

    def _start(self, words: list[str], ip: str, prefix: Sequence[str]) -> None:
        temp = tempfile.mkdtemp(prefix="chaos-foreign-", dir="/tmp")
        self.folders.append(temp)
        ray = [str(Path(sys.executable).with_name("ray")), "start", "--block"]
        here = [f"--node-ip-address={ip}", f"--temp-dir={temp}", "--object-store-memory=100000000"]
        with Path(temp, "start.log").open("wb") as log:
            node = subprocess.Popen(
                [*prefix, *ray, *words, *here],
                env=self._own_environment(),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.nodes.append(node)

    def environment(self) -> dict[str, str]:
        known = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
        return {**known, **CLUSTER_ENV, **HEALTH, "PYTHONPATH": str(ROOT), **self.env}

    def _own_environment(self) -> dict[str, str]:
        """Return the environment of nodes: where there is a token, all of them must have it.

        (Ray 2.60: `ray start --head` turns it on by itself, `ray start --address` does not.)
        """
        mode = "token" if (Path.home() / ".ray/auth_token").exists() else "disabled"
        return {**self.environment(), MODE: mode}

    def await_nodes(self, prefix: Sequence[str] = ()) -> None:
        """Wait until the head counts all nodes that were started as alive."""
        look = (
            f"import ray; ray.init('{self.address}', log_to_driver=False, logging_level='ERROR');"
            f"assert sum(n['Alive'] for n in ray.nodes()) == {len(self.nodes)}"
        )
        self._await([*prefix, sys.executable, "-c", look])

    def _await_head(self, prefix: Sequence[str]) -> None:
        knock = f"import socket; socket.create_connection(('{self.host}', {self.port}), 1)"
        self._await([*prefix, sys.executable, "-c", knock])

    def _await(self, ask: list[str]) -> None:
        clock = SystemClock()
        start = clock.now_ns()
        env = self._own_environment()
        while subprocess.run(ask, check=False, capture_output=True, env=env).returncode:
            assert elapsed_seconds(start, clock) < UP_S, "the cluster did not come up"
            clock.sleep(0.3)

    def raylets(self) -> list[psutil.Process]:
        """Return the raylets that live, the head's first."""
        found = []
        for node in self.nodes:
            with contextlib.suppress(psutil.NoSuchProcess):
                below = psutil.Process(node.pid).children(recursive=True)
                found += [p for p in below if p.name().startswith("raylet")]
        return found

    def end(self) -> None:
        """End what was started here, by pid, and nothing else."""
        processes: list[psutil.Process] = []
        for node in self.nodes:
            with contextlib.suppress(psutil.NoSuchProcess):
                top = psutil.Process(node.pid)
                processes += [*top.children(recursive=True), top]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        for node in self.nodes:
            node.wait()
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)


def leave_token() -> str:
    """Leave a token at home, as ordinary use of Ray does: clusters ask for it from then on."""
    token, file = secrets.token_hex(32), Path.home() / ".ray/auth_token"
    file.parent.mkdir()
    file.write_text(token)
    return token


@contextlib.contextmanager
def foreign_cluster(nodes: int, *, head_cpus: int = 0) -> Iterator[ForeignCluster]:
    """Start a head and nodes on this host, and end them."""
    cluster = ForeignCluster(head_cpus=head_cpus)
    try:
        cluster.start_head()
        for _ in range(nodes):
            cluster.add_node()
        cluster.await_nodes()
        yield cluster
    finally:
        cluster.end()


def agents() -> list[str]:
    """Return the node agents of any run that live on this host."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if "LeasedAgent" in line:
            found.append(f"{process.pid} {line[:80]}")
    return found
