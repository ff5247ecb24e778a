"""What another Ray has of the private names that chaos uses, beside the Ray it was tested with.

    python -m tests.tools.canary .venv-canary/bin/python

Names are those that the modules called `compat` import, and what chaos replaces. Of each the
signature and the body are compared; a body that changed is no error, and worth a look.
"""

import argparse
import ast
import hashlib
import importlib
import inspect
import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ray

ROOT = Path(__file__).parents[2]
COMPATS = sorted((ROOT / "chaos/launch").glob("*/compat.py"))
# Methods that chaos replaces, or whose parameters it reads.
REPLACED = (
    ("ray.train.v2._internal.execution.context", "TrainContext.get_checkpoint"),
    ("ray.train.v2._internal.execution.context", "TrainContext._upload_checkpoint"),
    ("ray.train.v2._internal.execution.context", "TrainContext._wait_then_report"),
    ("ray.train.v2._internal.execution.worker_group.thread_runner", "ThreadRunner.run"),
    ("ray.train.v2._internal.execution.checkpoint.checkpoint_manager", "delete_fs_path"),
)
# Public, and not there in 2.60: the samples of an epoch, exactly once over a resume.
AWAITED = ("ray.train", "DatasetCheckpointConfig")


def imported() -> Iterator[tuple[str, str]]:
    """Yield every (module, name) of Ray that a compat imports, wherever in the file."""
    for node in (node for path in COMPATS for node in ast.walk(ast.parse(path.read_text()))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ray"):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((a.name, "") for a in node.names if a.name.startswith("ray"))


def looked_at() -> dict[str, list[str] | None]:
    """Return signature and body of each name in the Ray of this process; None: it is not there."""
    names = sorted({*imported(), *REPLACED, AWAITED})
    return {f"{module}:{name}": _facts(module, name) for module, name in names}


def _facts(module: str, name: str) -> list[str] | None:
    try:
        found: Any = importlib.import_module(module)
        for part in filter(None, name.split(".")):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    if inspect.ismodule(found):  # all of it changes with anything in it
        return ["", ""]
    try:
        signature = str(inspect.signature(found))
    except (TypeError, ValueError):
        signature = ""
    try:
        body = hashlib.sha256(inspect.getsource(found).encode()).hexdigest()
    except (OSError, TypeError):  # written in C, or a value
        body = ""
    return [signature, body]


def differences(
    ours: dict[str, list[str] | None], theirs: dict[str, list[str] | None]
) -> Iterator[tuple[str, str]]:
    """Yield each name that differs, and how."""
    for name, known in ours.items():
        now = theirs.get(name)
        if known is None and now is not None:
            yield name, "is there now"
        elif known is not None and now is None:
            yield name, "is gone"
        elif known is not None and now is not None and known[0] != now[0]:
            yield name, f"takes {now[0]} instead of {known[0]}"
        elif known is not None and now is not None and known[1] != now[1]:
            yield name, "has another body"


def main() -> int:
    """Print the differences; 1 if a name is gone."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("python", nargs="?", help="the interpreter with the other Ray")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # what Ray warns of while it is imported is its own
    if asked.python is None:
        print(json.dumps([ray.__version__, looked_at()]))  # noqa: T201
        return 0
    command = [asked.python, "-m", "tests.tools.canary"]
    said = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    version, theirs = json.loads(said.splitlines()[-1])
    found = list(differences(looked_at(), theirs))
    print(f"Ray {version} beside {ray.__version__}: {len(theirs)} names, {len(found)} differ")  # noqa: T201
    for name, how in found:
        print(f"  {name} {how}")  # noqa: T201
    awaited = ".".join(AWAITED)
    if theirs[":".join(AWAITED)] is None:
        print(f"  {awaited} is not in this wheel: exactly once over a resume is not tested")  # noqa: T201
    return int(any(how == "is gone" for _, how in found))


if __name__ == "__main__":
    sys.exit(main())
