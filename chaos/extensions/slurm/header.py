"""The header of a script for sbatch, beside the Slurm that the job is to run on.

A local Slurm is made so that it has what the header asks for, by name and number. That is
a matter of counting: memory limits no process, and a GPU of its is no device.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import JobError
from chaos.extensions.sbatch_header import SbatchOption, count_tasks

# Options with which no run is one job that chaos can follow, on whatever Slurm.
_REFUSED_ALWAYS = {
    "--clusters": "the job would go to another cluster than the one that was named",
    "--wait": "sbatch would return only at the job's end",
    "--test-only": "nothing would be submitted",
    "--uid": "the job's processes would be another user's, whom chaos does not answer",
    "--gid": "the job's processes would be another group's",
}
_REFUSED_ON_EXISTING = {
    **_REFUSED_ALWAYS,
    "--array": "an array is several jobs, and chaos follows one",
}
_NAMES = "the nodes of the local Slurm have names of their own (node-0, node-1, ...)"
_SOCKETS = "a node of the local Slurm has one socket"
_REFUSED_ON_LOCAL = {
    **_REFUSED_ALWAYS,
    "--nodelist": _NAMES,
    "--exclude": _NAMES,
    "--nodefile": _NAMES,
    "--reservation": "the local Slurm has no reservations",
    "--licenses": "the local Slurm has no licenses",
    "--hold": "it would stay in the queue until somebody releases it",
    "--begin": "the job would wait in the queue",
    "--extra-node-info": _SOCKETS,
    "--sockets-per-node": _SOCKETS,
    "--cores-per-socket": _SOCKETS,
    "--ntasks-per-socket": _SOCKETS,
    "--gpus-per-socket": _SOCKETS,
}
_LOCAL_HINT = (
    "For the local Slurm, comment the line out in a copy of the script (`##SBATCH`); or name "
    "the Slurm that has it (`cluster: {address: HOST:PORT}`)."
)
_GPUS = ("--gres", "--gpus", "--gpus-per-node", "--gpus-per-task")
_SIZES = ("--mem", "--mem-per-cpu", "--mem-per-gpu", "--tmp")
_COUNTED = "counted by Slurm: no process is given a device, or kept from one"
_MEANINGS = {
    **dict.fromkeys(_GPUS, _COUNTED),
    **dict.fromkeys(_SIZES, "counted by Slurm, and no limit"),
    **dict.fromkeys(("--constraint", "--prefer"), "every node has it"),
    **dict.fromkeys(("--account", "--qos"), "taken as it is: the local Slurm has no accounting"),
    "--partition": "made for the run",
}
_SIZE = re.compile(r"(\d+)([KMGT]?)B?", re.IGNORECASE)
_IN_MIB = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2}
COUNT = 64  # of the GPUs of each type on a node


@dataclass(frozen=True)
class HeaderNeeds:
    """The things that a header wants the nodes and partitions of a local Slurm to have."""

    partitions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    #: the types of GPUs, `""` for those of none
    gpus: tuple[str, ...] = ()
    cpus: int = 1
    #: MiB, 0 where nothing is said
    memory: int = 0
    disk: int = 0

    def build_node_parameters(self, memory: int) -> str:
        """Return it as parameters of a node in slurm.conf; `memory` (MiB) is what there is."""
        words = [f"RealMemory={max(memory, self.memory)}", f"TmpDisk={self.disk}"]
        if self.features:
            words.append(f"Feature={','.join(self.features)}")
        if self.gpus:
            kinds = (f"gpu:{kind}:{COUNT}" if kind else f"gpu:{COUNT}" for kind in self.gpus)
            words.append(f"Gres={','.join(kinds)}")
        return " ".join(words)


def check_header(
    script: Path, header: Mapping[str, SbatchOption], *, is_local: bool = False
) -> None:
    """Raise `JobError` for an option of a header with which chaos follows no job there."""
    problems = _REFUSED_ON_LOCAL if is_local else _REFUSED_ON_EXISTING
    hint = _LOCAL_HINT if is_local else "Take the line out of a copy of the script."
    for name, option in header.items():
        if name in problems:
            text = f"{name}={option.value}" if option.value else name
            raise JobError(f"{text}: {problems[name]}", hint, location=f"{script}:{option.line}")


def parse_needs(script: Path, header: Mapping[str, SbatchOption], *, nodes: int) -> HeaderNeeds:
    """Return what a header wants of a local Slurm; raises `JobError` with its line otherwise."""
    check_header(script, header, is_local=True)
    types = {kind for name in _GPUS for kind in _parse_gpu_types(script, name, header)}
    gpus = max(
        (_find_largest_number(header[name].value) for name in _GPUS if name in header), default=1
    )
    cpus = count_tasks(header, nodes) * _parse_count(header, "--cpus-per-task")
    cpus = max(cpus, gpus * _parse_count(header, "--cpus-per-gpu"))
    memory = (
        _parse_size(header, "--mem"),
        _parse_size(header, "--mem-per-cpu") * cpus,
        _parse_size(header, "--mem-per-gpu") * gpus,
    )
    features = (header[name].value for name in ("--constraint", "--prefer") if name in header)
    return HeaderNeeds(
        partitions=tuple(filter(None, _get_value(header, "--partition").split(","))),
        features=tuple(dict.fromkeys(re.findall(r"[A-Za-z_][\w.-]*", " ".join(features)))),
        # Slurm takes no types beside none: who asks for any GPU is given one of a type.
        gpus=tuple(sorted(types - {""})) or tuple(types),
        cpus=cpus,
        memory=max(memory),
        disk=_parse_size(header, "--tmp"),
    )


def describe_options(header: Mapping[str, SbatchOption]) -> dict[str, str]:
    """Return in words what a local Slurm makes of the options that are more than it has."""
    return {
        f"{name}={header[name].value}": words for name, words in _MEANINGS.items() if name in header
    }


def _parse_gpu_types(script: Path, name: str, header: Mapping[str, SbatchOption]) -> Iterator[str]:
    """Yield the types of an option's GPUs: `gpu:a100:4`, `gpu:4`; but for gres `a100:4`, `4`."""
    for item in filter(None, _get_value(header, name).split(",")):
        words = item.removeprefix("gres:").split(":")
        if name == "--gres" and words.pop(0) not in ("gpu", "none"):
            source_location = f"{script}:{header[name].line}"
            reason = "of generic resources the local Slurm has GPUs alone, as a number"
            problem = f"{name}={header[name].value}: {reason}"
            raise JobError(problem, _LOCAL_HINT, location=source_location)
        if item != "none":
            yield next((word for word in words if not word[:1].isdigit()), "")


def _get_value(header: Mapping[str, SbatchOption], name: str) -> str:
    return header[name].value if name in header else ""


def _parse_count(header: Mapping[str, SbatchOption], name: str) -> int:
    value = _get_value(header, name)
    return max(1, int(value)) if value.isdigit() else 1


def _find_largest_number(text: str) -> int:
    return max([1, *map(int, re.findall(r"(?:^|:)(\d+)(?=$|,)", text))])


def _parse_size(header: Mapping[str, SbatchOption], name: str) -> int:
    """Return a size in MiB, 0 where none is said."""
    match = _SIZE.fullmatch(_get_value(header, name))
    return 0 if match is None else math.ceil(int(match[1]) * _IN_MIB[match[2].upper()])
