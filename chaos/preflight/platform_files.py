"""The settings of a job in the files of the platform that runs it, each with its line.

A kind is known by its content. What a field means here stands in its publisher's reference; fields
that say nothing of losses are left alone. A file that is none of these is named for what it is.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chaos.errors import UsageError
from chaos.model.launcher import Launcher
from chaos.preflight import platform_pods as pods
from chaos.preflight import platform_schedulers as schedulers
from chaos.preflight.platform_doc import Doc, Taken, of_command, says_nodes, starts_torchrun
from chaos.scenario_file.yaml_lines import read_source, read_text


@dataclass(frozen=True)
class PlatformFile:
    """A platform's file, by what it says of a job."""

    path: str
    kind: str
    taken: tuple[Taken, ...]
    #: who starts the training, where the file shows it
    launcher: Launcher | None = None

    @property
    def values(self) -> dict[str, Any]:
        """The values of a question, by their places."""
        found: dict[str, Any] = {}
        for one in self.taken:
            if one.place == "settings.pod_grace_s":  # of several groups, the shortest
                found[one.place] = min(one.value, found.get(one.place, one.value))
            elif one.place:
                found.setdefault(one.place, one.value)
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        """The values in words, each with its line."""
        return tuple(f"{self.path}:{one.line}: {one.words}" for one in self.taken if one.words)


_SCRIPTS = (".sh", ".sbatch", ".slurm", ".job", "")
_SUFFIXES = (".yaml", ".yml", ".tpl", ".template", *_SCRIPTS)
_SIZE = 1_000_000


def read_platform(path: Path) -> PlatformFile | None:
    """Return what a platform's file says; None for a file of a kind that is not known.

    Raises `UsageError` with the line for a YAML that cannot be read, and with its name for a file
    of a platform that holds no such job.
    """
    if path.is_dir() or path.suffix not in _SUFFIXES or path.stat().st_size > _SIZE:
        return None
    text = read_text(path, "file")
    if re.search(r"(?m)^#SBATCH\b", text):
        return _file(path, "a script for sbatch", schedulers.sbatch(text), text)
    if re.search(r"(?m)^\[(?:torchx|cli:|dist\.|component:)", text):
        return _file(path, "a .torchxconfig", schedulers.torchx(str(path), text), text)
    if path.suffix in _SCRIPTS:
        return None
    return _of_yaml(path, text)


def _of_yaml(path: Path, text: str) -> PlatformFile | None:
    name, jobs = "", list[tuple[PlatformFile, int]]()
    for offset, part in _documents(text):
        source = read_source(part)
        if not isinstance(source.value, dict):
            if source.problems and re.search(r"(?m)^(?:kind|resources|apiVersion):", part):
                first = source.problems[0]
                raise UsageError(first.text, first.hint, place=f"{path}:{first.line + offset}")
            continue
        doc = Doc(source, offset)
        found = _reader(doc)
        if found is not None:
            kind, read = found
            launcher: Launcher | None = "ray" if _is_of_ray(doc) else None
            jobs.append((_file(path, kind, read(doc), part, launcher, offset), offset + 1))
            continue
        name = name or _name(doc)
    if jobs:
        return _largest(jobs)
    name = name or next((named for form, named in _FORMS if re.search(form, text)), "")
    if not name:
        return None
    raise UsageError(
        f"it is {name}, of which chaos reads nothing",
        "Give the file of the job itself: a RayJob, RayCluster, PyTorchJob, TrainJob, MPIJob, "
        "JobSet or Job of Kubernetes or Volcano, a task of SkyPilot or dstack, a sbatch script; "
        "or write a question (*.preflight.yaml).",
        place=str(path),
    )


def _largest(jobs: Sequence[tuple[PlatformFile, int]]) -> PlatformFile:
    """Return the job of the most nodes, with a note on each other one in the file."""
    found, line = max(jobs, key=lambda job: job[0].values.get("job.nodes", 0))
    others = tuple(
        Taken("", other.kind, at, f"{other.kind} is in the file as well, and left alone")
        for other, at in jobs
        if at != line
    )
    return replace(found, taken=(*found.taken, *others))


def _file(
    path: Path,
    kind: str,
    taken: Iterator[Taken],
    text: str,
    launcher: Launcher | None = None,
    offset: int = 0,
) -> PlatformFile:
    """Return what a file says by its fields, and by the command in it."""
    fields = tuple(taken)
    if launcher is not None or not starts_torchrun(text):
        return PlatformFile(str(path), kind, fields, launcher)
    if says_nodes(text):
        decides = ": the command's own --nnodes decides"
        fields = tuple(
            one._replace(place="", words=one.words + decides)
            if one.place == "job.min_nodes"
            else one
            for one in fields
        )
    commands = (one._replace(line=one.line + offset) for one in of_command(text))
    return PlatformFile(str(path), kind, (*commands, *fields), "torchrun")


_FORMS = (  # files that no YAML reader takes, such as with tags of their own
    (r"(?m)^AWSTemplateFormatVersion:|Type: ['\"]?AWS::", "a template of CloudFormation"),
    (r"\{\{-? ", "a template of Helm: render it first (`helm template`)"),
)


def _reader(doc: Doc) -> tuple[str, pods.Read] | None:
    """Return the kind of a document, and what reads it."""
    group, kind = str(doc.at("apiVersion") or "").partition("/")[0], str(doc.at("kind") or "")
    group = group or next((of for of, named in pods.READERS if named == kind), "")
    if (group, kind) in pods.READERS:
        owner = (
            " of Volcano" if "volcano" in group else " of Kubernetes" if group == "batch" else ""
        )
        return f"a {kind}{owner}".replace("a MPI", "an MPI"), pods.READERS[group, kind]
    if kind or group:
        return None
    return next(((name, read) for has, name, read in _KINDS if has(doc)), None)


def _is_compute(doc: Doc) -> bool:
    return bool(doc.listed("worker_nodes") or doc.listed("compute_config", "worker_nodes"))


def _is_submitit(doc: Doc) -> bool:
    return "submitit" in f"{doc.at('_target_')} {doc.at('defaults')}"


def _is_task(doc: Doc) -> bool:
    resources = doc.mapping("resources")
    beside = {"resources", "num_nodes", "setup", "workdir", "file_mounts", "envs"}
    runs = isinstance(doc.at("run"), str) and bool(beside & set(doc.mapping()))
    return runs or bool({"accelerators", "use_spot"} & set(resources))


_KINDS: tuple[tuple[Callable[[Doc], bool], str, pods.Read], ...] = (
    (
        lambda doc: bool(doc.mapping("available_node_types")),
        "a file for `ray up`",
        schedulers.ray_up,
    ),
    (_is_compute, "a job or a compute configuration of Anyscale", schedulers.anyscale),
    (pods.is_helm_values, "the values of KubeRay's Helm chart", pods.helm_values),
    (
        lambda doc: doc.at("type") == "task" and bool(doc.listed("commands")),
        "a task of dstack",
        schedulers.dstack,
    ),
    (
        lambda doc: bool(doc.mapping("searcher")) and bool(doc.at("entrypoint")),
        "an experiment of Determined",
        schedulers.determined,
    ),
    (_is_submitit, "the settings of hydra's submitit launcher", schedulers.submitit),
    (_is_task, "a task of SkyPilot", schedulers.skypilot),
)


def _is_of_ray(doc: Doc) -> bool:
    is_ray_up = "available_node_types" in doc.mapping()
    return is_ray_up or str(doc.at("kind") or "").startswith("Ray") or pods.is_helm_values(doc)


def _name(doc: Doc) -> str:
    """Return what a document is that holds no job; empty if that is not known."""
    keys = set(doc.mapping())
    if doc.at("kind") and doc.at("apiVersion"):
        return f"a {doc.at('kind')} ({doc.at('apiVersion')})"
    if "jobs" in keys and keys & {"on", "name"} and ("on" in keys or True in keys):
        return "a workflow of GitHub"
    if "services" in keys:
        return "a file of Docker Compose"
    return "a template of CloudFormation" if "AWSTemplateFormatVersion" in keys else ""


def _documents(text: str) -> Iterator[tuple[int, str]]:
    """Yield the documents of a YAML file, with the lines before each."""
    lines, begin = text.splitlines(keepends=True), 0
    for number, line in enumerate([*lines, "---\n"]):
        if line.rstrip() == "---":
            part = "".join(lines[begin:number])
            if part.strip():
                yield begin, part
            begin = number + 1
