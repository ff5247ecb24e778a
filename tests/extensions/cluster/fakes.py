"""Stand-ins for the platforms' clients: they record calls, and refuse those that they do not know.

Each has one node that runs. What is announced goes once `pass_time` is called.
"""

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from chaos.extensions.cluster.reclaim.clouds import INTERRUPT

ADDRESS = "10.0.0.7"


class ClientError(Exception):
    """An error of any of the clients, by default for a node that is not there."""

    def __init__(self, status: int = 404) -> None:
        super().__init__(f"({status})\nmuch that is not for a reader")
        self.body = json.dumps({"message": "the API's own reason"})
        self.status = self.status_code = self.code = status


class BotoError(Exception):
    """`botocore.exceptions.ClientError`, which has all in its response."""

    def __init__(self, code: str, status: int) -> None:
        super().__init__(f"an error occurred ({code})")
        self.response = {
            "Error": {"Code": code},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }


@dataclass
class Platform:
    """One node of a platform, and the calls that would change something.

    `names` are the nodes at its address. Without rights (`is_closed`) every call is refused.
    """

    node: str
    names: list[str] = field(default_factory=list)
    is_closed: bool = False
    calls: list[str] = field(default_factory=list)
    is_announced: bool = False
    is_there: bool = True

    def pass_time(self) -> None:
        if self.is_announced:
            self.is_there = False

    def __post_init__(self) -> None:
        self.names = [self.node]

    def refuse(self) -> None:
        if self.is_closed:
            raise ClientError(403)

    def look_for(self, *names: str) -> None:
        self.refuse()
        if "/".join(names) != self.node:
            raise ClientError

    def announced(self, call: str) -> None:
        self.refuse()
        self.calls.append(call)
        self.is_announced = True

    def taken(self, call: str) -> None:
        self.refuse()
        self.calls.append(call)
        self.is_there = False


@dataclass
class Core:
    """`kubernetes.client.CoreV1Api`."""

    platform: Platform
    uid: str = "1"
    hostname: str | None = None
    is_guarded: bool = False

    def list_namespaced_pod(self, *, namespace: str, field_selector: str) -> Any:
        self.platform.refuse()
        assert namespace == "jobs"
        names = self.platform.names if field_selector == f"status.podIP={ADDRESS}" else []
        pods = [
            SimpleNamespace(
                metadata=SimpleNamespace(namespace=namespace, name=name.rpartition("/")[2]),
                status=SimpleNamespace(phase=phase),
                spec=SimpleNamespace(hostname=self.hostname),
            )
            for name, phase in [*((name, "Running") for name in names), ("jobs/old", "Failed")]
        ]
        return SimpleNamespace(items=pods)

    def read_namespaced_pod(self, *, name: str, namespace: str) -> Any:
        self.platform.look_for(namespace, name)
        if not self.platform.is_there:
            raise ClientError
        status = SimpleNamespace(phase="Running")
        return SimpleNamespace(metadata=SimpleNamespace(uid=self.uid), status=status)

    def create_namespaced_pod_eviction(
        self, *, name: str, namespace: str, body: dict[str, Any]
    ) -> None:
        self.platform.look_for(namespace, name)
        assert (body["apiVersion"], body["kind"]) == ("policy/v1", "Eviction")
        assert body["metadata"] == {"name": name, "namespace": namespace}
        if self.is_guarded:
            raise ClientError(429)
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

    def describe_instances(
        self,
        *,
        InstanceIds: list[str] | None = None,  # noqa: N803 - theirs
        Filters: list[dict[str, Any]] | None = None,  # noqa: N803
    ) -> dict[str, Any]:
        if self.platform.is_closed:
            raise BotoError("UnauthorizedOperation", 403)
        state = "running" if self.platform.is_there else "terminated"
        if InstanceIds is not None:
            if InstanceIds != [self.platform.node]:
                raise BotoError("InvalidInstanceID.NotFound", 400)
            found = InstanceIds
        else:
            wanted = {f["Name"]: f["Values"] for f in Filters or ()}
            is_at = wanted["private-ip-address"] == [ADDRESS]
            is_listed = state in wanted["instance-state-name"]
            found = self.platform.names if is_at and is_listed else []
        rows = [{"InstanceId": name, "State": {"Name": state}} for name in found]
        return {"Reservations": [{"Instances": rows}]}

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
class Cards:
    """`NetworkManagementClient.network_interfaces`; one is of no machine."""

    platform: Platform

    def list(self, *, resource_group_name: str) -> list[Any]:
        self.platform.refuse()
        assert resource_group_name == "group"
        at = [SimpleNamespace(private_ip_address=ADDRESS)]
        above = "/subscriptions/s/resourceGroups/group/providers/Microsoft.Compute/virtualMachines"
        machines = [
            SimpleNamespace(id=f"{above}/{name.rpartition('/')[2]}") for name in self.platform.names
        ]
        return [
            SimpleNamespace(virtual_machine=machine, ip_configurations=at)
            for machine in (None, *machines)
        ]


@dataclass
class Instances:
    """`google.cloud.compute_v1.InstancesClient`."""

    platform: Platform
    model: str = "SPOT"

    def list(self, *, project: str, zone: str) -> list[Any]:
        self.platform.refuse()
        assert (project, zone) == ("p", "z")
        cards = [SimpleNamespace(network_i_p=ADDRESS)]
        names = [name.rpartition("/")[2] for name in self.platform.names]
        return [SimpleNamespace(name=name, network_interfaces=cards) for name in names]

    def get(self, *, project: str, zone: str, instance: str) -> Any:
        self.platform.look_for(project, zone, instance)
        status = "RUNNING" if self.platform.is_there else "TERMINATED"
        scheduling = SimpleNamespace(provisioning_model=self.model)
        return SimpleNamespace(status=status, scheduling=scheduling)

    def simulate_maintenance_event(self, *, project: str, zone: str, instance: str) -> None:
        self.platform.announced(f"maintain {project} {zone} {instance}")

    def stop(self, *, project: str, zone: str, instance: str) -> None:
        self.platform.taken(f"stop {project} {zone} {instance}")
