"""Jobs of Kubernetes: KubeRay's, Kubeflow's, JobSet's, Volcano's, and its own."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from chaos.preflight.platform_doc import Doc, Taken, nodes_taken
from chaos.words import plural

KUBERNETES_GRACE_S = 30  # terminationGracePeriodSeconds, if a pod does not say
BACKOFF_LIMIT = 6  # of a Job that does not say


def _kuberay(doc: Doc, *cluster: str | int) -> Iterator[Taken]:
    """Read the worker groups of a cluster's specification."""
    least = most = nodes = 0
    groups = (*cluster, "workerGroupSpecs")
    for number, _ in enumerate(doc.listed(*groups)):
        group = (*groups, number)
        count, missing = doc.number(*group, "replicas", what="job.nodes")
        yield from [missing] if missing else []
        hosts, count = doc.whole(*group, "numOfHosts") or 1, count or 0
        nodes += count * hosts
        least += (doc.whole(*group, "minReplicas") or count) * hosts
        most += (doc.whole(*group, "maxReplicas") or count) * hosts
        yield from _pod(doc, *group, "template", "spec")
    yield from nodes_taken(nodes, doc.line(*groups), f"{plural(nodes, 'worker')} (replicas)")
    scales = bool(doc.at(*cluster, "enableInTreeAutoscaling"))
    line = doc.line(*groups)
    if scales and most > nodes:
        yield Taken("job.nodes_max", most, line, f"the autoscaler may start {most} (maxReplicas)")
    if scales and 0 < least < nodes:
        yield Taken("", least, line, f"the autoscaler keeps {least} (minReplicas)")
    head = (*cluster, "headGroupSpec", "template", "spec")
    if _asks_for_spot(doc, *head):
        words = "the head stands on spot nodes"
        yield Taken("settings.head_on_spot", True, doc.line(*head), words)


def _ray_job(doc: Doc) -> Iterator[Taken]:
    yield from _kuberay(doc, "spec", "rayClusterSpec")
    yield from _limit(doc, "spec", "activeDeadlineSeconds")
    retries = doc.whole("spec", "backoffLimit")
    line = doc.line("spec", "backoffLimit" if retries is not None else "rayClusterSpec")
    words = f"{plural(retries or 0, 'more cluster')} after one that failed (backoffLimit)"
    yield Taken("", retries or 0, line, words)
    if doc.at("spec", "suspend") is True:
        yield Taken("", True, doc.line("spec", "suspend"), "it is suspended, and does not start")


def _replicas(doc: Doc, *specs: str | int, leaves_out: str = "") -> Iterator[Taken]:
    """Read the roles of a job of Kubeflow's; each pod is a node."""
    nodes = 0
    for role in doc.mapping(*specs):
        if role == leaves_out:
            continue
        count, missing = doc.number(*specs, role, "replicas", what="job.nodes")
        yield from [missing] if missing else []
        nodes += (1 if count is None else count) if missing is None else 0
        yield from _pod(doc, *specs, role, "template", "spec")
    yield from nodes_taken(nodes, doc.line(*specs), f"{plural(nodes, 'pod')} (replicas)")
    yield from _limit(doc, "spec", "runPolicy", "activeDeadlineSeconds")
    limit = doc.whole("spec", "runPolicy", "backoffLimit")
    if limit is not None:
        line = doc.line("spec", "runPolicy", "backoffLimit")
        yield from _started_again(limit, max(1, nodes), line)


def _pytorch_job(doc: Doc) -> Iterator[Taken]:
    yield from _replicas(doc, "spec", "pytorchReplicaSpecs")
    policy = ("spec", "elasticPolicy")
    least, most = doc.whole(*policy, "minReplicas"), doc.whole(*policy, "maxReplicas")
    if least is not None and least < (most or 0):
        words = f"{least} to {most} pods (minReplicas, maxReplicas)"
        yield Taken("job.min_nodes", least, doc.line(*policy, "minReplicas"), words)
    restarts = doc.whole(*policy, "maxRestarts")
    if restarts is not None:
        words = f"torchrun starts its workers again {plural(restarts, 'time')} (maxRestarts)"
        line = doc.line(*policy, "maxRestarts")
        yield Taken("settings.max_restarts", restarts, line, words)


def _mpi_job(doc: Doc) -> Iterator[Taken]:
    yield from _replicas(doc, "spec", "mpiReplicaSpecs", leaves_out="Launcher")


def _train_job(doc: Doc) -> Iterator[Taken]:
    nodes, missing = doc.number("spec", "trainer", "numNodes", what="job.nodes")
    yield from [missing] if missing else []
    line = doc.line("spec", "trainer", "numNodes")
    yield from nodes_taken(nodes or 0, line, f"{plural(nodes or 0, 'node')} (numNodes)")
    if doc.at("spec", "suspend") is True:
        yield Taken("", True, doc.line("spec", "suspend"), "it is suspended, and does not start")


def _pods_of_job(doc: Doc, *spec: str | int) -> Iterator[Taken]:
    """Yield the pods of a Job of Kubernetes, with no place: several may make one training."""
    count, missing = doc.number(*spec, "parallelism", what="job.nodes")
    line = doc.line(*spec, "parallelism" if count is not None else "template")
    if missing is not None:
        yield missing
    else:
        yield Taken("", 1 if count is None else count, line, "")


def _job(doc: Doc) -> Iterator[Taken]:
    (pods,) = _pods_of_job(doc, "spec")
    if pods.words:
        yield pods
    else:
        said = "" if doc.at("spec", "parallelism") is not None else "no "
        words = f"{plural(pods.value, 'pod')} ({said}parallelism)"
        yield from nodes_taken(pods.value, pods.line, words)
    yield from _pod(doc, "spec", "template", "spec")
    yield from _limit(doc, "spec", "activeDeadlineSeconds")
    limit = doc.whole("spec", "backoffLimit")
    line = doc.line("spec", "backoffLimit" if limit is not None else "template")
    count = pods.value if isinstance(pods.value, int) else 1
    each = doc.whole("spec", "backoffLimitPerIndex")
    if each is not None and limit is None:
        at = doc.line("spec", "backoffLimitPerIndex")
        yield from _started_again(each, 1, at, "backoffLimitPerIndex")
    else:
        name = "no backoffLimit" if limit is None else "backoffLimit"
        yield from _started_again(BACKOFF_LIMIT if limit is None else limit, count, line, name)
    for number, rule in enumerate(doc.listed("spec", "podFailurePolicy", "rules")):
        if isinstance(rule, dict) and rule.get("action") == "Ignore":
            at = doc.line("spec", "podFailurePolicy", "rules", number)
            yield Taken(
                "", "Ignore", at, "some failures of pods are not counted (podFailurePolicy)"
            )
    if doc.at("spec", "suspend") is True:
        yield Taken("", True, doc.line("spec", "suspend"), "it starts suspended")


def _job_set(doc: Doc) -> Iterator[Taken]:
    nodes, jobs = 0, ("spec", "replicatedJobs")
    for number, _ in enumerate(doc.listed(*jobs)):
        job = (*jobs, number)
        (pods,) = _pods_of_job(doc, *job, "template", "spec")
        copies, missing = doc.number(*job, "replicas", what="job.nodes")
        yield from [missing] if missing else []
        yield from [pods] if pods.words else []
        if not missing and not pods.words:
            nodes += (1 if copies is None else copies) * pods.value
        yield from _pod(doc, *job, "template", "spec", "template", "spec")
    yield from nodes_taken(
        nodes, doc.line(*jobs), f"{plural(nodes, 'pod')} (replicas, parallelism)"
    )
    policy = ("spec", "failurePolicy")
    restarts = doc.whole(*policy, "maxRestarts") or 0
    line = doc.line(*policy, "maxRestarts") if restarts else doc.line("spec")
    words = f"all pods are started again {plural(restarts, 'time')} (maxRestarts)"
    yield Taken("settings.job_retries", restarts, line, words)
    for number, rule in enumerate(doc.listed(*policy, "rules")):
        action = rule.get("action") if isinstance(rule, dict) else None
        if action == "RestartJobSetAndIgnoreMaxRestarts":
            at = doc.line(*policy, "rules", number)
            yield Taken("", action, at, f"some failures are not counted against it ({action})")


def _volcano(doc: Doc) -> Iterator[Taken]:
    nodes, tasks = 0, ("spec", "tasks")
    for number, _ in enumerate(doc.listed(*tasks)):
        count, missing = doc.number(*tasks, number, "replicas", what="job.nodes")
        yield from [missing] if missing else []
        nodes += count or 0
        yield from _pod(doc, *tasks, number, "template", "spec")
    yield from nodes_taken(nodes, doc.line(*tasks), f"{plural(nodes, 'pod')} (replicas of tasks)")
    retries = doc.whole("spec", "maxRetry")
    line = doc.line("spec", "maxRetry") if retries is not None else doc.line("spec")
    count = 3 if retries is None else retries
    words = f"the job is started again {plural(count, 'time')} ({'no ' if retries is None else ''}"
    yield Taken("settings.job_retries", count, line, f"{words}maxRetry)")


def _helm_values(doc: Doc) -> Iterator[Taken]:
    """Read the values of KubeRay's chart `ray-cluster`."""
    is_off = doc.at("worker", "disabled") is True
    groups = ([] if is_off else [("worker",)]) + [
        ("additionalWorkerGroups", name)
        for name, group in doc.mapping("additionalWorkerGroups").items()
        if isinstance(group, dict) and group.get("disabled") is not True
    ]
    nodes = sum(doc.whole(*group, "replicas") or 0 for group in groups)
    most = sum(doc.whole(*group, "maxReplicas") or 0 for group in groups)
    line = doc.line("worker", "replicas")
    yield from nodes_taken(nodes, line, f"{plural(nodes, 'worker')} (replicas)")
    if doc.at("head", "enableInTreeAutoscaling") is True and most > nodes:
        words = f"the autoscaler may start {most} (maxReplicas)"
        yield Taken("job.nodes_max", most, line, words)
    for group in groups:
        yield from _pod(doc, *group)


def _started_again(limit: int, pods: int, line: int, name: str = "backoffLimit") -> Iterator[Taken]:
    """Yield the number of times that a job is started again: each pod counts as it fails."""
    words = f"{plural(limit, 'pod')} that failed are replaced ({name})"
    if pods > 1:
        words += f": {plural(limit // pods, 'time')} all {pods}"
    yield Taken("settings.job_retries", limit // pods, line, words)


def _pod(doc: Doc, *spec: str | int) -> Iterator[Taken]:
    """Read how long a pod is given, and whether it stands on spot nodes."""
    grace = doc.whole(*spec, "terminationGracePeriodSeconds")
    if grace is None:
        line, words = (
            doc.line(*spec),
            f"{KUBERNETES_GRACE_S} s from SIGTERM to SIGKILL, the default",
        )
    else:
        line = doc.line(*spec, "terminationGracePeriodSeconds")
        words = f"{grace} s from SIGTERM to SIGKILL (terminationGracePeriodSeconds)"
    yield Taken("settings.pod_grace_s", KUBERNETES_GRACE_S if grace is None else grace, line, words)
    if _is_spot(doc, *spec):
        yield Taken("", True, doc.line(*spec), "it asks for spot nodes, or tolerates their taint")


_SPOT = re.compile(r"(?i)(?<!non-)(?<!non_)(?<!non)(?:\bspot|[-_/]spot|preemptible)")


def _asks_for_spot(doc: Doc, *spec: str | int) -> bool:
    """Return whether a pod's selector asks for spot nodes; a toleration only permits them."""
    chosen = doc.mapping(*spec, "nodeSelector").items()
    return _names_spot([f"{key}={value}" for key, value in chosen])


def _is_spot(doc: Doc, *spec: str | int) -> bool:
    tolerated = (one for one in doc.listed(*spec, "tolerations") if isinstance(one, dict))
    words = [f"{one.get('key')}={one.get('value')}" for one in tolerated]
    return _asks_for_spot(doc, *spec) or _names_spot(words)


def _names_spot(words: Iterable[str]) -> bool:
    no = ("=false", "=on-demand", "=ondemand", "=on_demand")
    return any(_SPOT.search(word) and not word.lower().endswith(no) for word in words)


def _limit(doc: Doc, *loc: str) -> Iterator[Taken]:
    seconds = doc.whole(*loc)
    if seconds:
        words = f"it is ended after {seconds / 3600:.3g} h (activeDeadlineSeconds)"
        yield Taken("goal.deadline_h", seconds / 3600, doc.line(*loc), words)


Read: TypeAlias = Callable[[Doc], Iterator[Taken]]
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


def is_helm_values(doc: Doc) -> bool:
    """Return whether these are values of KubeRay's chart `ray-cluster`."""
    return bool(doc.mapping("head")) and "replicas" in doc.mapping("worker")


helm_values: Read = _helm_values
