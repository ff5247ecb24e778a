"""Ray stays behind its door, and Ray's private names in one kind of file.

The planted train loops are jobs, and import Ray as any job does.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LAUNCHERS = (ROOT / "chaos/launch", ROOT / "chaos/extensions/cluster")
PLANTED = ROOT / "chaos/extensions/lab/selftest/planted"
COMPATS = sorted(LAUNCHERS[0].glob("*/compat.py"))
PRIVATE = (
    "ray._private",
    "ray._raylet",
    "ray.cluster_utils",
    "ray.core.generated",
    "ray.train.v2._internal",
)
MODULES = sorted((ROOT / "chaos").rglob("*.py"))


def imported(module: Path) -> Iterator[str]:
    """Yield the names of the modules that a module imports, and of the names it takes from them."""
    for node in ast.walk(ast.parse(module.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_only_launchers_and_jobs_import_ray() -> None:
    found = [
        str(module.relative_to(ROOT))
        for module in MODULES
        if not any(map(module.is_relative_to, LAUNCHERS))
        and not module.is_relative_to(PLANTED)
        and any(name.partition(".")[0] == "ray" for name in imported(module))
    ]

    assert not found


def test_private_names_of_ray_stand_in_compat_alone() -> None:
    assert COMPATS
    found = [
        f"{module.relative_to(ROOT)}: {name}"
        for module in MODULES
        for name in PRIVATE
        if module not in COMPATS and name in module.read_text(encoding="utf-8")
    ]

    assert not found
