"""The fakes know no call that the platforms' own clients do not have; skipped without these."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from tests.extensions.cluster.fakes import Cards, Core, Ec2, Fis, Instances, VirtualMachines


def named(fake: type, name: str) -> set[str]:
    return set(inspect.signature(getattr(fake, name)).parameters) - {"self"}


def calls(fake: type) -> list[str]:
    return [n for n, f in vars(fake).items() if inspect.isfunction(f) and not n.startswith("_")]


def of_kubernetes() -> Callable[[str], set[str]]:
    theirs = pytest.importorskip("kubernetes").client.CoreV1Api

    def known(name: str) -> set[str]:
        # Optional parameters are in the docstring alone, the client takes them as `**kwargs`.
        text = inspect.getdoc(getattr(theirs, name)) or ""
        words = {line.split(":")[1].split()[-1] for line in text.splitlines() if ":param" in line}
        return words | set(inspect.signature(getattr(theirs, name)).parameters)

    return known


def of_azure() -> Callable[[str], set[str]]:
    theirs = pytest.importorskip("azure.mgmt.compute.operations").VirtualMachinesOperations
    return lambda name: set(inspect.signature(getattr(theirs, name)).parameters)


def of_azures_network() -> Callable[[str], set[str]]:
    theirs = pytest.importorskip("azure.mgmt.network.operations").NetworkInterfacesOperations
    return lambda name: set(inspect.signature(getattr(theirs, name)).parameters)


def of_google() -> Callable[[str], set[str]]:
    theirs = pytest.importorskip("google.cloud.compute_v1").InstancesClient
    return lambda name: set(inspect.signature(getattr(theirs, name)).parameters)


def of_aws(service: str) -> Callable[[str], set[str]]:
    boto3 = pytest.importorskip("boto3")
    theirs: Any = boto3.client(service, region_name="eu-west-1")

    def known(name: str) -> set[str]:
        operation = theirs.meta.method_to_api_mapping[name]
        return set(theirs.meta.service_model.operation_model(operation).input_shape.members)

    return known


@pytest.mark.parametrize(
    ("fake", "known_by"),
    [
        (Core, of_kubernetes),
        (VirtualMachines, of_azure),
        (Cards, of_azures_network),
        (Instances, of_google),
        (Fis, lambda: of_aws("fis")),
        (Ec2, lambda: of_aws("ec2")),
    ],
    ids=lambda value: value.__name__,
)
def test_a_fake_takes_what_the_client_takes(
    fake: type, known_by: Callable[[], Callable[[str], set[str]]]
) -> None:
    known = known_by()

    assert calls(fake)
    for name in calls(fake):
        assert named(fake, name) <= known(name), name
