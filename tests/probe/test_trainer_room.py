"""Workers that a local cluster cannot hold are refused before they wait for ever."""

from typing import Any

import pytest
from ray.train import ScalingConfig

from chaos.errors import RefusalError
from chaos.launch.raytrain.trainer import (
    build_cpu_settings,
    build_fitting_settings,
    check_resources,
)
from chaos.model.plan import Op, Plan, Shape
from tests.check.story import Story

TWO = ScalingConfig(num_workers=2, use_gpu=True)


def plan_of(*faults: dict[str, Any], nodes: int = 3) -> Plan:
    plan = Story().plan()
    ops = tuple(
        Op.model_validate({"index": n, "at": {"epoch": 1, "step": 1, "rank": 0}, **fault})
        for n, fault in enumerate(faults)
    )
    return plan.model_copy(
        update={"shape": plan.shape.model_copy(update={"nodes": nodes}), "ops": ops}
    )


LOSS: dict[str, Any] = {"kill_node": {}}


@pytest.mark.parametrize(
    ("scaling", "gpus", "words"),
    [
        (TWO, "", "which has 0 GPUs, hold 0 of them. With the backend `fork` they train on the"),
        (TWO, "0", "which has 1 GPU, hold 1 of them"),
        (ScalingConfig(num_workers=1, resources_per_worker={"CPU": 1, "NPU": 1}), "", "no NPU"),
        (ScalingConfig(num_workers=4), "", "3 nodes of 1 CPU cannot hold them"),
    ],
)
def test_workers_that_would_wait_for_ever_are_refused(
    scaling: ScalingConfig, gpus: str, words: str
) -> None:
    with pytest.raises(RefusalError, match=words):
        check_resources(scaling, plan_of(), list(gpus))


def test_a_gpu_each_is_enough_where_no_node_is_lost() -> None:
    check_resources(TWO, plan_of({"kill_worker": {}}), ["0", "1"])
    check_resources(ScalingConfig(num_workers=1, use_gpu=True), plan_of(LOSS), ["0"])


def test_a_lost_node_needs_one_that_takes_over_and_has_a_gpu() -> None:
    check_resources(TWO, plan_of(LOSS), ["0", "1", "2"])
    check_resources(TWO, plan_of(LOSS, {"return_capacity": {"nodes": 1}}), ["0", "1"])
    with pytest.raises(RefusalError, match=r"1 of 3 nodes are lost.*hold 1 of 2 workers"):
        check_resources(TWO, plan_of(LOSS), ["0", "1"])


def test_a_lost_node_takes_all_its_gpus_along() -> None:
    six = ScalingConfig(num_workers=6, use_gpu=True, resources_per_worker={"CPU": 0.5, "GPU": 1})
    plan = plan_of(LOSS, nodes=2)
    roomy = plan.model_copy(update={"shape": plan.shape.model_copy(update={"cpus_per_node": 4})})
    eight = list("01234567")

    with pytest.raises(RefusalError, match=r"1 of 2 nodes are lost.*hold 4 of 6 workers"):
        check_resources(six, roomy, eight)
    check_resources(ScalingConfig(num_workers=4, use_gpu=True), roomy, eight)


def test_a_type_of_gpu_is_there_where_the_machine_has_it() -> None:
    asked = ScalingConfig(num_workers=2, use_gpu=True, accelerator_type="H100")

    check_resources(asked, plan_of(), ["0", "1"], "H100")
    for other in ("A100-80G", None):
        with pytest.raises(RefusalError, match="no accelerator_type:H100"):
            check_resources(asked, plan_of(), ["0", "1"], other)


def test_a_job_that_does_without_its_gpus_asks_for_nothing_else() -> None:
    asked = ScalingConfig(num_workers=2, use_gpu=True, resources_per_worker={"CPU": 1, "GPU": 2})

    assert build_cpu_settings(asked)["resources_per_worker"] == {"CPU": 1}
    assert build_cpu_settings(TWO)["resources_per_worker"] is None
    assert build_cpu_settings(ScalingConfig(num_workers=2)) == {}


@pytest.mark.parametrize("wants", [{"CPU": 7}, {"CPU": 1, "NPU": 1}, {"slot": 0.5}])
def test_where_nothing_is_reserved_workers_of_any_size_have_room(wants: dict[str, float]) -> None:
    asked, shape = ScalingConfig(num_workers=2, resources_per_worker=wants), plan_of().shape

    assert build_fitting_settings(asked, wants, shape)["resources_per_worker"] is None


def test_workers_that_the_plans_nodes_hold_keep_their_size() -> None:
    asked = ScalingConfig(num_workers=2, resources_per_worker={"CPU": 2})

    assert build_fitting_settings(asked, {"CPU": 2}, Shape(nodes=1, cpus_per_node=4)) == {}
