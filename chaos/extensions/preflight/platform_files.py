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
from chaos.extensions.preflight import platform_pods as pods
from chaos.extensions.preflight import platform_schedulers as schedulers
from chaos.extensions.preflight.platform_doc import (
    FileValue,
    PlatformDocument,
    find_template_values,
    parse_command,
    starts_torchrun,
    states_nodes,
)
from chaos.model.launcher import Launcher
from chaos.scenario_file.yaml_lines import load_text, parse_source


@dataclass(frozen=True)
class PlatformFile:
    """A platform's file, by what it says of a job."""

    path: str
    kind: str
    taken: tuple[FileValue, ...]
    #: who starts the training, where the file shows it
    launcher: Launcher | None = None
    #: the name that it gives the job
    job_name: str = ""

    @property
    def values(self) -> dict[str, Any]:
        """The values of a question, by their places."""
        values: dict[str, Any] = {}
        for file_value in self.taken:
            if file_value.key == "settings.pod_grace_s":  # of several groups, the shortest
                values[file_value.key] = min(
                    file_value.value, values.get(file_value.key, file_value.value)
                )
            elif file_value.key:
                values.setdefault(file_value.key, file_value.value)
        return values

    @property
    def title(self) -> str:
        """The job in words, without the folders that the file is in."""
        file_name = Path(self.path).name
        return (
            f"the job {self.job_name} of {file_name}"
            if self.job_name
            else (f"the job of {file_name}")
        )

    @property
    def unfilled(self) -> tuple[str, ...]:
        """The values that a template or a variable is yet to fill in, in words."""
        return tuple(value.description for value in self.taken if value.is_unfilled)

    @property
    def notes(self) -> tuple[str, ...]:
        """The values in words, each with its line."""
        return tuple(
            f"{self.path}:{file_value.line}: {file_value.description}"
            for file_value in self.taken
            if file_value.description
        )


_SCRIPT = "a script for sbatch"
_SCRIPTS = (".sh", ".sbatch", ".slurm", ".job", "")
_SUFFIXES = (".yaml", ".yml", ".tpl", ".template", *_SCRIPTS)
_SIZE = 1_000_000


def load_platform_file(path: Path) -> PlatformFile | None:
    """Return what a platform's file says; None for a file of a kind that is not known.

    Raises `UsageError` with the line for a YAML that cannot be read, and with its name for a file
    of a platform that holds no such job.
    """
    if path.is_dir() or path.suffix not in _SUFFIXES or path.stat().st_size > _SIZE:
        return None
    text = load_text(path, "file")
    if re.search(r"(?m)^#SBATCH\b", text):
        file = _build_file(path, _SCRIPT, schedulers.sbatch(text), text)
        return replace(file, job_name=schedulers.find_sbatch_name(text))
    if re.search(r"(?m)^\[(?:torchx|cli:|dist\.|component:)", text):
        return _build_file(path, "a .torchxconfig", schedulers.torchx(str(path), text), text)
    if path.suffix in _SCRIPTS:
        return None
    return _parse_yaml(path, text)


def _parse_yaml(path: Path, text: str) -> PlatformFile | None:
    name, jobs = "", list[tuple[PlatformFile, int]]()
    for offset, document in _split_documents(text):
        source = parse_source(document)
        if not isinstance(source.value, dict):
            if source.problems and re.search(r"(?m)^(?:kind|resources|apiVersion):", document):
                first = source.problems[0]
                raise UsageError(first.text, first.hint, location=f"{path}:{first.line + offset}")
            continue
        doc = PlatformDocument(source, offset)
        kind_and_reader = _find_reader(doc)
        if kind_and_reader is not None:
            kind, parse = kind_and_reader
            launcher: Launcher | None = "ray" if _is_of_ray(doc) else None
            file = _build_file(path, kind, parse(doc), document, launcher, offset)
            if pods.has_rendezvous(doc):
                file = replace(file, launcher="torchrun")
            jobs.append((replace(file, job_name=_find_job_name(doc)), offset + 1))
            continue
        name = name or _name_document(doc)
    if jobs:
        return _select_largest(jobs)
    name = name or next((description for form, description in _FORMS if re.search(form, text)), "")
    if not name:
        return None
    raise UsageError(
        f"it is {name}, of which chaos reads nothing",
        "Give the file of the job itself: a RayJob, RayCluster, PyTorchJob, TrainJob, MPIJob, "
        "JobSet or Job of Kubernetes or Volcano, a task of SkyPilot or dstack, a sbatch script; "
        "or write a question (*.preflight.yaml).",
        location=str(path),
    )


def _find_job_name(doc: PlatformDocument) -> str:
    """Return the name that a document gives its job; empty if it is yet to be filled in."""
    name = doc.get_value("metadata", "name") or doc.get_value("name")
    return name if isinstance(name, str) and not re.search(r"[{$]", name) else ""


def _select_largest(jobs: Sequence[tuple[PlatformFile, int]]) -> PlatformFile:
    """Return the job of the most nodes, with a note on each other one in the file."""
    largest_job, line = max(jobs, key=lambda job: job[0].values.get("job.nodes", 0))
    ignored_jobs = tuple(
        FileValue(
            "",
            ignored_job.kind,
            first_line,
            f"{ignored_job.kind} is in the file as well, and left alone",
        )
        for ignored_job, first_line in jobs
        if first_line != line
    )
    return replace(largest_job, taken=(*largest_job.taken, *ignored_jobs))


def _build_file(
    path: Path,
    kind: str,
    file_values: Iterator[FileValue],
    text: str,
    launcher: Launcher | None = None,
    offset: int = 0,
) -> PlatformFile:
    """Return what a file says by its fields, and by the command in it."""
    fields = _drop_repeated_values(file_values)
    if kind != _SCRIPT:  # braces in it are those of its commands
        fields = (*fields, *find_template_values(text, offset))
    if launcher is not None or not starts_torchrun(text):
        return PlatformFile(str(path), kind, fields, launcher)
    if states_nodes(text):
        decides = ": the command's own --nnodes decides"
        fields = tuple(
            file_value._replace(key="", description=file_value.description + decides)
            if file_value.key == "job.min_nodes"
            else file_value
            for file_value in fields
        )
    commands = (
        file_value._replace(line=file_value.line + offset) for file_value in parse_command(text)
    )
    return PlatformFile(str(path), kind, (*commands, *fields), "torchrun")


def _drop_repeated_values(file_values: Iterator[FileValue]) -> tuple[FileValue, ...]:
    """Return what a file says, a value that several of its pods have once."""
    distinct_values: dict[tuple[object, ...], FileValue] = {}
    for number, value in enumerate(file_values):
        key = (value.key, value.value, value.description) if value.key else (number,)
        distinct_values.setdefault(key, value)
    return tuple(distinct_values.values())


_FORMS = (  # files that no YAML reader takes, such as with tags of their own
    (r"(?m)^AWSTemplateFormatVersion:|Type: ['\"]?AWS::", "a template of CloudFormation"),
    (r"\{\{-? ", "a template of Helm: render it first (`helm template`)"),
)


def _find_reader(doc: PlatformDocument) -> tuple[str, pods.Read] | None:
    """Return the kind of a document, and what reads it."""
    group, kind = (
        str(doc.get_value("apiVersion") or "").partition("/")[0],
        str(doc.get_value("kind") or ""),
    )
    group = group or next(
        (api_group for api_group, reader_kind in pods.READERS if reader_kind == kind), ""
    )
    if (group, kind) in pods.READERS:
        name = f"a {kind}{_describe_owner(group)}".replace("a MPI", "an MPI")
        return name, pods.READERS[group, kind]
    if kind or group:
        return None
    return next(((name, read) for matches, name, read in _KINDS if matches(doc)), None)


def _describe_owner(group: str) -> str:
    """Return whose an API group is, as it follows a kind; empty where the kind says all."""
    if "volcano" in group:
        return " of Volcano"
    return " of Kubernetes" if group == "batch" else ""


def _is_compute(doc: PlatformDocument) -> bool:
    return bool(doc.sequence("worker_nodes") or doc.sequence("compute_config", "worker_nodes"))


def _is_submitit(doc: PlatformDocument) -> bool:
    return "submitit" in f"{doc.get_value('_target_')} {doc.get_value('defaults')}"


def _is_task(doc: PlatformDocument) -> bool:
    resources = doc.mapping("resources")
    task_keys = {"resources", "num_nodes", "setup", "workdir", "file_mounts", "envs"}
    runs = isinstance(doc.get_value("run"), str) and bool(task_keys & set(doc.mapping()))
    return runs or bool({"accelerators", "use_spot"} & set(resources))


_KINDS: tuple[tuple[Callable[[PlatformDocument], bool], str, pods.Read], ...] = (
    (
        lambda doc: bool(doc.mapping("available_node_types")),
        "a file for `ray up`",
        schedulers.ray_up,
    ),
    (_is_compute, "a job or a compute configuration of Anyscale", schedulers.anyscale),
    (pods.is_helm_values, "the values of KubeRay's Helm chart", pods.helm_values),
    (
        lambda doc: doc.get_value("type") == "task" and bool(doc.sequence("commands")),
        "a task of dstack",
        schedulers.dstack,
    ),
    (
        lambda doc: bool(doc.mapping("searcher")) and bool(doc.get_value("entrypoint")),
        "an experiment of Determined",
        schedulers.determined,
    ),
    (_is_submitit, "the settings of hydra's submitit launcher", schedulers.submitit),
    (_is_task, "a task of SkyPilot", schedulers.skypilot),
)


def _is_of_ray(doc: PlatformDocument) -> bool:
    is_ray_up = "available_node_types" in doc.mapping()
    return (
        is_ray_up or str(doc.get_value("kind") or "").startswith("Ray") or pods.is_helm_values(doc)
    )


def _name_document(doc: PlatformDocument) -> str:
    """Return what a document is that holds no job; empty if that is not known."""
    keys = set(doc.mapping())
    if doc.get_value("kind") and doc.get_value("apiVersion"):
        return f"a {doc.get_value('kind')} ({doc.get_value('apiVersion')})"
    if "jobs" in keys and keys & {"on", "name"} and ("on" in keys or True in keys):
        return "a workflow of GitHub"
    if "services" in keys:
        return "a file of Docker Compose"
    return "a template of CloudFormation" if "AWSTemplateFormatVersion" in keys else ""


def _split_documents(text: str) -> Iterator[tuple[int, str]]:
    """Yield the documents of a YAML file, with the lines before each."""
    lines, begin = text.splitlines(keepends=True), 0
    for number, line in enumerate([*lines, "---\n"]):
        if line.rstrip() == "---":
            part = "".join(lines[begin:number])
            if part.strip():
                yield begin, part
            begin = number + 1
