"""Spot machines of AWS, Azure and Google as nodes, by the clouds' own clients.

Each announces by the cloud's own means of trying an interruption, which then takes the machine. So
the notice is the cloud's. Sources, as of 2026: AWS FIS, `aws:ec2:send-spot-instance-interruptions`;
Azure, "Virtual Machines - Simulate Eviction"; Google, "Simulate a host maintenance event".
"""

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar, Self

from chaos.errors import UsageError
from chaos.faults.world import RefusedError
from chaos.reclaim.port import Seen, client, named, parts, refuse, status_of, the_one

INTERRUPT = "aws:ec2:send-spot-instance-interruptions"
# As each platform documents it; none can be asked for another.
AWS_NOTICE_S, AZURE_NOTICE_S, GOOGLE_NOTICE_S = 120.0, 30.0, 30.0
_STARTS = {"pending", "initiating", "running", "completed"}


@dataclass
class AwsInstances:
    """Instances of EC2, by an experiment template of AWS FIS that interrupts just that one."""

    name: ClassVar[str] = "aws"
    seen: ClassVar[Seen] = "against a fake alone"
    takes_announced: ClassVar[bool] = True

    fis: Any
    ec2: Any
    template: str

    @classmethod
    def connect(cls, template: str) -> Self:
        """Connect by boto3's own settings; raises `UsageError` without the client."""
        boto3 = client("boto3", extra="reclaim-aws")
        return cls(boto3.client("fis"), boto3.client("ec2"), template)

    def at(self, host: str, port: int, hostname: str) -> str:
        """Return the one instance with this private address; the template must name it, too."""
        del port, hostname  # EC2 makes hostnames of addresses
        states = {"Name": "instance-state-name", "Values": ["running", "shutting-down"]}
        addresses = {"Name": "private-ip-address", "Values": [host]}
        found = self.ec2.describe_instances(Filters=[addresses, states])
        names = [i["InstanceId"] for r in found["Reservations"] for i in r["Instances"]]
        return the_one(names, host, self)

    def announce(self, node: str, *, notice_s: float) -> float:
        """Start the experiment; AWS gives notice two minutes before it takes the instance."""
        refuse(self, node, asked_s=notice_s, given_s=AWS_NOTICE_S)
        self._must_be_named(node)
        started = self.fis.start_experiment(experimentTemplateId=self.template)["experiment"]
        if started["state"]["status"] not in _STARTS:
            raise RefusedError(f"the experiment did not start: {started['state']}")
        return AWS_NOTICE_S

    def take(self, node: str) -> None:
        """Terminate the instance, if the template names it."""
        refuse(self, node)
        self._must_be_named(node)
        self.ec2.terminate_instances(InstanceIds=[node])

    def is_gone(self, node: str) -> bool:
        """Return whether the instance is terminated, or stopped by an interruption."""
        return self._state(node) in {None, "terminated", "stopped"}

    def _must_be_named(self, node: str) -> None:
        found = self.fis.get_experiment_template(id=self.template)["experimentTemplate"]
        _must_interrupt_alone(found, node)

    def _state(self, node: str) -> str | None:
        if re.fullmatch("i-[0-9a-z]+", node) is None:
            raise UsageError(f"a node of this platform is named i-…, its instance id, got {node!r}")
        try:
            found = self.ec2.describe_instances(InstanceIds=[node])
        except Exception as error:
            code = getattr(error, "response", {}).get("Error", {}).get("Code")
            if code == "InvalidInstanceID.NotFound":
                return None
            raise
        states = [i["State"]["Name"] for r in found["Reservations"] for i in r["Instances"]]
        return states[0] if states else None


def _must_interrupt_alone(template: dict[str, Any], node: str) -> None:
    """Raise `RefusedError` unless a template interrupts this instance, and does nothing else."""
    actions = [action["actionId"] for action in template["actions"].values()]
    arns = [arn for t in template["targets"].values() for arn in t.get("resourceArns", ["*"])]
    # A template can name instances by a tag, or have further actions. Started, it would interrupt
    # more than the node that a fault was allowed, and chaos could not take that back.
    if actions != [INTERRUPT] or [arn.rpartition("/")[2] for arn in arns] != [node]:
        raise RefusedError(
            f"the experiment template must have one action, {INTERRUPT}, and {node} alone as its "
            f"target, by its ARN; it has {actions} for {arns}"
        )


def _is_host(node: str, hostname: str) -> bool:
    """Return whether a machine's name is that of a host, whose domain may follow."""
    return node.rpartition("/")[2].lower() == hostname.partition(".")[0].lower()


@dataclass
class AzureMachines:
    """Spot virtual machines of a resource group, by Azure's clients for compute and network.

    Those of a scale set are not among them.
    """

    name: ClassVar[str] = "azure"
    seen: ClassVar[Seen] = "against a fake alone"
    takes_announced: ClassVar[bool] = True
    form: ClassVar[str] = "RESOURCE_GROUP/VM"

    compute: Any
    network: Any
    group: str

    @classmethod
    def connect(cls, subscription: str, group: str) -> Self:
        """Connect with Azure's default credential; raises `UsageError` without the clients."""
        identity = client("azure.identity", extra="reclaim-azure")
        compute = client("azure.mgmt.compute", extra="reclaim-azure")
        network = client("azure.mgmt.network", extra="reclaim-azure")
        by = identity.DefaultAzureCredential(), subscription
        return cls(
            compute.ComputeManagementClient(*by), network.NetworkManagementClient(*by), group
        )

    def at(self, host: str, port: int, hostname: str) -> str:
        """Return the one machine with this private address that is named as its host."""
        del port
        cards = self.network.network_interfaces.list(resource_group_name=self.group)
        found = [
            f"{self.group}/{card.virtual_machine.id.rpartition('/')[2]}"
            for card in cards
            if card.virtual_machine is not None
            and host in {c.private_ip_address for c in card.ip_configurations or ()}
        ]
        # Networks often have the same ranges of private addresses. With the client set to another
        # one, the address alone would name a stranger's machine.
        same = [n for n in found if _is_host(n, hostname)]
        return the_one(same, named(host, hostname), self)

    def announce(self, node: str, *, notice_s: float) -> float:
        """Simulate the eviction; its event comes 30 s before, and minutes may pass until then."""
        refuse(self, node, asked_s=notice_s, given_s=AZURE_NOTICE_S)
        self.compute.virtual_machines.simulate_eviction(**self._named(node))
        return AZURE_NOTICE_S

    def take(self, node: str) -> None:
        """Deallocate the machine, as an eviction does unless its policy is to delete."""
        refuse(self, node)
        self.compute.virtual_machines.begin_deallocate(**self._named(node))

    def is_gone(self, node: str) -> bool:
        """Return whether the machine is deleted, deallocated or stopped."""
        try:
            view = self.compute.virtual_machines.instance_view(**self._named(node))
        except Exception as error:
            if status_of(error) == HTTPStatus.NOT_FOUND:
                return True
            raise
        codes = {status.code for status in view.statuses}
        return bool(codes & {"PowerState/deallocated", "PowerState/stopped"})

    def _named(self, node: str) -> dict[str, str]:
        group, machine = parts(node, self.form)
        return {"resource_group_name": group, "vm_name": machine}


@dataclass
class GoogleInstances:
    """Spot instances of a zone of Compute Engine, by an `InstancesClient`."""

    name: ClassVar[str] = "google"
    seen: ClassVar[Seen] = "against a fake alone"
    takes_announced: ClassVar[bool] = True
    form: ClassVar[str] = "PROJECT/ZONE/INSTANCE"

    instances: Any
    project: str
    zone: str

    @classmethod
    def connect(cls, project: str, zone: str) -> Self:
        """Connect with Google's default credentials; raises `UsageError` without the client."""
        compute = client("google.cloud.compute_v1", extra="reclaim-google")
        return cls(compute.InstancesClient(), project, zone)

    def at(self, host: str, port: int, hostname: str) -> str:
        """Return the one instance with this internal address that is named as its host."""
        del port
        found = [
            f"{self.project}/{self.zone}/{instance.name}"
            for instance in self.instances.list(project=self.project, zone=self.zone)
            if host in {card.network_i_p for card in instance.network_interfaces}
            and _is_host(instance.name, hostname)
        ]
        return the_one(found, named(host, hostname), self)

    def announce(self, node: str, *, notice_s: float) -> float:
        """Simulate maintenance, which preempts a Spot instance; refuse one that would migrate."""
        refuse(self, node, asked_s=notice_s, given_s=GOOGLE_NOTICE_S)
        # Maintenance of any other instance is a live migration, which nothing in the job notices:
        # the fault would have been asked for, and not have happened.
        if self._get(node).scheduling.provisioning_model != "SPOT":
            raise RefusedError(f"{node} is no Spot instance: maintenance would migrate it")
        self.instances.simulate_maintenance_event(**self._named(node))
        return GOOGLE_NOTICE_S

    def take(self, node: str) -> None:
        """Stop the instance, as a preemption does unless it is to delete."""
        refuse(self, node)
        self.instances.stop(**self._named(node))

    def is_gone(self, node: str) -> bool:
        """Return whether the instance is deleted or stopped (`TERMINATED`)."""
        found = self._get(node)
        return found is None or found.status in {"TERMINATED", "STOPPED"}

    def _get(self, node: str) -> Any:  # noqa: ANN401 - an Instance, or None
        try:
            return self.instances.get(**self._named(node))
        except Exception as error:
            if status_of(error) == HTTPStatus.NOT_FOUND:
                return None
            raise

    def _named(self, node: str) -> dict[str, str]:
        project, zone, instance = parts(node, self.form)
        return {"project": project, "zone": zone, "instance": instance}
