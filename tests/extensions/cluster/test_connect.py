"""The client of a platform is found, and the machine under a node with nothing else on it."""

import pytest

from chaos.extensions.cluster.reclaim.clouds import AwsInstances
from chaos.extensions.cluster.reclaim.connect import find_machine
from chaos.faults.world import RefusedError
from chaos.plan.permissions import NodeFacts
from tests.extensions.cluster.fakes import ADDRESS, Ec2, Fis, Platform

NODE = NodeFacts("n1", ADDRESS, 1, port=1, hostname="i-1")


@pytest.mark.parametrize(
    "other",
    [
        NodeFacts("n2", ADDRESS, 1, port=2),
        NodeFacts("n2", ADDRESS, 0, port=2, is_head=True),
        NodeFacts("n2", ADDRESS, 1, port=2, is_own=True),
    ],
)
def test_a_machine_with_another_node_of_the_cluster_on_it_is_not_taken(other: NodeFacts) -> None:
    platform = Platform("i-1")
    instances = AwsInstances(Fis(platform), Ec2(platform), "EXT1")

    assert find_machine(instances, NODE, [NODE]) == "i-1"
    with pytest.raises(RefusedError, match="other nodes would go with i-1: n2"):
        find_machine(instances, NODE, [NODE, other])


def test_a_platform_that_does_not_answer_is_not_asked_for_more() -> None:
    platform = Platform("i-1")
    instances = AwsInstances(None, Ec2(platform), "EXT1")
    instances.ec2 = None

    with pytest.raises(RefusedError, match="aws does not answer: 'NoneType'"):
        find_machine(instances, NODE, [NODE])
