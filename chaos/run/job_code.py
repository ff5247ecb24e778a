"""Digests of the code that a job's outcome depends on.

A cached baseline may replace a run only while the job's own code is the same.
That is the script or the train loop's module, all that these import from the
user's folders, at any depth, and the files that the scenario lists. Installed
packages count by their versions (see `collect_environment`).
"""

import ast
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from chaos.errors import JobError
from chaos.model.plan import Plan
from chaos.run.modules import ModuleFile, Modules, find_imports, parse_module


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
        pending = [ModuleFile(script)]
    else:
        modules = Modules([*folders, Path(plan.file).parent])
        module = f"{job.module}.__main__" if job.module else job.source.partition(":")[0]
        pending = [
            module_file
            for module_file in modules.find_import_chain(module).values()
            if module_file.is_user_code
        ]
    digests = _digest_imports(pending, modules)
    for name in job.inputs:
        digests.update(
            (str(file), _digest(_load_content(file))) for file in _list_files(Path(name))
        )
    return dict(sorted(digests.items()))


def _digest_imports(pending: list[ModuleFile], modules: Modules) -> dict[str, str]:
    digests: dict[str, str] = {}
    while pending:
        file, _, package = pending.pop()
        if str(file) not in digests:
            content = _load_content(file)
            digests[str(file)] = _digest(content)
            for name in set(_find_imports(content, package)):
                pending += [
                    module_file
                    for module_file in modules.find_import_chain(name).values()
                    if module_file.is_user_code
                ]
    return digests


def _find_imports(content: bytes, package: str) -> Iterator[str]:
    """Yield the names of the modules that a file may import, at any place in it."""
    # At any place, in a function or under a condition as well: what is imported only sometimes may
    # still decide the outcome. A file too many makes a baseline anew; one too few would replace a
    # run by that of other code.
    for node in ast.walk(parse_module(content)):
        if isinstance(node, ast.stmt):
            yield from find_imports(node, package)


def _list_files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def _load_content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise JobError(
            f"a file of the job cannot be read: {error.strerror}",
            "Check job.script and job.inputs in the scenario.",
            location=str(file),
        ) from None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
