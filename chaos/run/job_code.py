"""Digests of the code that a job's outcome depends on.

A cached baseline may replace a run only while the job's own code is the same.
That is the script or the train loop's module, all that these import from the
user's folders, at any depth, and the files that the scenario lists. Installed
packages count by their versions (see `environment`).
"""

import ast
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from chaos.errors import JobError
from chaos.model.plan import Plan
from chaos.run.modules import ModuleFile, Modules, imported, parsed


def digest_job_code(plan: Plan, *, python_path: Sequence[str] = ()) -> dict[str, str]:
    """Return the SHA-256 of every file of the job, by absolute path.

    `python_path` are the entries of PYTHONPATH that the job will see, beside
    those of its own `env`.
    """
    job = plan.job
    entries = [*job.env.get("PYTHONPATH", "").split(os.pathsep), *python_path]
    folders = [Path(plan.cwd), *(Path(plan.cwd, entry) for entry in entries if entry)]
    if job.script is not None:
        script = Path(job.script)
        modules = Modules([script.parent, *folders])
        waiting = [ModuleFile(script)]
    else:
        modules = Modules([*folders, Path(plan.file).parent])
        module = f"{job.module}.__main__" if job.module else job.source.partition(":")[0]
        waiting = [each for each in modules.on_the_way(module).values() if each.is_own]
    digests = _followed(waiting, modules)
    for name in job.inputs:
        digests.update((str(file), _digest(_content(file))) for file in _files(Path(name)))
    return dict(sorted(digests.items()))


def _followed(waiting: list[ModuleFile], modules: Modules) -> dict[str, str]:
    digests: dict[str, str] = {}
    while waiting:
        file, _, package = waiting.pop()
        if str(file) not in digests:
            content = _content(file)
            digests[str(file)] = _digest(content)
            for name in set(_imported(content, package)):
                waiting += [each for each in modules.on_the_way(name).values() if each.is_own]
    return digests


def _imported(content: bytes, package: str) -> Iterator[str]:
    """Yield the names of the modules that a file may import, at any place in it."""
    # At any place, in a function or under a condition as well: what is imported only sometimes may
    # still decide the outcome. A file too many makes a baseline anew; one too few would replace a
    # run by that of other code.
    for node in ast.walk(parsed(content)):
        if isinstance(node, ast.stmt):
            yield from imported(node, package)


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise JobError(
            f"a file of the job cannot be read: {error.strerror}",
            "Check job.script and job.inputs in the scenario.",
            place=str(file),
        ) from None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
