"""Signs of what is good and what is missing on a machine, with the effect of each problem."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rich.table import Column, Table
from rich.text import Text

from chaos.extensions.doctor.facts import Machine
from chaos.report.screen import build_bare_table

PYTHONS = ((3, 11), (3, 12))
CPUS_MIN, MEMORY_MIN_GIB, SHM_MIN_GIB, DISK_MIN_GIB = 2, 3.0, 1.0, 2.0
DISK_USED_MAX = 0.95  # beyond it Ray 2.60 refuses to write objects to disk
# The use of each extra.
_EXTRA_USES = {
    "search": "`chaos search`, `chaos.plans`",
    "metrics": "a run's figures in the cluster's Prometheus",
    "reclaim-aws": "`--reclaim-by aws`",
    "reclaim-azure": "`--reclaim-by azure`",
    "reclaim-google": "`--reclaim-by google`",
    "reclaim-kubernetes": "`--reclaim-by kubernetes`",
    "examples": "nearly all of `scenarios/`",
    "lightgbm": "`scenarios/frameworks/lightgbm_*`",
    "lightning": "`scenarios/frameworks/lightning_*`",
    "tensorflow": "`scenarios/frameworks/tensorflow_*`",
    "transformers": "`scenarios/frameworks/transformers_*`",
    "xgboost": "`scenarios/frameworks/xgboost_*`",
}
Standing: TypeAlias = Literal["good", "poor", "bad", "absent"]
_MARKS: dict[Standing, tuple[str, str]] = {
    "good": ("✓", "green"),
    "poor": ("?", "yellow"),
    "bad": ("✗", "bold red"),
    "absent": ("-", "dim"),
}


@dataclass(frozen=True)
class MachineSign:
    """One examined property."""

    name: str
    #: `poor`: runs are slower, or some cannot be made; `bad`: none can; `absent`: an extra
    standing: Standing
    observation: str
    #: the effect of its problem, empty if it is good
    cost: str = ""


def judge_machine(machine: Machine) -> list[MachineSign]:
    """Judge a machine, the properties that every run needs first."""
    return [
        *_judge_software(machine),
        *_judge_permissions(machine),
        *_judge_resources(machine),
        *_judge_extras(machine),
    ]


def build_doctor_table(machine_signs: Sequence[MachineSign]) -> Table:
    """Return a line per property, with the effect of its problem below."""
    table = build_bare_table(
        Column(no_wrap=True), Column(no_wrap=True), Column(overflow="fold", ratio=1)
    )
    table.show_header = False
    for sign in machine_signs:
        mark, style = _MARKS[sign.standing]
        table.add_row(Text(mark, style=style), Text(sign.name), Text(sign.observation))
        if sign.cost:
            table.add_row("", "", Text(sign.cost, style="dim"))
    return table


def _judge_software(machine: Machine) -> Iterator[MachineSign]:
    yield MachineSign("chaos", "good", machine.chaos)
    yield _build_sign(
        "system", machine.system == "Linux", machine.system, "chaos runs on Linux: signals, /proc."
    )
    version = ".".join(map(str, machine.python))
    yield _build_sign(
        "Python", machine.python in PYTHONS, version, "Python 3.11 or 3.12 is needed."
    )
    ray = machine.ray or ""
    lack = "chaos was tested with 2.60; private names may have moved."
    if not ray:
        lack = "Jobs of Ray Train's cannot be tested, torchrun's can: the extra is [ray]."
    yield _build_sign(
        "Ray", ray.startswith("2.60."), ray or "not installed", lack, poor_standing="poor"
    )
    torch = machine.torch or "not installed"
    yield _build_sign("torch", machine.torch is not None, torch, "pip install torch")


def _judge_permissions(machine: Machine) -> Iterator[MachineSign]:
    is_steady = machine.clock_back_ns == 0
    clock_text = "steady" if is_steady else f"goes back by {machine.clock_back_ns} ns"
    ports_problem = "Workers cannot reach each other on 127.0.0.1: neither Ray nor gloo starts."
    yield _build_ability_sign(
        "signals", "stop and kill a process", machine.can_signal, "No fault can."
    )
    yield _build_ability_sign(
        "ports", "listen on 127.0.0.1, and reach it", machine.can_listen, ports_problem
    )
    folder_hint = "Choose another folder: --reports."
    yield _build_ability_sign("reports", "write into the folder", machine.can_write, folder_hint)
    yield _build_sign(
        "views",
        machine.view_problem is None,
        machine.view_problem or "a lane can see its own files under absolute paths",
        "Jobs that save by absolute paths, or to their working directory, are audited one run "
        "at a time.",
        poor_standing="poor",
    )
    clock_problem = "The order of events of different processes is unknown."
    yield _build_sign("clock", is_steady, clock_text, clock_problem)


def _judge_resources(machine: Machine) -> Iterator[MachineSign]:
    yield _build_sign(
        "processors",
        machine.cpus >= CPUS_MIN,
        str(machine.cpus),
        "Ranks take turns: runs are slow, and time-outs of the job's own may pass.",
        poor_standing="poor",
    )
    yield _build_sign(
        "memory",
        machine.memory_free >= MEMORY_MIN_GIB,
        f"{machine.memory_free:.1f} GiB free",
        f"A local Ray cluster with two workers takes some {MEMORY_MIN_GIB:g} GiB; "
        "--backend fork takes less.",
        poor_standing="poor",
    )
    shm = machine.shm_free
    yield _build_sign(
        "shared memory",
        shm is not None and shm >= SHM_MIN_GIB,
        "missing" if shm is None else f"{shm:.1f} GiB free",
        "Without /dev/shm Ray keeps objects on disk: slower (in Docker: --shm-size=2g).",
        poor_standing="poor",
    )
    is_full = machine.disk_used > DISK_USED_MAX or machine.disk_free < DISK_MIN_GIB
    yield _build_sign(
        "disk",
        not is_full,
        f"{machine.disk_free:.1f} GiB free, {machine.disk_used:.0%} used",
        f"Checkpoints and logs need room, and Ray stops storing beyond {DISK_USED_MAX:.0%}.",
        poor_standing="poor",
    )


def _judge_extras(machine: Machine) -> Iterator[MachineSign]:
    for programs in machine.launchers:
        missing = ", ".join(f"no {name}" for name in programs.missing)
        standing: Standing = "absent" if missing else "good"
        yield MachineSign(programs.launcher, standing, missing or programs.use)
    for extra, version in machine.extras.items():
        observation = f"not installed; for {_EXTRA_USES[extra]}" if version is None else version
        yield MachineSign(f"[{extra}]", "absent" if version is None else "good", observation)


def _build_sign(
    name: str,
    is_good: bool,  # noqa: FBT001 - it is what the sign is about
    observation: str,
    cost: str,
    *,
    poor_standing: Literal["poor", "bad"] = "bad",
) -> MachineSign:
    return (
        MachineSign(name, "good", observation)
        if is_good
        else MachineSign(name, poor_standing, observation, cost)
    )


def _build_ability_sign(name: str, action: str, is_good: bool, cost: str) -> MachineSign:  # noqa: FBT001 - likewise
    return _build_sign(name, is_good, f"chaos can{'' if is_good else 'not'} {action}", cost)
