"""The client of a platform is found, and the machine under a node with nothing else on it."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from chaos.errors import UsageError
from chaos.extensions.cluster.reclaim import pods
from chaos.extensions.cluster.reclaim.clouds import AwsInstances
from chaos.extensions.cluster.reclaim.connect import build_reclaimer, find_machine
from chaos.extensions.cluster.reclaim.local import LocalProcesses
from chaos.extensions.cluster.reclaim.pods import KubernetesPods
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


class NoFileError(Exception):
    """`kubernetes.config.ConfigException`."""


def no_file() -> None:
    raise NoFileError("no configuration found")


def kubernetes_client(*, in_cluster: Callable[[], None]) -> SimpleNamespace:
    """Return the client as it is in a pod, where there is no file."""
    config = SimpleNamespace(
        load_kube_config=no_file, ConfigException=NoFileError, load_incluster_config=in_cluster
    )
    return SimpleNamespace(config=config, client=SimpleNamespace(CoreV1Api=lambda: "core"))


def test_in_a_pod_its_service_account_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    library = kubernetes_client(in_cluster=lambda: None)
    monkeypatch.setattr(pods, "import_client", lambda *_, **__: library)

    assert build_reclaimer("kubernetes:jobs") == KubernetesPods("core", "jobs")


def test_a_client_without_settings_is_the_callers_to_put_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = kubernetes_client(in_cluster=no_file)
    monkeypatch.setattr(pods, "import_client", lambda *_, **__: library)

    with pytest.raises(UsageError, match="kubernetes:jobs cannot be reached: no configuration"):
        build_reclaimer("kubernetes:jobs")


def test_this_machine_needs_no_client() -> None:
    assert isinstance(build_reclaimer("local"), LocalProcesses)
