"""Digests of the code that a job's outcome depends on.

A cached baseline may replace a run only while the job's own code is the same.
That is the script or the train loop's module, all that these import from the
user's folders, at any depth, and the files that the scenario lists. Installed
packages count by their versions (see `environment`).
"""

import ast
import hashlib
import importlib.util
import os
import sys
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from chaos.errors import JobError
from chaos.model.plan import Plan

_INSTALLED = frozenset({"site-packages", "dist-packages"})


def digest_job_code(plan: Plan, *, python_path: Sequence[str] = ()) -> dict[str, str]:
    """Return the SHA-256 of every file of the job, by absolute path.

    `python_path` are the entries of PYTHONPATH that the job will see, beside
    those of its own `env`.
    """
    job = plan.job
    entries = [*job.env.get("PYTHONPATH", "").split(os.pathsep), *python_path]
    folders = [Path(plan.cwd, entry) for entry in entries if entry]
    if job.script is not None:
        script = Path(job.script)
        roots = [script.parent, *_own([Path(plan.cwd), *folders])]
        waiting = [script]
    else:
        roots = _own([Path(plan.cwd), *folders, Path(plan.file).parent])
        waiting = list(_module_files(job.source.partition(":")[0], roots))
    digests = _followed(waiting, roots)
    for name in job.inputs:
        digests.update((str(file), _digest(_content(file))) for file in _files(Path(name)))
    return dict(sorted(digests.items()))


def _followed(waiting: list[Path], roots: Sequence[Path]) -> dict[str, str]:
    digests: dict[str, str] = {}
    while waiting:
        file = waiting.pop()
        if str(file) not in digests:
            content = _content(file)
            digests[str(file)] = _digest(content)
            waiting.extend(_imported(content, file, roots))
    return digests


def _imported(content: bytes, file: Path, roots: Sequence[Path]) -> Iterator[Path]:
    """Yield the user's files that a file may import, at any place in it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings of odd escapes are of no interest here
            tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError):
        return  # it will fail when it is run
    # At any place, in a function or under a condition as well: what is imported only sometimes may
    # still decide the outcome. A file too many makes a baseline anew; one too few would replace a
    # run by that of other code.
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _module_files(alias.name, roots)
        elif isinstance(node, ast.ImportFrom):
            for name in (node.module or "", *_members(node)):
                if node.level:
                    above = file.parents[min(node.level, len(file.parents)) - 1]
                    yield from _files_on_the_way(above, name)
                else:
                    yield from _module_files(name, roots)


def _members(node: ast.ImportFrom) -> Iterator[str]:
    """Yield the names after `import`: each may be a module, or a name in one."""
    for alias in node.names:
        yield f"{node.module}.{alias.name}" if node.module else alias.name


def _module_files(module: str, roots: Sequence[Path]) -> Iterator[Path]:
    first = module.partition(".")[0]
    root = next((root for root in roots if _is_regular(root / first)), None)
    root = root or _editable_root(first)
    if root is not None:
        yield from _files_on_the_way(root, module)
        return
    for namespace in roots:  # a folder without __init__.py, of which each root may hold a part
        yield from _files_on_the_way(namespace, module)


def _files_on_the_way(root: Path, module: str) -> Iterator[Path]:
    """Yield the files that importing a module runs: its own and its packages'."""
    place = root
    for part in filter(None, module.split(".")):
        place /= part
        own = (place / "__init__.py", place.with_name(f"{part}.py"))
        yield from (file for file in own if file.is_file())


def _is_regular(place: Path) -> bool:
    return (place / "__init__.py").is_file() or place.with_name(f"{place.name}.py").is_file()


def _editable_root(name: str) -> Path | None:
    """Return the folder of a package that is installed in place (editable)."""
    if name in sys.stdlib_module_names:
        return None
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None or not spec.has_location or spec.origin is None:
        return None
    origin = Path(spec.origin)
    root = origin.parent.parent if spec.submodule_search_locations else origin.parent
    return next(iter(_own([root])), None)


def _own(folders: Sequence[Path]) -> list[Path]:
    """Return the folders in which a user keeps code: not Python's, not the installer's."""
    library = Path(sysconfig.get_path("stdlib"))
    found = (Path(os.path.normpath(folder)) for folder in folders)
    return [f for f in found if not _INSTALLED & set(f.parts) and not f.is_relative_to(library)]


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
