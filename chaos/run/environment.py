"""The machine and the versions of a run, recorded with it and part of a baseline's digest."""

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
    """Return versions, machine and commit, as far as they are known."""
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
    """Return the versions of all installed packages, on which a job's arithmetic may depend."""
    installed = {d.name: d.version for d in metadata.distributions()}
    own = {"code of chaos": own_code()}  # its version does not change while it is developed
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
    """Return one digest of all modules of chaos, which record a baseline."""
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


def commit_and_branch(cwd: Path) -> tuple[str | None, str | None]:
    """Return the commit of a repository, marked if the tree has changes, and the branch, if any."""
    status = _git(cwd, "status", "--porcelain=v2", "--branch", "--untracked-files=no").splitlines()
    told = dict(line[2:].split(" ", 1) for line in status if line.startswith("# "))
    commit = told.get("branch.oid", "")[:12]
    if not commit or commit.startswith("("):  # before the first one
        return None, None
    is_changed = any(not line.startswith("# ") for line in status)
    branch = told.get("branch.head", "")
    if branch == "(detached)":  # as a checkout of CI is
        branch = os.environ.get("GITHUB_HEAD_REF") or os.environ.get("GITHUB_REF_NAME") or ""
    return f"{commit}{'-dirty' if is_changed else ''}", branch or None


def _commit(cwd: Path) -> str | None:
    """Return the commit of the job's repository, with a mark if the tree has changes."""
    return _git(cwd, "describe", "--always", "--dirty", "--abbrev=12").strip() or None


def _git(cwd: Path, *words: str) -> str:
    """Return what git says; nothing where it fails, or is not there."""
    command = ["git", *words]
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
