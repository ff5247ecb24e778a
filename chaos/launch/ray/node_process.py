"""A node whose first process is `ray start --block`, as in a pod.

Ray's own `Cluster` starts raylets in the harness's process, which no fault may signal.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import ray

from chaos.launch.ray import compat
from chaos.processes.tree import kill_tree

# As a `Cluster` of Ray starts a node: little memory, and ports that are free.
NODE_FLAGS = {"object-store-memory": 150 * 1024 * 1024, "min-worker-port": 0, "max-worker-port": 0}


@dataclass(frozen=True)
class NodeProcess:
    """A node by its first process, which has started the raylet."""

    node_id: str
    process: "subprocess.Popen[bytes]"

    @classmethod
    def start(
        cls, address: str, folder: Path, flags: Mapping[str, int], env: Mapping[str, str]
    ) -> Self:
        """Start a node that joins the cluster at an address; return before it has joined.

        Each has a folder of its own: nodes that share one, as those of a `Cluster` of Ray do, take
        the same names for their sockets if they start at one time (Ray 2.60).
        """
        node_id = ray.NodeID.from_random().hex()
        folder.mkdir()
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
        command += ["--address", address, "--temp-dir", str(folder), "--include-log-monitor=false"]
        command += [f"--{name}={value}" for name, value in {**NODE_FLAGS, **flags}.items()]
        with (folder / "start.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                env={**os.environ, **env, compat.NODE_ID_ENV: node_id},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches the harness alone, which ends the node
            )
        return cls(node_id, process)

    def end(self) -> None:
        """End the process and all below it; nothing to do if it has ended."""
        kill_tree(self.process.pid)
        self.process.wait()


def find_exited_nodes(nodes: Iterable[Any]) -> Iterator[tuple[str, str, int, int]]:
    """Yield (kind, node id, pid, exit code) of the node processes among `nodes` that have ended."""
    for node in nodes:
        if isinstance(node, NodeProcess) and node.process.poll() is not None:
            yield "ray_start", node.node_id, node.process.pid, node.process.returncode
