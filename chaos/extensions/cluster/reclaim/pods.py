"""A pod of Kubernetes as a node, by the official client: eviction announces, deletion ends it."""

import math
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, ClassVar, Self

from chaos.extensions.cluster.reclaim.reclaimer import (
    Seen,
    describe_host,
    find_status,
    import_client,
    require_single_node,
    split_node_name,
)
from chaos.faults.world import RefusedError

FORM = "NAMESPACE/POD"
# 0 would remove the pod from the API at once, running or not.
LEAST_S = 1
# Kubernetes cuts a pod's name to the 63 characters of a DNS label.
HOSTNAME_MAX = 63
_FINISHED_PHASES = {"Succeeded", "Failed"}  # phases in which no container runs


@dataclass
class KubernetesPods:
    """Pods of a namespace, by a `CoreV1Api`.

    A budget for disruptions (PodDisruptionBudget) may refuse an eviction. With a grace of 0 s the
    API would forget a pod that may still run; with 1 s it waits for the word of its kubelet.
    """

    name: ClassVar[str] = "kubernetes"
    evidence: ClassVar[Seen] = "against a fake alone"
    takes_announced: ClassVar[bool] = True

    core: Any
    namespace: str
    _uids: dict[str, str] = field(default_factory=dict)

    @classmethod
    def connect(cls, namespace: str) -> Self:
        """Connect as `kubectl` does, or as the service account of the pod that chaos runs in."""
        library = import_client("kubernetes", extra="reclaim-kubernetes")
        try:
            library.config.load_kube_config()
        except library.config.ConfigException:  # no file, as in a pod
            library.config.load_incluster_config()
        return cls(library.client.CoreV1Api(), namespace)

    def find_machine(self, host: str, port: int, hostname: str) -> str:
        """Return the one pod with this IP and hostname, which is its name unless it states another.

        Clusters often have the same range of IPs, and pods with their host's network share one.
        """
        del port
        selector = f"status.podIP={host}"
        pods = self.core.list_namespaced_pod(namespace=self.namespace, field_selector=selector)
        pod_names = [
            f"{pod.metadata.namespace}/{pod.metadata.name}"
            for pod in pods.items
            if pod.status.phase not in _FINISHED_PHASES
            and hostname == (pod.spec.hostname or pod.metadata.name)[:HOSTNAME_MAX]
        ]
        return require_single_node(pod_names, describe_host(host, hostname), self)

    def announce(self, node: str, *, notice_s: float) -> float:
        """Evict the pod with the notice as its grace, in whole seconds; it goes by itself."""
        namespace, pod = split_node_name(node, FORM)
        self._record_pod(node)
        grace_s = max(LEAST_S, math.ceil(notice_s))
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": {"gracePeriodSeconds": grace_s},
        }
        try:
            self.core.create_namespaced_pod_eviction(name=pod, namespace=namespace, body=body)
        except Exception as error:
            if find_status(error) == HTTPStatus.TOO_MANY_REQUESTS:
                raise RefusedError(f"a disruption budget keeps {node}") from error
            raise
        return float(grace_s)

    def take(self, node: str) -> None:
        """Delete the pod with the least grace: SIGTERM, and SIGKILL a second later."""
        namespace, pod = split_node_name(node, FORM)
        self._record_pod(node)
        self.core.delete_namespaced_pod(name=pod, namespace=namespace, grace_period_seconds=LEAST_S)

    def is_gone(self, node: str) -> bool:
        """Return whether the pod is gone; another one of its name is not it."""
        pod = self._load_pod(node)
        if pod is None:
            return True
        is_another = self._uids.get(node, pod.metadata.uid) != pod.metadata.uid
        return is_another or pod.status.phase in _FINISHED_PHASES

    def _record_pod(self, node: str) -> None:
        pod = self._load_pod(node)
        if pod is None or pod.status.phase in _FINISHED_PHASES:
            raise ProcessLookupError(f"there is no pod {node}")
        self._uids[node] = pod.metadata.uid

    def _load_pod(self, node: str) -> Any:
        namespace, pod = split_node_name(node, FORM)
        try:
            return self.core.read_namespaced_pod(name=pod, namespace=namespace)
        except Exception as error:
            if find_status(error) == HTTPStatus.NOT_FOUND:
                return None
            raise
