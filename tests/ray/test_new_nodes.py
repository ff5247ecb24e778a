"""A node that has just joined may hold a worker before chaos has an agent on it."""

import threading
from pathlib import Path
from typing import Any

import pytest

from chaos.backends.ray.world import RayWorld
from chaos.faults.world import RefusedError
from chaos.run.armed import ArmedFaults


def test_a_node_without_an_agent_is_refused_by_name_when_the_run_is_over(tmp_path: Path) -> None:
    world = RayWorld("", {}, ArmedFaults(tmp_path))
    world.end()

    with pytest.raises(RefusedError, match="node e2ab7c1d has joined, and no agent"):
        world.lose_node("e2ab7c1d266764506ab0")


def test_its_agent_is_waited_for(tmp_path: Path) -> None:
    agents: dict[str, Any] = {}
    world = RayWorld("", agents, ArmedFaults(tmp_path))
    threading.Timer(0.05, lambda: agents.update(new="its agent")).start()

    assert world._agent_on("new") == "its agent"
