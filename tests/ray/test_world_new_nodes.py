"""Nodes that come in the course of a run, which are asked for and may hold a worker at once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from chaos.faults.world import RefusedError
from chaos.launch.ray.world import RayWorld
from chaos.run.armed_faults import ArmedFaults


def test_a_node_without_an_agent_is_refused_by_name_when_the_run_is_over(tmp_path: Path) -> None:
    world = RayWorld("", {}, ArmedFaults(tmp_path))
    world.end()

    with pytest.raises(RefusedError, match="node e2ab7c1d has joined, and no agent"):
        world.lose_node("e2ab7c1d266764506ab0")


def test_its_agent_is_waited_for(tmp_path: Path) -> None:
    agents: dict[str, Any] = {}
    world = RayWorld("", agents, ArmedFaults(tmp_path))
    threading.Timer(0.05, lambda: agents.update(new="its agent")).start()

    assert world._get_agent("new") == "its agent"


def test_two_faults_that_ask_at_once_get_their_own_nodes(tmp_path: Path) -> None:
    world = RayWorld("", {}, ArmedFaults(tmp_path))
    world._is_alive = lambda node_id: True  # type: ignore[method-assign]
    with ThreadPoolExecutor() as faults:
        first = faults.submit(world.add_nodes, 1, within_s=30)
        while (wanted := world.node_orders.take_order()) == 0:
            pass
        second = faults.submit(world.add_nodes, 2, within_s=30)
        world.nodes_joined({f"first-{number}": "agent" for number in range(wanted)})
        assert first.result() == ["first-0"]

        while (wanted := world.node_orders.take_order()) == 0:
            pass
        world.nodes_joined({f"second-{number}": "agent" for number in range(wanted)})
        assert second.result() == ["second-0", "second-1"]

    assert set(world._agents) == {"first-0", "second-0", "second-1"}


def test_nodes_that_do_not_come_in_time_are_nobodys_else(tmp_path: Path) -> None:
    world = RayWorld("", {}, ArmedFaults(tmp_path))
    world._is_alive = lambda node_id: True  # type: ignore[method-assign]
    world.end()

    assert world.add_nodes(1, within_s=0.01) == []
    assert world.node_orders.take_order() == 1
    world.nodes_joined({"late": "agent"})  # its agent is known, for it may have faults

    assert world.add_nodes(1, within_s=0.01) == []
    assert set(world._agents) == {"late"}
