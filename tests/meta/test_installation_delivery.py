"""What is delivered works elsewhere: pins agree, and no file knows the machine it was made on."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import EMBEDDED, LONG, SLOW

ROOT = Path(__file__).parents[2]
# Brackets keep this file from being its own first finding.
FOREIGN = re.compile(r"/[w]ork/|/[r]oot/|[p]ypi\.org|[i]ndex-url")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def pins() -> dict[str, Requirement]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(pin.name): pin for pin in requirements}


def needed() -> list[Requirement]:
    settings = project()
    lines = [*settings["project"]["dependencies"], *settings["dependency-groups"]["dev"]]
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize("requirement", needed(), ids=lambda requirement: requirement.name)
def test_what_the_project_asks_for_is_pinned_within_its_range(requirement: Requirement) -> None:
    pin = pins()[canonicalize_name(requirement.name)]
    version = str(pin.specifier).removeprefix("==")

    assert requirement.specifier.contains(version)


def test_every_pin_is_exact_and_fits_any_build() -> None:
    exact = re.compile(r"==[\d.]+(post\d+|b\d+)?")
    loose = [str(pin) for pin in pins().values() if not exact.fullmatch(str(pin.specifier))]

    assert not loose


def test_no_delivered_file_names_a_package_index_or_a_developers_machine() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("only git knows what is delivered")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    files = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    found = [
        f"{file.relative_to(ROOT)}:{number}: {hit.group()}"
        for file in files
        if file.is_file()
        for number, line in enumerate(file.read_text("utf-8", errors="replace").splitlines(), 1)
        if (hit := FOREIGN.search(line))
    ]

    assert not found


def test_what_is_put_first_or_marked_among_the_tests_is_there() -> None:
    folders = {*LONG, *SLOW, *EMBEDDED}
    files = {f"{folder}/test_{name}.py" for folder, names in SLOW.items() for name in names}

    assert [name for name in sorted(folders | files) if not (ROOT / "tests" / name).exists()] == []
