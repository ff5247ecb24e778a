"""Jobs of Kubernetes: KubeRay's, Kubeflow's, JobSet's, Volcano's, and its own."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from chaos.extensions.preflight.platform_doc import FileValue, PlatformDocument, list_nodes
from chaos.wording import plural

KUBERNETES_GRACE_S = 30  # terminationGracePeriodSeconds, if a pod does not say
RENDEZVOUS_BACKEND = "c10d"  # Kubeflow's training operator, where an elasticPolicy names none
BACKOFF_LIMIT = 6  # of a Job that does not say


def _kuberay(doc: PlatformDocument, *cluster: str | int) -> Iterator[FileValue]:
    """Read the worker groups of a cluster's specification."""
    min_nodes = max_nodes = nodes = 0
    groups = (*cluster, "workerGroupSpecs")
    for number, _ in enumerate(doc.sequence(*groups)):
        group = (*groups, number)
        count, missing = doc.number(*group, "replicas", name="job.nodes")
        yield from [missing] if missing else []
        hosts, count = doc.integer(*group, "numOfHosts") or 1, count or 0
        nodes += count * hosts
        min_nodes += (doc.integer(*group, "minReplicas") or count) * hosts
        max_nodes += (doc.integer(*group, "maxReplicas") or count) * hosts
        yield from _pod(doc, *group, "template", "spec")
    yield from list_nodes(nodes, doc.line(*groups), f"{plural(nodes, 'worker')} (replicas)")
    scales = bool(doc.get_value(*cluster, "enableInTreeAutoscaling"))
    line = doc.line(*groups)
    if scales and max_nodes > nodes:
        yield FileValue(
            "job.nodes_max", max_nodes, line, f"the autoscaler may start {max_nodes} (maxReplicas)"
        )
    if scales and 0 < min_nodes < nodes:
        yield FileValue("", min_nodes, line, f"the autoscaler keeps {min_nodes} (minReplicas)")
    head = (*cluster, "headGroupSpec", "template", "spec")
    if _requests_spot(doc, *head):
        words = "the head stands on spot nodes"
        yield FileValue("settings.head_on_spot", True, doc.line(*head), words)


def _ray_job(doc: PlatformDocument) -> Iterator[FileValue]:
    yield from _kuberay(doc, "spec", "rayClusterSpec")
    yield from _limit(doc, "spec", "activeDeadlineSeconds")
    retries = doc.integer("spec", "backoffLimit")
    line = doc.line("spec", "backoffLimit" if retries is not None else "rayClusterSpec")
    words = f"{plural(retries or 0, 'more cluster')} after one that failed (backoffLimit)"
    yield FileValue("", retries or 0, line, words)
    if doc.get_value("spec", "suspend") is True:
        yield FileValue(
            "", True, doc.line("spec", "suspend"), "it is suspended, and does not start"
        )


def _replicas(
    doc: PlatformDocument, *specs: str | int, leaves_out: str = ""
) -> Iterator[FileValue]:
    """Read the roles of a job of Kubeflow's; each pod is a node."""
    nodes = 0
    for role in doc.mapping(*specs):
        if role == leaves_out:
            continue
        count, missing = doc.number(*specs, role, "replicas", name="job.nodes")
        yield from [missing] if missing else []
        if missing is None:
            nodes += 1 if count is None else count
        yield from _pod(doc, *specs, role, "template", "spec")
    yield from list_nodes(nodes, doc.line(*specs), f"{plural(nodes, 'pod')} (replicas)")
    yield from _limit(doc, "spec", "runPolicy", "activeDeadlineSeconds")
    limit = doc.integer("spec", "runPolicy", "backoffLimit")
    if limit is not None:
        line = doc.line("spec", "runPolicy", "backoffLimit")
        yield from _describe_job_retries(limit, max(1, nodes), line)


def _pytorch_job(doc: PlatformDocument) -> Iterator[FileValue]:
    yield from _replicas(doc, "spec", "pytorchReplicaSpecs")
    policy = ("spec", "elasticPolicy")
    if has_rendezvous(doc):
        backend = doc.get_value(*policy, "rdzvBackend") or RENDEZVOUS_BACKEND
        words = f"torchrun starts its workers: elasticPolicy has a rendezvous ({backend})"
        yield FileValue("", backend, doc.line(*policy), words)
    min_nodes, max_nodes = doc.integer(*policy, "minReplicas"), doc.integer(*policy, "maxReplicas")
    if min_nodes is not None and min_nodes < (max_nodes or 0):
        words = f"{min_nodes} to {max_nodes} pods (minReplicas, maxReplicas)"
        yield FileValue("job.min_nodes", min_nodes, doc.line(*policy, "minReplicas"), words)
    restarts = doc.integer(*policy, "maxRestarts")
    if restarts is not None:
        words = f"torchrun starts its workers again {plural(restarts, 'time')} (maxRestarts)"
        line = doc.line(*policy, "maxRestarts")
        yield FileValue("settings.max_restarts", restarts, line, words)
    yield from _parse_rendezvous_settings(doc, *policy, "rdzvConf")


_RENDEZVOUS_KEYS = {
    "join_timeout": "settings.join_timeout_s",
    "last_call_timeout": "settings.last_call_s",
}


def _parse_rendezvous_settings(doc: PlatformDocument, *loc: str) -> Iterator[FileValue]:
    """Read the keys and values of a rendezvous, which are texts."""
    for number, item in enumerate(doc.sequence(*loc)):
        key, value = (doc.get_value(*loc, number, name) for name in ("key", "value"))
        if isinstance(item, dict) and key in _RENDEZVOUS_KEYS and str(value).isdigit():
            line = doc.line(*loc, number)
            yield FileValue(_RENDEZVOUS_KEYS[key], float(value), line, f"{key} is {value} s")


def has_rendezvous(doc: PlatformDocument) -> bool:
    """Return whether a PyTorchJob has a rendezvous, which agents of torchrun alone have.

    An `elasticPolicy` always has one: the operator takes c10d where it names none.
    """
    is_pytorch_job = doc.get_value("kind") == "PyTorchJob"
    return is_pytorch_job and isinstance(doc.get_value("spec", "elasticPolicy"), dict)


def _mpi_job(doc: PlatformDocument) -> Iterator[FileValue]:
    yield from _replicas(doc, "spec", "mpiReplicaSpecs", leaves_out="Launcher")


def _train_job(doc: PlatformDocument) -> Iterator[FileValue]:
    nodes, missing = doc.number("spec", "trainer", "numNodes", name="job.nodes")
    yield from [missing] if missing else []
    line = doc.line("spec", "trainer", "numNodes")
    yield from list_nodes(nodes or 0, line, f"{plural(nodes or 0, 'node')} (numNodes)")
    if doc.get_value("spec", "suspend") is True:
        yield FileValue(
            "", True, doc.line("spec", "suspend"), "it is suspended, and does not start"
        )


def _pods_of_job(doc: PlatformDocument, *spec: str | int) -> Iterator[FileValue]:
    """Yield the pods of a Job of Kubernetes, with no place: several may make one training."""
    count, missing = doc.number(*spec, "parallelism", name="job.nodes")
    line = doc.line(*spec, "parallelism" if count is not None else "template")
    if missing is not None:
        yield missing
    else:
        yield FileValue("", 1 if count is None else count, line, "")


def _job(doc: PlatformDocument) -> Iterator[FileValue]:
    (pods,) = _pods_of_job(doc, "spec")
    if pods.description:
        yield pods
    else:
        prefix = "" if doc.get_value("spec", "parallelism") is not None else "no "
        words = f"{plural(pods.value, 'pod')} ({prefix}parallelism)"
        yield from list_nodes(pods.value, pods.line, words)
    yield from _pod(doc, "spec", "template", "spec")
    yield from _limit(doc, "spec", "activeDeadlineSeconds")
    limit = doc.integer("spec", "backoffLimit")
    line = doc.line("spec", "backoffLimit" if limit is not None else "template")
    count = pods.value if isinstance(pods.value, int) else 1
    index_limit = doc.integer("spec", "backoffLimitPerIndex")
    if index_limit is not None and limit is None:
        rule_line = doc.line("spec", "backoffLimitPerIndex")
        yield from _describe_job_retries(index_limit, 1, rule_line, "backoffLimitPerIndex")
    else:
        name = "no backoffLimit" if limit is None else "backoffLimit"
        yield from _describe_job_retries(
            BACKOFF_LIMIT if limit is None else limit, count, line, name
        )
    for number, rule in enumerate(doc.sequence("spec", "podFailurePolicy", "rules")):
        if isinstance(rule, dict) and rule.get("action") == "Ignore":
            rule_line = doc.line("spec", "podFailurePolicy", "rules", number)
            yield FileValue(
                "", "Ignore", rule_line, "some failures of pods are not counted (podFailurePolicy)"
            )
    if doc.get_value("spec", "suspend") is True:
        yield FileValue("", True, doc.line("spec", "suspend"), "it starts suspended")


def _job_set(doc: PlatformDocument) -> Iterator[FileValue]:
    nodes, jobs = 0, ("spec", "replicatedJobs")
    for number, _ in enumerate(doc.sequence(*jobs)):
        job = (*jobs, number)
        (pods,) = _pods_of_job(doc, *job, "template", "spec")
        copies, missing = doc.number(*job, "replicas", name="job.nodes")
        yield from [missing] if missing else []
        yield from [pods] if pods.description else []
        if not missing and not pods.description:
            nodes += (1 if copies is None else copies) * pods.value
        yield from _pod(doc, *job, "template", "spec", "template", "spec")
    yield from list_nodes(nodes, doc.line(*jobs), f"{plural(nodes, 'pod')} (replicas, parallelism)")
    policy = ("spec", "failurePolicy")
    restarts = doc.integer(*policy, "maxRestarts") or 0
    line = doc.line(*policy, "maxRestarts") if restarts else doc.line("spec")
    words = f"all pods are started again {plural(restarts, 'time')} (maxRestarts)"
    yield FileValue("settings.job_retries", restarts, line, words)
    for number, rule in enumerate(doc.sequence(*policy, "rules")):
        action = rule.get("action") if isinstance(rule, dict) else None
        if action == "RestartJobSetAndIgnoreMaxRestarts":
            rule_line = doc.line(*policy, "rules", number)
            yield FileValue(
                "", action, rule_line, f"some failures are not counted against it ({action})"
            )


def _volcano(doc: PlatformDocument) -> Iterator[FileValue]:
    nodes, tasks = 0, ("spec", "tasks")
    for number, _ in enumerate(doc.sequence(*tasks)):
        count, missing = doc.number(*tasks, number, "replicas", name="job.nodes")
        yield from [missing] if missing else []
        nodes += count or 0
        yield from _pod(doc, *tasks, number, "template", "spec")
    yield from list_nodes(nodes, doc.line(*tasks), f"{plural(nodes, 'pod')} (replicas of tasks)")
    retries = doc.integer("spec", "maxRetry")
    line = doc.line("spec", "maxRetry") if retries is not None else doc.line("spec")
    count = 3 if retries is None else retries
    words = f"the job is started again {plural(count, 'time')} ({'no ' if retries is None else ''}"
    yield FileValue("settings.job_retries", count, line, f"{words}maxRetry)")


def _helm_values(doc: PlatformDocument) -> Iterator[FileValue]:
    """Read the values of KubeRay's chart `ray-cluster`."""
    is_off = doc.get_value("worker", "disabled") is True
    groups = ([] if is_off else [("worker",)]) + [
        ("additionalWorkerGroups", name)
        for name, group in doc.mapping("additionalWorkerGroups").items()
        if isinstance(group, dict) and group.get("disabled") is not True
    ]
    nodes = sum(doc.integer(*group, "replicas") or 0 for group in groups)
    max_nodes = sum(doc.integer(*group, "maxReplicas") or 0 for group in groups)
    line = doc.line("worker", "replicas")
    yield from list_nodes(nodes, line, f"{plural(nodes, 'worker')} (replicas)")
    if doc.get_value("head", "enableInTreeAutoscaling") is True and max_nodes > nodes:
        words = f"the autoscaler may start {max_nodes} (maxReplicas)"
        yield FileValue("job.nodes_max", max_nodes, line, words)
    for group in groups:
        yield from _pod(doc, *group)


def _describe_job_retries(
    limit: int, pods: int, line: int, name: str = "backoffLimit"
) -> Iterator[FileValue]:
    """Yield the number of times that a job is started again: each pod counts as it fails."""
    words = f"{plural(limit, 'pod')} that failed are replaced ({name})"
    if pods > 1:
        words += f": {plural(limit // pods, 'time')} all {pods}"
    yield FileValue("settings.job_retries", limit // pods, line, words)


def _pod(doc: PlatformDocument, *spec: str | int) -> Iterator[FileValue]:
    """Read how long a pod is given, and whether it stands on spot nodes."""
    grace = doc.integer(*spec, "terminationGracePeriodSeconds")
    if grace is None:
        line, words = (
            doc.line(*spec),
            f"{KUBERNETES_GRACE_S} s from SIGTERM to SIGKILL, the default",
        )
    else:
        line = doc.line(*spec, "terminationGracePeriodSeconds")
        words = f"{grace} s from SIGTERM to SIGKILL (terminationGracePeriodSeconds)"
    yield FileValue(
        "settings.pod_grace_s", KUBERNETES_GRACE_S if grace is None else grace, line, words
    )
    if _is_spot(doc, *spec):
        yield FileValue(
            "", True, doc.line(*spec), "it asks for spot nodes, or tolerates their taint"
        )


_SPOT = re.compile(r"(?i)(?<!non-)(?<!non_)(?<!non)(?:\bspot|[-_/]spot|preemptible)")


def _requests_spot(doc: PlatformDocument, *spec: str | int) -> bool:
    """Return whether a pod's selector asks for spot nodes; a toleration only permits them."""
    selectors = doc.mapping(*spec, "nodeSelector").items()
    return _names_spot([f"{key}={value}" for key, value in selectors])


def _is_spot(doc: PlatformDocument, *spec: str | int) -> bool:
    tolerations = (
        toleration
        for toleration in doc.sequence(*spec, "tolerations")
        if isinstance(toleration, dict)
    )
    words = [f"{toleration.get('key')}={toleration.get('value')}" for toleration in tolerations]
    return _requests_spot(doc, *spec) or _names_spot(words)


def _names_spot(words: Iterable[str]) -> bool:
    no = ("=false", "=on-demand", "=ondemand", "=on_demand")
    return any(_SPOT.search(word) and not word.lower().endswith(no) for word in words)


def _limit(doc: PlatformDocument, *loc: str) -> Iterator[FileValue]:
    seconds = doc.integer(*loc)
    if seconds:
        words = f"it is ended after {seconds / 3600:.3g} h (activeDeadlineSeconds)"
        yield FileValue("goal.deadline_h", seconds / 3600, doc.line(*loc), words)


Read: TypeAlias = Callable[[PlatformDocument], Iterator[FileValue]]
#: by the group of `apiVersion`, and `kind`
READERS: Mapping[tuple[str, str], Read] = {
    ("ray.io", "RayJob"): _ray_job,
    ("ray.io", "RayCluster"): lambda doc: _kuberay(doc, "spec"),
    ("ray.io", "RayService"): lambda doc: _kuberay(doc, "spec", "rayClusterConfig"),
    ("kubeflow.org", "PyTorchJob"): _pytorch_job,
    ("kubeflow.org", "MPIJob"): _mpi_job,
    ("trainer.kubeflow.org", "TrainJob"): _train_job,
    ("batch", "Job"): _job,
    ("jobset.x-k8s.io", "JobSet"): _job_set,
    ("batch.volcano.sh", "Job"): _volcano,
}


def is_helm_values(doc: PlatformDocument) -> bool:
    """Return whether these are values of KubeRay's chart `ray-cluster`."""
    return bool(doc.mapping("head")) and "replicas" in doc.mapping("worker")


helm_values: Read = _helm_values
