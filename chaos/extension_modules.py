"""The extensions in this distribution, as the core reaches them: by name, if they are there.

The core works without each of them. What it asks of one is imported here at its first use.
"""

from collections.abc import Sequence
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from chaos.errors import UsageError
from chaos.installation import NAME

PACKAGE = "chaos.extensions"


def is_extension_module(module: str) -> bool:
    """Return whether a module is of an extension in this distribution."""
    return module.startswith(f"{PACKAGE}.")


def has_extension(name: str) -> bool:
    """Return whether an extension is installed: `guard`, `slurm`."""
    return find_spec(f"{PACKAGE}.{name}") is not None


def load_extension_module(module: str, feature: str) -> ModuleType:
    """Return a module of an extension, for instance `lab.soak`.

    Raises `UsageError` where the extension is not installed; `feature` is what needs it.
    """
    extension = module.partition(".")[0]
    if not has_extension(extension):
        raise UsageError(
            f"{feature} needs chaos's extension {extension}, which is not installed",
            "Install chaos with all of its extensions.",
        )
    return import_module(f"{PACKAGE}.{module}")


def list_own_entry_points(group: str) -> Sequence[metadata.EntryPoint]:
    """Return the entry points of this distribution's extensions, without those that are deleted.

    Only this distribution's metadata is read: a scan of all that is installed takes a hundred times
    as long, and each process of a job would make one.
    """
    try:
        points = metadata.distribution(NAME).entry_points
    except metadata.PackageNotFoundError:
        return ()
    return [
        point
        for point in points
        if point.group == group
        and is_extension_module(point.module)
        and find_module_file(point.module) is not None
    ]


def find_module_file(module: str) -> Path | None:
    """Return the file of a module, without importing it or a package that it is in."""
    top, *names = module.split(".")
    spec = find_spec(top)
    if spec is None:
        return None
    if not names:
        return Path(spec.origin) if spec.origin else None
    for folder in spec.submodule_search_locations or ():
        path = Path(folder).joinpath(*names)
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return file
    return None
