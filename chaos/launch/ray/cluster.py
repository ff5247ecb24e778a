"""A local cluster of several raylets on this machine, kept warm between runs.

One head that holds no worker, and nodes that can be lost one by one. It must
be started and healed in the process's main thread: Ray installs signal
handlers there, and its processes die with the thread that started them.
"""

import contextlib
import itertools
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import ray

from chaos.errors import ClusterError, HarnessError
from chaos.launch.ray import compat
from chaos.launch.ray.agent import start_agents
from chaos.launch.ray.authentication import Authentication
from chaos.launch.ray.deaths import Death
from chaos.launch.ray.node_process import NodeProcess, ended
from chaos.launch.ray.settings import CLUSTER_ENV, HEALTH_CHECKS, NAMESPACE
from chaos.launch.ray.world import HEAD
from chaos.model.plan import Plan, Shape
from chaos.plan.gpus import Share, share_to_give, shares
from chaos.run import leavings
from chaos.run.clock import SystemClock, seconds_since
from chaos.run.directory import RunDirectory
from chaos.run.files_elsewhere import leave_mark

READY_S = 60.0
RAYS = "r"


class LocalCluster:
    """A running local cluster of one shape, with an agent on every node."""

    is_ours = True
    dashboard: str | None = None

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.agents: dict[str, Any] = {}
        self.is_mended = False
        self._clock = SystemClock()
        self._cluster: Any = None
        self._temp: Path | None = None
        self._authentication = Authentication()
        self._shares = shares(compat.visible_gpus(), shape.nodes)
        self._nodes: dict[Any, Share] = {}  # nodes of a `Cluster`, or `NodeProcess`
        self._count = itertools.count()

    @classmethod
    def start(cls, shape: Shape) -> Self:
        """Start head, nodes and agents; if that fails, end those started, and try once more.

        Another program may have ended one of its processes, or one did not answer on a busy
        machine. Raises HarnessError with the error of the second time.
        """
        try:
            return cls._started(shape)
        except ClusterError:
            raise
        except Exception:
            logging.getLogger("chaos.ray").debug("a cluster did not start", exc_info=True)
        try:
            return cls._started(shape)
        except Exception as error:
            said = next(iter(str(error).splitlines()), "") or type(error).__name__
            raise HarnessError(f"no local Ray cluster could be started, twice: {said}") from error

    @classmethod
    def _started(cls, shape: Shape) -> Self:
        cluster = cls(shape)
        try:
            cluster._start()
        except BaseException:
            cluster.close()
            raise
        return cluster

    @property
    def driver_env(self) -> dict[str, str]:
        return {"RAY_ADDRESS": self.address, leavings.HELD_ENV: str(self._temp)}

    @property
    def address(self) -> str:
        """The GCS address, which is always stated and never guessed."""
        return str(self._cluster.address)

    def prepare(self, plan: Plan, directory: RunDirectory, token: str) -> None:
        """Mark the run's directory, which all nodes see: they share this host."""
        del plan
        leave_mark(directory.path, token)

    def heal(self, lost: set[str]) -> None:
        """Restore the cluster's shape, with new nodes for those that are dead or in `lost`.

        The latter were drained, and Ray cannot undo that.
        """
        # The next run finds the shape that its plan names, whatever this one did to the nodes: more
        # of them would let an elastic job grow, and fewer would make it wait.
        self._forget_dead(lost)
        for node in list(self._nodes)[self.shape.nodes :]:
            self._remove(node)
        missing = self.shape.nodes - len(self._nodes)
        if missing > 0:
            self.is_mended = True
            self._add_nodes(missing)
            self._settle()

    def grow(self, count: int) -> dict[str, Any]:
        """Add nodes during a run; return the agents of those that joined, by node."""
        self._forget_dead(set())
        self._add_nodes(count)
        return self._attend(self._await_nodes(self._fresh()))

    def _forget_dead(self, lost: set[str]) -> None:
        alive = {row["NodeID"] for row in ray.nodes() if row["Alive"]}
        for node in list(self._nodes):
            node_id = compat.node_id_of(node)
            if node_id not in alive or node_id in lost:
                self._remove(node)

    def _remove(self, node: Any) -> None:  # a key of `_nodes`
        if isinstance(node, NodeProcess):
            node.end()
        else:
            self._cluster.remove_node(node, allow_graceful=False)
        self._nodes.pop(node, None)
        self.agents.pop(compat.node_id_of(node), None)

    def end_gcs(self) -> int:
        return compat.end_gcs(self._cluster)

    def start_gcs(self) -> int:
        """Start the GCS again on its port and storage, wait until it answers, return its pid."""
        with self._starting():
            pid, start = compat.start_gcs(self._cluster), self._clock.now_ns()
        while not compat.gcs_answers(self.address):
            if seconds_since(start, self._clock) > READY_S:
                raise HarnessError(f"the new GCS did not answer within {READY_S:g} s")
            self._clock.sleep(0.05)
        return pid

    def deaths(self) -> list[Death]:
        """Return the processes of the cluster that have ended and were not removed by chaos."""
        head = compat.node_id_of(self._cluster.head_node)
        found = (*compat.ended_processes(self._cluster), *ended(self._nodes))
        return [
            Death(kind, node_id, pid, code, is_heads=node_id == head)
            for kind, node_id, pid, code in found
        ]

    def close(self) -> None:
        """End the cluster and remove its files; safe to call more than once."""
        if ray.is_initialized():
            with compat.keeping_signal_handlers():
                ray.shutdown()
        for node in self._nodes:
            if isinstance(node, NodeProcess):
                node.end()
        self._nodes.clear()
        if self._cluster is not None:
            with compat.keeping_signal_handlers():
                self._cluster.shutdown()
            self._cluster = None
        if self._temp is not None:
            leavings.remove(self._temp)
            self._authentication.restore()
            self._temp = None

    def _start(self) -> None:
        if ray.is_initialized():
            raise ClusterError(
                "this process is connected to a Ray cluster already",
                "chaos starts one of its own; run it in a process that has not called ray.init()",
            )
        # A user's RAY_ADDRESS names a cluster of theirs, which is none for this process to join.
        for name, value in CLUSTER_ENV.items():
            os.environ.setdefault(name, value)
        elsewhere = os.environ.pop("RAY_ADDRESS", None)
        self._take_folder()
        try:
            self._start_head()
            self._add_nodes(self.shape.nodes)
            compat.keep_messages_off_the_terminal()
            with compat.keeping_signal_handlers():
                ray.init(
                    address=self.address,
                    namespace=NAMESPACE,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
        finally:
            if elsewhere is not None:
                os.environ["RAY_ADDRESS"] = elsewhere
        self._settle()

    def _take_folder(self) -> None:
        """Make the folder that all of the cluster ends with, even if this process is killed.

        Its path is short: Ray puts unix sockets below it, whose paths have at most 107
        characters. Ray 2.60 makes its folder writable for all users, so it gets one inside.
        """
        self._temp = leavings.make("chaos-ray-")
        leavings.attend(self._temp)
        self._authentication.use_own(self._temp)

    @contextlib.contextmanager
    def _starting(self) -> Iterator[None]:
        """Attach the processes started in this context to the cluster's folder."""
        assert self._temp is not None
        # Only while processes start: within pytest, what others start while a cluster is kept would
        # carry its name, and be ended with it.
        with leavings.belonging_to(self._temp), compat.keeping_signal_handlers():
            yield

    def _start_head(self) -> None:
        kept = {"gcs_storage": "rocksdb", "gcs_storage_path": f"{self._temp}/gcs"}
        storage = kept if self.shape.keeps_gcs else {}
        with self._starting():
            self._cluster = compat.new_cluster(
                {
                    "num_cpus": 0,
                    "num_gpus": 0,
                    "include_dashboard": False,
                    "temp_dir": f"{self._temp}/{RAYS}",
                    "_system_config": {**HEALTH_CHECKS, **storage},
                }
            )

    def _add_nodes(self, count: int) -> None:
        for _ in range(count):
            share = share_to_give(self._shares, self._nodes.values())
            with self._starting():
                node = self._new_node(share)
            self._nodes[node] = share

    def _new_node(self, share: Share) -> Any:  # a key of `_nodes`
        cpus, env = self.shape.cpus_per_node, {"CUDA_VISIBLE_DEVICES": ",".join(share)}
        if self.shape.drain_s is None:
            return self._cluster.add_node(
                wait=False,
                num_cpus=cpus,
                num_gpus=len(share),
                env_vars=env,
                include_dashboard=False,
            )
        assert self._temp is not None
        # A folder for each: two that start at one time in one folder take the same sockets (Ray
        # 2.60).
        folder = self._temp / f"n{next(self._count)}"
        flags = {"num-cpus": cpus, "num-gpus": len(share)}
        env[compat.DRAIN_ENV] = str(self.shape.drain_s)
        return NodeProcess.start(self.address, folder, flags, env)

    def _settle(self) -> None:
        fresh = self._fresh()
        if self._await_nodes(fresh) < fresh:
            raise HarnessError(f"the cluster's nodes were not up after {READY_S:g} s")
        self._attend(fresh)

    def _attend(self, fresh: set[str]) -> dict[str, Any]:
        """Start agents on new nodes, and on a head without one; return them once they answer."""
        agents, head = start_agents(sorted(fresh)), compat.node_id_of(self._cluster.head_node)
        if HEAD not in self.agents:
            agents[HEAD] = start_agents([head])[head]
        ray.get([agent.ready.remote() for agent in agents.values()], timeout=READY_S)
        self.agents.update(agents)
        return agents

    def _fresh(self) -> set[str]:
        return {compat.node_id_of(node) for node in self._nodes} - set(self.agents)

    def _await_nodes(self, wanted: set[str]) -> set[str]:
        """Return the wanted nodes once all are alive; those that are when time runs out.

        Other nodes do not count: during a run, any of them may be lost.
        """
        start, alive = self._clock.now_ns(), set[str]()
        while not wanted <= alive and seconds_since(start, self._clock) < READY_S:
            alive = {row["NodeID"] for row in ray.nodes() if row["Alive"]}
            self._clock.sleep(0.05)
        return wanted & alive
