"""The extensions in this distribution, as the core reaches them: by name, if they are there.

The core works without each of them. What it asks of one is imported here at its first use.
"""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from chaos.errors import UsageError

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
