"""What a machine lacks is said with what it costs."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from chaos.extensions.doctor.facts import EXTRAS, OF_SCENARIOS, Machine, collect_machine_facts
from chaos.extensions.doctor.signs import MachineSign, build_doctor_table, judge_machine
from chaos.model.machine import LauncherPrograms
from chaos.run.clock import SystemClock
from chaos.run.machine import find_version
from tests.called import chaos

ROOT = Path(__file__).parents[3]
GOOD = Machine(
    launchers=(LauncherPrograms("Slurm", (), "for scripts for sbatch"),),
    chaos="0.1.0, from an index of packages",
    system="Linux",
    python=(3, 11),
    ray="2.60.0",
    torch="2.13.0",
    extras={"lightning": "2.5"},
    cpus=4,
    memory_free=8.0,
    shm_free=4.0,
    disk_free=50.0,
    disk_used=0.4,
    can_write=True,
    can_listen=True,
    can_signal=True,
    view_problem=None,
    clock_back_ns=0,
)


def amiss(machine: Machine) -> list[MachineSign]:
    return [sign for sign in judge_machine(machine) if sign.standing != "good"]


def test_a_machine_that_has_everything_lacks_nothing() -> None:
    assert amiss(GOOD) == []


@pytest.mark.parametrize(
    ("lack", "name", "standing"),
    [
        ({"system": "Darwin"}, "system", "bad"),
        ({"python": (3, 13)}, "Python", "bad"),
        ({"ray": None}, "Ray", "poor"),
        ({"ray": "2.61.0"}, "Ray", "poor"),
        ({"torch": None}, "torch", "bad"),
        ({"cpus": 1}, "processors", "poor"),
        ({"memory_free": 1.0}, "memory", "poor"),
        ({"shm_free": 0.06}, "shared memory", "poor"),
        ({"shm_free": None}, "shared memory", "poor"),
        ({"disk_used": 0.97}, "disk", "poor"),
        ({"disk_free": 1.0}, "disk", "poor"),
        ({"can_write": False}, "reports", "bad"),
        ({"can_listen": False}, "ports", "bad"),
        ({"can_signal": False}, "signals", "bad"),
        ({"clock_back_ns": 5}, "clock", "bad"),
        ({"view_problem": "the kernel refuses it"}, "views", "poor"),
    ],
)
def test_each_lack_is_named_with_what_it_costs(
    lack: dict[str, Any], name: str, standing: str
) -> None:
    (sign,) = amiss(replace(GOOD, **lack))

    assert (sign.name, sign.standing) == (name, standing)
    assert sign.cost


@pytest.mark.parametrize(
    ("packages", "is_there"),
    [
        ((("pytest",),), True),
        ((("not-there", "pytest"),), True),  # under its other name
        ((("pytest",), ("not-there",)), False),  # half of it
        ((("not-there",), ("pytest",)), False),
    ],
)
def test_an_extra_is_there_where_all_its_packages_are(
    packages: tuple[tuple[str, ...], ...], is_there: bool
) -> None:
    assert find_version(packages) == (pytest.__version__ if is_there else None)


@pytest.mark.parametrize("extra", [*EXTRAS, *OF_SCENARIOS])
def test_an_extra_that_is_not_there_is_no_lack_and_says_what_it_is_for(extra: str) -> None:
    (sign,) = amiss(replace(GOOD, extras={extra: None}))

    assert (sign.name, sign.standing) == (f"[{extra}]", "absent")
    assert re.fullmatch(r"not installed; for .+", sign.observation)


def test_the_extras_of_scenarios_are_looked_for_where_there_are_scenarios(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    elsewhere = collect_machine_facts(tmp_path, SystemClock(), None).extras
    monkeypatch.chdir(ROOT)
    in_a_clone = collect_machine_facts(tmp_path, SystemClock(), None).extras

    assert elsewhere.keys() == EXTRAS.keys()
    assert in_a_clone.keys() == {*EXTRAS, *OF_SCENARIOS}


def test_doctor_says_how_an_extra_is_installed(tmp_path: Path) -> None:
    done = chaos("doctor", folder=tmp_path)

    assert "An extra is installed by pip install" in done.out
    assert "[EXTRA]'" in done.out


def test_the_table_fits_80_columns() -> None:
    console = Console(width=80, file=None)
    with console.capture() as captured:
        console.print(
            build_doctor_table(judge_machine(replace(GOOD, shm_free=None, can_listen=False)))
        )

    assert max(map(len, captured.get().splitlines())) <= 80
