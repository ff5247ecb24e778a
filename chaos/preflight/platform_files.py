"""The settings of a job in the files of the platform that runs it, each with its line.

KubeRay's RayJob, RayCluster and RayService (v1), Kubeflow's PyTorchJob (v1) and TrainJob
(v1alpha1), SkyPilot's tasks, and the header of a script for Slurm's `sbatch`. What a field means
here stands in its publisher's reference; fields that say nothing of losses are left alone.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from chaos.errors import UsageError
from chaos.scenario_file.yaml_lines import Source, read_source, read_text
from chaos.words import plural

Loc: TypeAlias = tuple[str | int, ...]
KUBERNETES_GRACE_S = 30  # terminationGracePeriodSeconds, if a pod does not say


class Taken(NamedTuple):
    """A value that was taken from a file."""

    #: in a question, such as `job.nodes`; empty for what only stands in words
    place: str
    value: Any
    line: int
    words: str


@dataclass(frozen=True)
class PlatformFile:
    """A platform's file, by what it says of a job."""

    path: str
    kind: str
    taken: tuple[Taken, ...]

    @property
    def values(self) -> dict[str, Any]:
        """The values of a question, by their places."""
        return {one.place: one.value for one in self.taken if one.place}

    @property
    def notes(self) -> tuple[str, ...]:
        """The values in words, each with its line."""
        return tuple(f"{self.path}:{one.line}: {one.words}" for one in self.taken)


def read_platform(path: Path) -> PlatformFile | None:
    """Return what a platform's file says; None for a file of another kind.

    Raises `UsageError` with the line for a YAML that cannot be read, and for a file of a kind that
    is known, and holds no job.
    """
    if path.is_dir() or path.suffix not in (".yaml", ".yml", ".sh", ".sbatch", ".slurm", ".job"):
        return None
    text = read_text(path, "file")
    if "#SBATCH" in text:
        return PlatformFile(str(path), "a script for sbatch", tuple(_sbatch(text)))
    if path.suffix not in (".yaml", ".yml"):
        return None
    for offset, part in _documents(text):
        source = read_source(part)
        if not isinstance(source.value, dict):
            if source.problems and any(word in part for word in ("kind:", "resources:")):
                first = source.problems[0]
                raise UsageError(first.text, first.hint, place=f"{path}:{first.line + offset}")
            continue
        found = _of_document(str(path), source, offset)
        if found is not None:
            return found
    return None


def _documents(text: str) -> Iterator[tuple[int, str]]:
    """Yield the documents of a YAML file, with the lines before each."""
    lines, begin = text.splitlines(keepends=True), 0
    for number, line in enumerate([*lines, "---\n"]):
        if line.rstrip() == "---":
            part = "".join(lines[begin:number])
            if part.strip():
                yield begin, part
            begin = number + 1


class _Doc:
    """A document, in which each value is asked for with its line."""

    def __init__(self, source: Source, offset: int) -> None:
        self._source, self._offset = source, offset

    def at(self, *loc: str | int) -> Any:  # noqa: ANN401 - what YAML has
        node: Any = self._source.value
        for part in loc:
            if isinstance(part, int):
                node = node[part] if isinstance(node, list) and part < len(node) else None
            else:
                node = node.get(part) if isinstance(node, dict) else None
        return node

    def line(self, *loc: str | int) -> int:
        return self._source.lines.key(loc) + self._offset

    def whole(self, *loc: str | int) -> int | None:
        value = self.at(*loc)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def mapping(self, *loc: str | int) -> Mapping[str, Any]:
        value = self.at(*loc)
        return value if isinstance(value, dict) else {}

    def listed(self, *loc: str | int) -> Sequence[Any]:
        value = self.at(*loc)
        return value if isinstance(value, list) else ()


def _of_document(path: str, source: Source, offset: int) -> PlatformFile | None:
    doc = _Doc(source, offset)
    kind = doc.at("kind")
    if kind in _READERS:
        return PlatformFile(path, str(kind), tuple(_READERS[str(kind)](doc)))
    if kind is None and ("run" in source.value or "resources" in source.value):
        return PlatformFile(path, "a task of SkyPilot", tuple(_skypilot(doc)))
    return None


# -- Kubernetes --------------------------------------------------------------------------------


def _kuberay(doc: _Doc, *cluster: str | int) -> Iterator[Taken]:
    """Read the worker groups of a cluster's specification."""
    groups = doc.listed(*cluster, "workerGroupSpecs")
    least = most = nodes = 0
    for number, _ in enumerate(groups):
        group = (*cluster, "workerGroupSpecs", number)
        count = doc.whole(*group, "replicas") or 0
        nodes += count
        least += doc.whole(*group, "minReplicas") or count
        most += doc.whole(*group, "maxReplicas") or count
        yield from _pod(doc, *group, "template", "spec")
    line = doc.line(*cluster, "workerGroupSpecs")
    if nodes:
        yield Taken("job.nodes", nodes, line, f"{plural(nodes, 'worker')} (replicas)")
    scales = bool(doc.at(*cluster, "enableInTreeAutoscaling"))
    if scales and most > nodes:
        yield Taken("job.nodes_max", most, line, f"the autoscaler may start {most} (maxReplicas)")
    if scales and 0 < least < nodes:
        yield Taken("", least, line, f"the autoscaler keeps {least} (minReplicas)")
    head = (*cluster, "headGroupSpec", "template", "spec")
    if _is_spot(doc, *head):
        words = "the head stands on spot nodes"
        yield Taken("settings.head_on_spot", True, doc.line(*head), words)


def _ray_job(doc: _Doc) -> Iterator[Taken]:
    yield from _kuberay(doc, "spec", "rayClusterSpec")
    yield from _limit(doc, "spec", "activeDeadlineSeconds")
    retries = doc.whole("spec", "backoffLimit")
    line = doc.line("spec", "backoffLimit" if retries is not None else "rayClusterSpec")
    words = f"{plural(retries or 0, 'more cluster')} after one that failed (backoffLimit)"
    yield Taken("", retries or 0, line, words)
    if doc.at("spec", "suspend") is True:
        yield Taken("", True, doc.line("spec", "suspend"), "it is suspended, and does not start")


def _ray_service(doc: _Doc) -> Iterator[Taken]:
    yield from _kuberay(doc, "spec", "rayClusterConfig")


def _pytorch_job(doc: _Doc) -> Iterator[Taken]:
    specs, nodes = ("spec", "pytorchReplicaSpecs"), 0
    for role in doc.mapping(*specs):
        nodes += doc.whole(*specs, role, "replicas") or 1
        yield from _pod(doc, *specs, role, "template", "spec")
    if nodes:
        yield Taken("job.nodes", nodes, doc.line(*specs), f"{plural(nodes, 'pod')} (replicas)")
    least = doc.whole("spec", "elasticPolicy", "minReplicas")
    line = doc.line("spec", "elasticPolicy")
    if least is not None and least < nodes:
        yield Taken("job.min_nodes", least, line, f"it goes on with {least} (minReplicas)")
    restarts = doc.whole("spec", "elasticPolicy", "maxRestarts")
    if restarts is not None:
        words = f"torchrun restarts it {restarts} times (maxRestarts)"
        yield Taken("", restarts, line, words)
    yield from _limit(doc, "spec", "runPolicy", "activeDeadlineSeconds")
    limit = doc.whole("spec", "runPolicy", "backoffLimit")
    if limit is not None:
        words = f"{plural(limit, 'retry', 'retries')} of the job (backoffLimit)"
        yield Taken("", limit, doc.line("spec", "runPolicy", "backoffLimit"), words)


def _train_job(doc: _Doc) -> Iterator[Taken]:
    nodes = doc.whole("spec", "trainer", "numNodes")
    if nodes is not None:
        line = doc.line("spec", "trainer", "numNodes")
        yield Taken("job.nodes", nodes, line, f"{plural(nodes, 'node')} (numNodes)")


def _pod(doc: _Doc, *spec: str | int) -> Iterator[Taken]:
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


_SPOT = re.compile(r"(?i)spot|preemptible")


def _is_spot(doc: _Doc, *spec: str | int) -> bool:
    words = [f"{key}={value}" for key, value in doc.mapping(*spec, "nodeSelector").items()]
    found = doc.listed(*spec, "tolerations")
    words += [f"{one.get('key')}={one.get('value')}" for one in found if isinstance(one, dict)]
    return any(_SPOT.search(word) and not word.lower().endswith("=false") for word in words)


def _limit(doc: _Doc, *loc: str) -> Iterator[Taken]:
    seconds = doc.whole(*loc)
    if seconds:
        words = f"it is ended after {seconds / 3600:.3g} h (activeDeadlineSeconds)"
        yield Taken("goal.deadline_h", seconds / 3600, doc.line(*loc), words)


_READERS: Mapping[str, Callable[[_Doc], Iterator[Taken]]] = {
    "RayJob": _ray_job,
    "RayCluster": lambda doc: _kuberay(doc, "spec"),
    "RayService": _ray_service,
    "PyTorchJob": _pytorch_job,
    "TrainJob": _train_job,
}


# -- SkyPilot ----------------------------------------------------------------------------------


def _skypilot(doc: _Doc) -> Iterator[Taken]:
    nodes = doc.whole("num_nodes") or 1
    yield Taken("job.nodes", nodes, doc.line("num_nodes"), f"{plural(nodes, 'node')} (num_nodes)")
    wanted = doc.at("resources")
    either = (*doc.listed("resources", "any_of"), *doc.listed("resources", "ordered"))
    ways = [wanted, *either]
    spot = [one.get("use_spot") for one in ways if isinstance(one, dict) and "use_spot" in one]
    if spot:
        on = (
            "spot nodes" if all(spot) else ("spot or on-demand nodes" if any(spot) else "on demand")
        )
        yield Taken("", spot, doc.line("resources"), f"{on} (use_spot)")
    for field in ("job_recovery", "spot_recovery"):
        recovery = doc.at("resources", field)
        if recovery is not None:
            told = (
                recovery
                if isinstance(recovery, str)
                else ", ".join(
                    f"{key} {value}" for key, value in doc.mapping("resources", field).items()
                )
            )
            yield Taken("", told, doc.line("resources", field), f"{field}: {told}")
    for path, mount in doc.mapping("file_mounts").items():
        mode = mount.get("mode", "MOUNT") if isinstance(mount, dict) else "COPY"
        if isinstance(mount, dict) and mode in ("MOUNT", "MOUNT_CACHED"):
            words = f"{path} is a bucket ({mode})"
            if mode == "MOUNT_CACHED":
                words += ": files are uploaded later, and a lost node takes along what was not"
            yield Taken("", mode, doc.line("file_mounts", path), words)


# -- Slurm -------------------------------------------------------------------------------------

_OPTION = re.compile(r"#SBATCH\s+(--?[\w-]+)(?:[=\s]+(\S+))?")
_SHORT = {"-N": "--nodes", "-t": "--time", "-n": "--ntasks", "-p": "--partition", "-q": "--qos"}


class _Option(NamedTuple):
    value: str
    line: int


def _sbatch(text: str) -> Iterator[Taken]:
    given: dict[str, _Option] = {}
    for number, line in enumerate(text.splitlines(), 1):
        found = _OPTION.match(line.strip())
        if found is not None:
            given[_SHORT.get(found[1], found[1])] = _Option(found[2] or "", number)
    none = _Option("", next(iter(given.values()), _Option("", 1)).line)
    nodes = given.get("--nodes", none)
    count = nodes.value.partition("-")[0] or "1"
    if count.isdigit():
        yield Taken("job.nodes", int(count), nodes.line, f"{plural(int(count), 'node')} (--nodes)")
    limit = given.get("--time", none)
    if hours := _hours(limit.value):
        yield Taken("", hours, limit.line, f"each start is ended after {hours:.3g} h (--time)")
    yield _queued_again(given, none)
    if (signal := given.get("--signal")) is not None:
        words = f"a signal before its end (--signal={signal.value})"
        yield Taken("", signal.value, signal.line, words)
    mode = given.get("--open-mode", none)
    if mode.value != "append":
        words = "its output is written anew at each start, unless the cluster says append"
        yield Taken("", mode.value, mode.line, f"{words} (--open-mode)")


def _queued_again(given: Mapping[str, _Option], none: _Option) -> Taken:
    if "--requeue" in given:
        return Taken("", True, given["--requeue"].line, "it is queued again (--requeue)")
    if "--no-requeue" in given:
        words = "it is not queued again: a preemption ends it (--no-requeue)"
        return Taken("", False, given["--no-requeue"].line, words)
    words = "--requeue is missing: whether it is queued again is the cluster's default"
    return Taken("", None, none.line, words)


def _hours(limit: str) -> float | None:
    """Return the hours of a time limit of Slurm: `minutes`, `h:m:s`, `days-h:m`, …."""
    days, dash, rest = limit.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdigit() for part in (*parts, *([days] if dash else []))):
        return None
    numbers = [int(part) for part in parts]
    if dash:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
    elif len(numbers) == 3:  # noqa: PLR2004
        hours, minutes, seconds = numbers
    else:
        hours, (minutes, seconds) = 0, (*numbers, 0)[:2]
    return 24 * int(days or 0) + hours + minutes / 60 + seconds / 3600
