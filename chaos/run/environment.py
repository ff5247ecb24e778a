"""The machine and the versions a run was made on: recorded with it, part of a baseline's digest."""

import hashlib
import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

DISTRIBUTIONS = ("ray-train-chaos", "ray", "torch", "numpy", "pyarrow")


def environment(cwd: Path) -> dict[str, Any]:
    """Return versions, machine and commit; what cannot be told is left out."""
    return {
        "versions": {"python": platform.python_version(), **_versions()},
        "machine": {
            "system": f"{platform.system()} {platform.release()}",
            "processor": processor(),
            "cpus": os.cpu_count(),
        },
        "commit": _commit(cwd),
    }


def decisive_versions() -> dict[str, str]:
    """Return what a job's arithmetic may depend on besides its own code: whatever is installed."""
    installed = {d.name: d.version for d in metadata.distributions()}
    own = {"code of chaos": own_code()}  # its version says little while it is worked on
    return {"python": platform.python_version(), "processor": processor(), **installed, **own}


def processor() -> str:
    """Return the processor's model: another one may round differently."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())


@cache
def own_code(package: Path = Path(__file__).parents[1]) -> str:
    """Return one digest of all modules of chaos: they write down what a baseline is read from."""
    whole = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        whole.update(file.read_bytes())
    return whole.hexdigest()


def _versions() -> dict[str, str]:
    found = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _commit(cwd: Path) -> str | None:
    """Return the commit of the job's repository, marked where the tree has changes."""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],  # noqa: S607 - git by PATH
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return described.stdout.strip() or None
