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


def collect_environment(cwd: Path) -> dict[str, Any]:
    """Return versions, machine and commit, as far as they are known."""
    return {
        "versions": {"python": platform.python_version(), **_find_versions()},
        "machine": {
            "system": f"{platform.system()} {platform.release()}",
            "processor": find_processor(),
            "cpus": os.cpu_count(),
        },
        "commit": _find_commit(cwd),
    }


def find_decisive_versions() -> dict[str, str]:
    """Return the versions of all installed packages, on which a job's arithmetic may depend."""
    installed = {
        distribution.name: distribution.version for distribution in metadata.distributions()
    }
    chaos_versions = {
        "code of chaos": digest_chaos_code()
    }  # its version does not change while it is developed
    return {
        "python": platform.python_version(),
        "processor": find_processor(),
        **installed,
        **chaos_versions,
    }


def find_processor() -> str:
    """Return the processor's model: another one may round differently."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())


@cache
def digest_chaos_code(package: Path = Path(__file__).parents[1]) -> str:
    """Return one digest of all modules of chaos, which record a baseline."""
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _find_versions() -> dict[str, str]:
    versions = {}
    for name in DISTRIBUTIONS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def find_commit_and_branch(cwd: Path) -> tuple[str | None, str | None]:
    """Return the commit of a repository, marked if the tree has changes, and the branch, if any."""
    status = _run_git(
        cwd, "status", "--porcelain=v2", "--branch", "--untracked-files=no"
    ).splitlines()
    fields = dict(line[2:].split(" ", 1) for line in status if line.startswith("# "))
    commit = fields.get("branch.oid", "")[:12]
    if not commit or commit.startswith("("):  # before the first one
        return None, None
    is_changed = any(not line.startswith("# ") for line in status)
    branch = fields.get("branch.head", "")
    if branch == "(detached)":  # as a checkout of CI is
        branch = os.environ.get("GITHUB_HEAD_REF") or os.environ.get("GITHUB_REF_NAME") or ""
    return f"{commit}{'-dirty' if is_changed else ''}", branch or None


def _find_commit(cwd: Path) -> str | None:
    """Return the commit of the job's repository, with a mark if the tree has changes."""
    return _run_git(cwd, "describe", "--always", "--dirty", "--abbrev=12").strip() or None


def _run_git(cwd: Path, *words: str) -> str:
    """Return what git says; nothing where it fails, or is not there."""
    command = ["git", *words]
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
