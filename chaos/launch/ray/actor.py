"""The chaos controller as an actor on the harness's node."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import ray

from chaos.faults.world import Target
from chaos.launch.ray import compat
from chaos.launch.ray.ports import RunTerms
from chaos.launch.ray.world import RayWorld
from chaos.launch.raytrain.storage import build_storage_reader
from chaos.launch.world import build_answers, serve_metadata
from chaos.model.event import FailureDecided
from chaos.model.places import AttemptRank
from chaos.run.armed_faults import ArmedFaults
from chaos.run.clock import SystemClock
from chaos.run.controller import ChaosController
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal, TrainingProgress
from chaos.run.remote_files import pack_files


@ray.remote(num_cpus=0, max_restarts=0)
class ChaosActor:
    """The actor by which observer, workers and harness call the `ChaosController`."""

    def __init__(
        self,
        directory: str,
        address: str,
        agents: dict[str, Any],
        terms: RunTerms | None,
    ) -> None:
        self._run = run = RunDirectory(Path(directory))
        self._journal = Journal(run.journals, "chaos", role="chaos", clock=SystemClock())
        armed = ArmedFaults(run.storage_faults)
        self._world = (
            RayWorld(address, agents, armed)
            if terms is None
            else terms.open_world(address, run, armed, self._journal)
        )
        has_trained = self._world.has_trained = TrainingProgress(run.journals)
        plan = run.load_plan()
        self._serving = ExitStack()
        self._variables = self._serving.enter_context(serve_metadata(plan, self._world, run))
        capture_storage = build_storage_reader(plan, run)
        self._controller = ChaosController(
            plan,
            self._world,
            self._journal,
            capture_storage=capture_storage,
            has_trained=has_trained,
        )
        self._answers: dict[str, Callable[..., Any]] = {
            **build_answers(self._controller, self._world),
            "group_started": self._group_started,
            "failure_decided": self._failure_decided,
            # asked by the harness
            "driver_started": self._world.driver_started,
            "driver_ended": self._world.driver_ended,
            "driver_wanted": self._world.take_driver_request,
            "nodes_wanted": self._world.node_orders.take_order,
            "nodes_joined": self._world.nodes_joined,
            "struck_nodes": lambda: frozenset(self._world.faulted_nodes),
            "gcs_errand": self._world.gcs.take_errand,
            "gcs_done": self._world.gcs.record_pid,
            "request_stack": self._world.request_stack,
            "renew_agents": self._world.renew_agents,
        }

    def ready(self) -> dict[str, str]:
        """Return, once the actor is up, the variables of the run's metadata service."""
        return self._variables

    def ask(self, question: str, *arguments: object) -> Any:  # the question's answer
        """Answer a question of a process of the run, or of the harness, by its name."""
        return self._answers[question](*arguments)

    def run_files(self) -> dict[str, bytes]:
        """Return the files of the run that a process needs on a host that does not see them."""
        return pack_files(self._run)

    def finish(self, within_s: float) -> None:
        """End all waits; wait for faults that are being injected."""
        # The waits end first. A fault that waits in the world (for a node that is to come, or a
        # proof) would hold the controller's end up for as long as it may, which then returns
        # without it.
        self._world.end()
        self._serving.close()
        self._controller.finish(within_s=within_s)

    def retire(self) -> frozenset[str]:
        """End the agents, record leftovers and cut journals, and return the run's Ray jobs."""
        # The agents are asked last, when nothing of the run writes any more, and before the journal
        # is closed: what they found is part of the history.
        for event in self._world.retire_agents():
            self._journal.add(event)
        return frozenset(compat.get_job(handle) for handle in self._world.worker_actors.values())

    def _group_started(self, group: dict[int, tuple[Target, Any]]) -> None:
        for rank, (target, handle) in group.items():
            # Handles, agents and world are ready before the controller hears of the group: a fault
            # at the attempt's start is injected from within that call, and needs all three.
            self._world.worker_actors[AttemptRank(target.attempt, rank)] = handle
        workers = {rank: target for rank, (target, _) in group.items()}
        self._world.learn_group(workers)
        self._controller.group_started(workers)

    def _failure_decided(self, event: FailureDecided) -> None:
        self._world.failure_decided(event)
