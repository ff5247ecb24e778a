"""Stand-ins for the platforms' clients: they record calls, and refuse those that they do not know.

Each has one node that runs. What is announced goes once `pass_time` is called.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from chaos.reclaim.clouds import INTERRUPT


class MissingError(Exception):
    """An error of any of the clients for a node that is not there."""

    status = status_code = code = 404

    def __init__(self) -> None:
        super().__init__("not found")
        self.response = {"Error": {"Code": "InvalidInstanceID.NotFound"}}


@dataclass
class Platform:
    """One node of a platform, and the calls that would change something."""

    node: str
    calls: list[str] = field(default_factory=list)
    is_announced: bool = False
    is_there: bool = True

    def pass_time(self) -> None:
        if self.is_announced:
            self.is_there = False

    def look_for(self, *names: str) -> None:
        if "/".join(names) != self.node:
            raise MissingError

    def announced(self, call: str) -> None:
        self.calls.append(call)
        self.is_announced = True

    def taken(self, call: str) -> None:
        self.calls.append(call)
        self.is_there = False


@dataclass
class Core:
    """`kubernetes.client.CoreV1Api`."""

    platform: Platform
    uid: str = "1"
    is_guarded: bool = False

    def read_namespaced_pod(self, *, name: str, namespace: str) -> Any:
        self.platform.look_for(namespace, name)
        if not self.platform.is_there:
            raise MissingError
        status = SimpleNamespace(phase="Running")
        return SimpleNamespace(metadata=SimpleNamespace(uid=self.uid), status=status)

    def create_namespaced_pod_eviction(
        self, *, name: str, namespace: str, body: dict[str, Any]
    ) -> None:
        self.platform.look_for(namespace, name)
        assert (body["apiVersion"], body["kind"]) == ("policy/v1", "Eviction")
        assert body["metadata"] == {"name": name, "namespace": namespace}
        if self.is_guarded:
            error = MissingError()
            error.status = 429
            raise error
        self.platform.announced(f"evict {body['deleteOptions']['gracePeriodSeconds']}")

    def delete_namespaced_pod(
        self, *, name: str, namespace: str, grace_period_seconds: int
    ) -> None:
        self.platform.look_for(namespace, name)
        self.platform.taken(f"delete {grace_period_seconds}")


@dataclass
class Fis:
    """`boto3.client("fis")`, with one template."""

    platform: Platform
    actions: tuple[str, ...] = (INTERRUPT,)
    targets: tuple[dict[str, Any], ...] = ()
    status: str = "initiating"

    def get_experiment_template(self, *, id: str) -> dict[str, Any]:  # noqa: A002 - theirs
        assert id == "EXT1"
        arn = f"arn:aws:ec2:eu-west-1:1:instance/{self.platform.node}"
        targets = self.targets or ({"resourceArns": [arn]},)
        template = {
            "actions": {str(n): {"actionId": a} for n, a in enumerate(self.actions)},
            "targets": {str(n): target for n, target in enumerate(targets)},
        }
        return {"experimentTemplate": template}

    def start_experiment(self, *, experimentTemplateId: str) -> dict[str, Any]:  # noqa: N803
        self.platform.announced(f"experiment {experimentTemplateId}")
        return {"experiment": {"state": {"status": self.status}}}


@dataclass
class Ec2:
    """`boto3.client("ec2")`."""

    platform: Platform

    def describe_instances(self, *, InstanceIds: list[str]) -> dict[str, Any]:  # noqa: N803
        self.platform.look_for(*InstanceIds)
        state = "running" if self.platform.is_there else "terminated"
        return {"Reservations": [{"Instances": [{"State": {"Name": state}}]}]}

    def terminate_instances(self, *, InstanceIds: list[str]) -> None:  # noqa: N803
        self.platform.taken(f"terminate {' '.join(InstanceIds)}")


@dataclass
class VirtualMachines:
    """`ComputeManagementClient.virtual_machines`."""

    platform: Platform

    def instance_view(self, *, resource_group_name: str, vm_name: str) -> Any:
        self.platform.look_for(resource_group_name, vm_name)
        power = "running" if self.platform.is_there else "deallocated"
        codes = ("ProvisioningState/succeeded", f"PowerState/{power}")
        return SimpleNamespace(statuses=[SimpleNamespace(code=code) for code in codes])

    def simulate_eviction(self, *, resource_group_name: str, vm_name: str) -> None:
        self.platform.announced(f"simulate eviction {resource_group_name} {vm_name}")

    def begin_deallocate(self, *, resource_group_name: str, vm_name: str) -> None:
        self.platform.taken(f"deallocate {resource_group_name} {vm_name}")


@dataclass
class Instances:
    """`google.cloud.compute_v1.InstancesClient`."""

    platform: Platform
    model: str = "SPOT"

    def get(self, *, project: str, zone: str, instance: str) -> Any:
        self.platform.look_for(project, zone, instance)
        status = "RUNNING" if self.platform.is_there else "TERMINATED"
        scheduling = SimpleNamespace(provisioning_model=self.model)
        return SimpleNamespace(status=status, scheduling=scheduling)

    def simulate_maintenance_event(self, *, project: str, zone: str, instance: str) -> None:
        self.platform.announced(f"maintain {project} {zone} {instance}")

    def stop(self, *, project: str, zone: str, instance: str) -> None:
        self.platform.taken(f"stop {project} {zone} {instance}")
