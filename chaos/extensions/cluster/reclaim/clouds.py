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
from chaos.extensions.cluster.reclaim.reclaimer import (
    Seen,
    check_takeable,
    describe_host,
    find_status,
    import_client,
    require_single_node,
    split_node_name,
)
from chaos.faults.world import RefusedError

INTERRUPT = "aws:ec2:send-spot-instance-interruptions"
# As each platform documents it; none can be asked for another.
AWS_NOTICE_S, AZURE_NOTICE_S, GOOGLE_NOTICE_S = 120.0, 30.0, 30.0
_STARTS = {"pending", "initiating", "running", "completed"}


@dataclass
class AwsInstances:
    """Instances of EC2, by an experiment template of AWS FIS that interrupts just that one."""

    name: ClassVar[str] = "aws"
    evidence: ClassVar[Seen] = "against a fake alone"
    takes_announced: ClassVar[bool] = True

    fis: Any
    ec2: Any
    template: str

    @classmethod
    def connect(cls, template: str) -> Self:
        """Connect by boto3's own settings; raises `UsageError` without the client."""
        boto3 = import_client("boto3", extra="reclaim-aws")
        return cls(boto3.client("fis"), boto3.client("ec2"), template)

    def find_machine(self, host: str, port: int, hostname: str) -> str:
        """Return the one instance with this private address; the template must name it, too."""
        del port, hostname  # EC2 makes hostnames of addresses
        states = {"Name": "instance-state-name", "Values": ["running", "shutting-down"]}
        addresses = {"Name": "private-ip-address", "Values": [host]}
        answer = self.ec2.describe_instances(Filters=[addresses, states])
        names = [
            instance["InstanceId"]
            for reservation in answer["Reservations"]
            for instance in reservation["Instances"]
        ]
        return require_single_node(names, host, self)

    def announce(self, node: str, *, notice_s: float) -> float:
        """Start the experiment; AWS gives notice two minutes before it takes the instance."""
        check_takeable(self, node, requested_s=notice_s, available_s=AWS_NOTICE_S)
        self._require_named(node)
        experiment = self.fis.start_experiment(experimentTemplateId=self.template)["experiment"]
        if experiment["state"]["status"] not in _STARTS:
            raise RefusedError(f"the experiment did not start: {experiment['state']}")
        return AWS_NOTICE_S

    def take(self, node: str) -> None:
        """Terminate the instance, if the template names it."""
        check_takeable(self, node)
        self._require_named(node)
        self.ec2.terminate_instances(InstanceIds=[node])

    def is_gone(self, node: str) -> bool:
        """Return whether the instance is terminated, or stopped by an interruption."""
        return self._find_state(node) in {None, "terminated", "stopped"}

    def _require_named(self, node: str) -> None:
        template = self.fis.get_experiment_template(id=self.template)["experimentTemplate"]
        _require_single_target(template, node)

    def _find_state(self, node: str) -> str | None:
        if re.fullmatch("i-[0-9a-z]+", node) is None:
            raise UsageError(f"a node of this platform is named i-…, its instance id, got {node!r}")
        try:
            answer = self.ec2.describe_instances(InstanceIds=[node])
        except Exception as error:
            code = getattr(error, "response", {}).get("Error", {}).get("Code")
            if code == "InvalidInstanceID.NotFound":
                return None
            raise
        states = [
            instance["State"]["Name"]
            for reservation in answer["Reservations"]
            for instance in reservation["Instances"]
        ]
        return states[0] if states else None


def _require_single_target(template: dict[str, Any], node: str) -> None:
    """Raise `RefusedError` unless a template interrupts this instance, and does nothing else."""
    actions = [action["actionId"] for action in template["actions"].values()]
    arns = [
        arn
        for targets in template["targets"].values()
        for arn in targets.get("resourceArns", ["*"])
    ]
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
    evidence: ClassVar[Seen] = "against a fake alone"
    takes_announced: ClassVar[bool] = True
    form: ClassVar[str] = "RESOURCE_GROUP/VM"

    compute: Any
    network: Any
    group: str

    @classmethod
    def connect(cls, subscription: str, group: str) -> Self:
        """Connect with Azure's default credential; raises `UsageError` without the clients."""
        identity = import_client("azure.identity", extra="reclaim-azure")
        compute = import_client("azure.mgmt.compute", extra="reclaim-azure")
        network = import_client("azure.mgmt.network", extra="reclaim-azure")
        credentials = identity.DefaultAzureCredential(), subscription
        return cls(
            compute.ComputeManagementClient(*credentials),
            network.NetworkManagementClient(*credentials),
            group,
        )

    def find_machine(self, host: str, port: int, hostname: str) -> str:
        """Return the one machine with this private address that is named as its host."""
        del port
        cards = self.network.network_interfaces.list(resource_group_name=self.group)
        machines = [
            f"{self.group}/{card.virtual_machine.id.rpartition('/')[2]}"
            for card in cards
            if card.virtual_machine is not None
            and host
            in {configuration.private_ip_address for configuration in card.ip_configurations or ()}
        ]
        # Networks often have the same ranges of private addresses. With the client set to another
        # one, the address alone would name a stranger's machine.
        named_machines = [machine for machine in machines if _is_host(machine, hostname)]
        return require_single_node(named_machines, describe_host(host, hostname), self)

    def announce(self, node: str, *, notice_s: float) -> float:
        """Simulate the eviction; its event comes 30 s before, and minutes may pass until then."""
        check_takeable(self, node, requested_s=notice_s, available_s=AZURE_NOTICE_S)
        self.compute.virtual_machines.simulate_eviction(**self._build_arguments(node))
        return AZURE_NOTICE_S

    def take(self, node: str) -> None:
        """Deallocate the machine, as an eviction does unless its policy is to delete."""
        check_takeable(self, node)
        self.compute.virtual_machines.begin_deallocate(**self._build_arguments(node))

    def is_gone(self, node: str) -> bool:
        """Return whether the machine is deleted, deallocated or stopped."""
        try:
            view = self.compute.virtual_machines.instance_view(**self._build_arguments(node))
        except Exception as error:
            if find_status(error) == HTTPStatus.NOT_FOUND:
                return True
            raise
        codes = {status.code for status in view.statuses}
        return bool(codes & {"PowerState/deallocated", "PowerState/stopped"})

    def _build_arguments(self, node: str) -> dict[str, str]:
        group, machine = split_node_name(node, self.form)
        return {"resource_group_name": group, "vm_name": machine}


@dataclass
class GoogleInstances:
    """Spot instances of a zone of Compute Engine, by an `InstancesClient`."""

    name: ClassVar[str] = "google"
    evidence: ClassVar[Seen] = "against a fake alone"
    takes_announced: ClassVar[bool] = True
    form: ClassVar[str] = "PROJECT/ZONE/INSTANCE"

    instances: Any
    project: str
    zone: str

    @classmethod
    def connect(cls, project: str, zone: str) -> Self:
        """Connect with Google's default credentials; raises `UsageError` without the client."""
        compute = import_client("google.cloud.compute_v1", extra="reclaim-google")
        return cls(compute.InstancesClient(), project, zone)

    def find_machine(self, host: str, port: int, hostname: str) -> str:
        """Return the one instance with this internal address that is named as its host."""
        del port
        names = [
            f"{self.project}/{self.zone}/{instance.name}"
            for instance in self.instances.list(project=self.project, zone=self.zone)
            if host in {card.network_i_p for card in instance.network_interfaces}
            and _is_host(instance.name, hostname)
        ]
        return require_single_node(names, describe_host(host, hostname), self)

    def announce(self, node: str, *, notice_s: float) -> float:
        """Simulate maintenance, which preempts a Spot instance; refuse one that would migrate."""
        check_takeable(self, node, requested_s=notice_s, available_s=GOOGLE_NOTICE_S)
        # Maintenance of any other instance is a live migration, which nothing in the job notices:
        # the fault would have been asked for, and not have happened.
        if self._find_instance(node).scheduling.provisioning_model != "SPOT":
            raise RefusedError(f"{node} is no Spot instance: maintenance would migrate it")
        self.instances.simulate_maintenance_event(**self._build_arguments(node))
        return GOOGLE_NOTICE_S

    def take(self, node: str) -> None:
        """Stop the instance, as a preemption does unless it is to delete."""
        check_takeable(self, node)
        self.instances.stop(**self._build_arguments(node))

    def is_gone(self, node: str) -> bool:
        """Return whether the instance is deleted or stopped (`TERMINATED`)."""
        instance = self._find_instance(node)
        return instance is None or instance.status in {"TERMINATED", "STOPPED"}

    def _find_instance(self, node: str) -> Any:
        try:
            return self.instances.get(**self._build_arguments(node))
        except Exception as error:
            if find_status(error) == HTTPStatus.NOT_FOUND:
                return None
            raise

    def _build_arguments(self, node: str) -> dict[str, str]:
        project, zone, instance = split_node_name(node, self.form)
        return {"project": project, "zone": zone, "instance": instance}
