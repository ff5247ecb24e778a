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
from chaos.launch.ray.node_process import NodeProcess, find_exited_nodes
from chaos.launch.ray.ports import RayCluster
from chaos.launch.ray.settings import CLUSTER_ENV, HEALTH_CHECKS, NAMESPACE
from chaos.launch.ray.world import HEAD
from chaos.model.plan import Plan, Shape
from chaos.plan.gpus import Share, choose_share, split_gpus
from chaos.run import held_folders
from chaos.run.clock import SystemClock, elapsed_seconds
from chaos.run.directory import RunDirectory
from chaos.run.ports import ShowEntries
from chaos.run.remote_files import write_token_file

READY_S = 60.0
RAY_FOLDER = "r"


class LocalCluster(RayCluster):
    """A running local cluster of one shape, with an agent on every node."""

    is_ours = True
    dashboard: str | None = None

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.agents: dict[str, Any] = {}
        self.is_repaired = False
        self._clock = SystemClock()
        self._cluster: Any = None
        self._temp: Path | None = None
        self._authentication = Authentication()
        self._shares = split_gpus(compat.visible_gpus(), shape.nodes)
        self._nodes: dict[Any, Share] = {}  # nodes of a `Cluster`, or `NodeProcess`
        self._count = itertools.count()

    @classmethod
    def start(cls, shape: Shape) -> Self:
        """Start head, nodes and agents; if that fails, end those started, and try once more.

        Another program may have ended one of its processes, or one did not answer on a busy
        machine. Raises HarnessError with the error of the second time.
        """
        try:
            return cls._start_cluster(shape)
        except ClusterError:
            raise
        except Exception:
            logging.getLogger("chaos.ray").debug("a cluster did not start", exc_info=True)
        try:
            return cls._start_cluster(shape)
        except Exception as error:
            message = next(iter(str(error).splitlines()), "") or type(error).__name__
            raise HarnessError(
                f"no local Ray cluster could be started, twice: {message}"
            ) from error

    @classmethod
    def _start_cluster(cls, shape: Shape) -> Self:
        cluster = cls(shape)
        try:
            cluster._start()
        except BaseException:
            cluster.close()
            raise
        return cluster

    @property
    def driver_env(self) -> dict[str, str]:
        return {"RAY_ADDRESS": self.address, held_folders.HELD_ENV: str(self._temp)}

    @property
    def address(self) -> str:
        """The GCS address, which is always stated and never guessed."""
        return str(self._cluster.address)

    def prepare(self, plan: Plan, directory: RunDirectory, token: str) -> None:
        """Mark the run's directory, which all nodes see: they share this host."""
        del plan
        write_token_file(directory.path, token)

    def show_and_record(self, show: ShowEntries, plan: Plan) -> ShowEntries:
        """Return `show`: a local cluster keeps nothing of a run."""
        del plan
        return show

    def heal(self, lost_nodes: set[str]) -> None:
        """Restore the cluster's shape, with new nodes for those that are dead or in `lost_nodes`.

        The latter were drained, and Ray cannot undo that.
        """
        # The next run finds the shape that its plan names, whatever this one did to the nodes: more
        # of them would let an elastic job grow, and fewer would make it wait.
        self._forget_dead(lost_nodes)
        for node in list(self._nodes)[self.shape.nodes :]:
            self._remove(node)
        missing = self.shape.nodes - len(self._nodes)
        if missing > 0:
            self.is_repaired = True
            self._add_nodes(missing)
            self._await_ready()

    def grow(self, count: int) -> dict[str, Any]:
        """Add nodes during a run; return the agents of those that joined, by node."""
        self._forget_dead(set())
        self._add_nodes(count)
        return self._start_agents(self._await_nodes(self._find_new_nodes()))

    def _forget_dead(self, lost_nodes: set[str]) -> None:
        alive = {row["NodeID"] for row in ray.nodes() if row["Alive"]}
        for node in list(self._nodes):
            node_id = compat.get_node_id(node)
            if node_id not in alive or node_id in lost_nodes:
                self._remove(node)

    def _remove(self, node: Any) -> None:  # a key of `_nodes`
        if isinstance(node, NodeProcess):
            node.end()
        else:
            self._cluster.remove_node(node, allow_graceful=False)
        self._nodes.pop(node, None)
        self.agents.pop(compat.get_node_id(node), None)

    def end_gcs(self) -> int:
        return compat.end_gcs(self._cluster)

    def start_gcs(self) -> int:
        """Start the GCS again on its port and storage, wait until it answers, return its pid."""
        with self._attach_processes():
            pid, start = compat.start_gcs(self._cluster), self._clock.now_ns()
        while not compat.gcs_answers(self.address):
            if elapsed_seconds(start, self._clock) > READY_S:
                raise HarnessError(f"the new GCS did not answer within {READY_S:g} s")
            self._clock.sleep(0.05)
        return pid

    def find_deaths(self) -> list[Death]:
        """Return the processes of the cluster that have ended and were not removed by chaos."""
        head = compat.get_node_id(self._cluster.head_node)
        exits = (*compat.find_exited_processes(self._cluster), *find_exited_nodes(self._nodes))
        return [
            Death(kind, node_id, pid, code, is_head=node_id == head)
            for kind, node_id, pid, code in exits
        ]

    def close(self) -> None:
        """End the cluster and remove its files; safe to call more than once."""
        if ray.is_initialized():
            with compat.preserve_signal_handlers():
                ray.shutdown()
        for node in self._nodes:
            if isinstance(node, NodeProcess):
                node.end()
        self._nodes.clear()
        if self._cluster is not None:
            with compat.preserve_signal_handlers():
                self._cluster.shutdown()
            self._cluster = None
        if self._temp is not None:
            held_folders.remove(self._temp)
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
        user_address = os.environ.pop("RAY_ADDRESS", None)
        self._create_folder()
        try:
            self._start_head()
            self._add_nodes(self.shape.nodes)
            compat.redirect_messages()
            with compat.preserve_signal_handlers():
                ray.init(
                    address=self.address,
                    namespace=NAMESPACE,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
        finally:
            if user_address is not None:
                os.environ["RAY_ADDRESS"] = user_address
        self._await_ready()

    def _create_folder(self) -> None:
        """Make the folder that all of the cluster ends with, even if this process is killed.

        Its path is short: Ray puts unix sockets below it, whose paths have at most 107
        characters. Ray 2.60 makes its folder writable for all users, so it gets one inside.
        """
        self._temp = held_folders.make("chaos-ray-")
        held_folders.start_attendant(self._temp)
        self._authentication.create_token(self._temp)

    @contextlib.contextmanager
    def _attach_processes(self) -> Iterator[None]:
        """Attach the processes started in this context to the cluster's folder."""
        assert self._temp is not None
        # Only while processes start: within pytest, what others start while a cluster is kept would
        # carry its name, and be ended with it.
        with held_folders.bind_processes(self._temp), compat.preserve_signal_handlers():
            yield

    def _start_head(self) -> None:
        durable_storage = {"gcs_storage": "rocksdb", "gcs_storage_path": f"{self._temp}/gcs"}
        storage = durable_storage if self.shape.keeps_gcs else {}
        with self._attach_processes():
            self._cluster = compat.new_cluster(
                {
                    "num_cpus": 0,
                    "num_gpus": 0,
                    "include_dashboard": False,
                    "temp_dir": f"{self._temp}/{RAY_FOLDER}",
                    "_system_config": {**HEALTH_CHECKS, **storage},
                }
            )

    def _add_nodes(self, count: int) -> None:
        for _ in range(count):
            share = choose_share(self._shares, self._nodes.values())
            with self._attach_processes():
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

    def _await_ready(self) -> None:
        new_nodes = self._find_new_nodes()
        if self._await_nodes(new_nodes) < new_nodes:
            raise HarnessError(f"the cluster's nodes were not up after {READY_S:g} s")
        self._start_agents(new_nodes)

    def _start_agents(self, new_nodes: set[str]) -> dict[str, Any]:
        """Start agents on new nodes, and on a head without one; return them once they answer."""
        agents, head = start_agents(sorted(new_nodes)), compat.get_node_id(self._cluster.head_node)
        if HEAD not in self.agents:
            agents[HEAD] = start_agents([head])[head]
        ray.get([agent.await_raylet_pid.remote() for agent in agents.values()], timeout=READY_S)
        self.agents.update(agents)
        return agents

    def _find_new_nodes(self) -> set[str]:
        return {compat.get_node_id(node) for node in self._nodes} - set(self.agents)

    def _await_nodes(self, node_ids: set[str]) -> set[str]:
        """Return the wanted nodes once all are alive; those that are when time runs out.

        Other nodes do not count: during a run, any of them may be lost.
        """
        start, alive = self._clock.now_ns(), set[str]()
        while not node_ids <= alive and elapsed_seconds(start, self._clock) < READY_S:
            alive = {row["NodeID"] for row in ray.nodes() if row["Alive"]}
            self._clock.sleep(0.05)
        return node_ids & alive
