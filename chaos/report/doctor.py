"""The diagnosis of a machine: its problems, and the effect of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.table import Table
from rich.text import Text

from chaos.model.machine import Machine

PYTHONS = ((3, 11), (3, 12))
CPUS_MIN, MEMORY_MIN_GIB, SHM_MIN_GIB, DISK_MIN_GIB = 2, 3.0, 1.0, 2.0
DISK_USED_MAX = 0.95  # beyond it Ray 2.60 refuses to write objects to disk
_SKIPPED = {
    "examples": "Nearly all of `scenarios/`, whose jobs train on scikit-learn's data,",
    "lightgbm": "`scenarios/frameworks/lightgbm_*`",
    "lightning": "`scenarios/frameworks/lightning_*`",
    "tensorflow": "`scenarios/frameworks/tensorflow_*`",
    "transformers": "`scenarios/frameworks/transformers_*`",
    "xgboost": "`scenarios/frameworks/xgboost_*`",
}
_MARKS = {"good": ("✓", "green"), "poor": ("?", "yellow"), "bad": ("✗", "bold red")}


@dataclass(frozen=True)
class Sign:
    """One examined property; `cost` is the effect of its problem, empty if it is good.

    `poor`: runs are slower, or some cannot be made. `bad`: none can.
    """

    name: str
    standing: Literal["good", "poor", "bad"]
    seen: str
    cost: str = ""


def signs(machine: Machine) -> list[Sign]:
    """Judge a machine, the properties that every run needs first."""
    return [*_software(machine), *_permissions(machine), *_room(machine), *_extras(machine)]


def doctor_table(found: Sequence[Sign]) -> Table:
    """Return a line per property, with the effect of its problem below."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    for sign in found:
        mark, style = _MARKS[sign.standing]
        table.add_row(Text(mark, style=style), Text(sign.name), Text(sign.seen))
        if sign.cost:
            table.add_row("", "", Text(sign.cost, style="dim"))
    return table


def _software(machine: Machine) -> Iterator[Sign]:
    yield _either(
        "system", machine.system == "Linux", machine.system, "chaos runs on Linux: signals, /proc."
    )
    version = ".".join(map(str, machine.python))
    yield _either("Python", machine.python in PYTHONS, version, "Python 3.11 or 3.12 is needed.")
    is_tested = machine.ray is not None and machine.ray.startswith("2.60.")
    lack = (
        "Jobs of Ray Train's cannot be tested, torchrun's can: pip install 'ray-train-chaos[ray]'"
        if machine.ray is None
        else "chaos was tested with 2.60; private names may have moved."
    )
    yield Sign(
        "Ray",
        "good" if is_tested else "poor",
        machine.ray or "not installed",
        "" if is_tested else lack,
    )
    yield _either(
        "torch", machine.torch is not None, machine.torch or "not installed", "pip install torch"
    )


def _permissions(machine: Machine) -> Iterator[Sign]:
    yield _either(
        "signals", machine.can_signal, _yes(machine.can_signal), "No fault can end a process."
    )
    yield _either(
        "ports",
        machine.can_listen,
        _yes(machine.can_listen),
        "Workers cannot reach each other on 127.0.0.1: neither Ray nor gloo starts.",
    )
    yield _either(
        "reports", machine.can_write, _yes(machine.can_write), "Choose another folder: --reports."
    )
    steady = machine.clock_back_ns == 0
    yield _either(
        "clock",
        steady,
        "steady" if steady else f"goes back by {machine.clock_back_ns} ns",
        "The order of events of different processes is unknown.",
    )


def _room(machine: Machine) -> Iterator[Sign]:
    yield _either(
        "processors",
        machine.cpus >= CPUS_MIN,
        str(machine.cpus),
        "Ranks take turns: runs are slow, and time-outs of the job's own may pass.",
        otherwise="poor",
    )
    yield _either(
        "memory",
        machine.memory_free >= MEMORY_MIN_GIB,
        f"{machine.memory_free:.1f} GiB free",
        f"A local Ray cluster with two workers takes some {MEMORY_MIN_GIB:g} GiB; "
        "--backend fork takes less.",
        otherwise="poor",
    )
    shm = machine.shm_free
    yield _either(
        "shared memory",
        shm is not None and shm >= SHM_MIN_GIB,
        "missing" if shm is None else f"{shm:.1f} GiB free",
        "Without /dev/shm Ray keeps objects on disk: slower (in Docker: --shm-size=2g).",
        otherwise="poor",
    )
    is_full = machine.disk_used > DISK_USED_MAX or machine.disk_free < DISK_MIN_GIB
    yield _either(
        "disk",
        not is_full,
        f"{machine.disk_free:.1f} GiB free, {machine.disk_used:.0%} used",
        f"Checkpoints and logs need room, and Ray stops storing beyond {DISK_USED_MAX:.0%}.",
        otherwise="poor",
    )


def _extras(machine: Machine) -> Iterator[Sign]:
    for extra, version in machine.extras.items():
        cost = f"{_SKIPPED[extra]} are skipped: pip install 'ray-train-chaos[{extra}]'"
        seen = version or "not installed"
        yield _either(f"[{extra}]", version is not None, seen, cost, otherwise="poor")


def _either(
    name: str,
    is_good: bool,  # noqa: FBT001 - it is what the sign is about
    seen: str,
    cost: str,
    *,
    otherwise: Literal["poor", "bad"] = "bad",
) -> Sign:
    return Sign(name, "good", seen) if is_good else Sign(name, otherwise, seen, cost)


def _yes(value: bool) -> str:  # noqa: FBT001 - a word for it
    return "yes" if value else "no"
