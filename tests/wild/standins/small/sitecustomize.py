"""Stand-in for photographs: the real torchvision makes images of few pixels, whatever is asked for.

Python imports a module of this name as it starts, if the folder is on its path, and only the
first: the next one on the path is run from here.
"""

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

SIDE = 32
SIZED = ("RandomResizedCrop", "Resize", "CenterCrop")
MODULE = "torchvision.transforms.transforms"


def sized(cls: Any) -> None:
    """Have transforms of a class make images of at most SIDE pixels a side."""
    made = cls.__init__

    @functools.wraps(made)
    def init(self: Any, size: Any, *args: Any, **options: Any) -> None:
        few = [min(side, SIDE) for side in (size if isinstance(size, Sequence) else (size,))]
        made(self, few if isinstance(size, Sequence) else few[0], *args, **options)

    cls.__init__ = init


class OnImport(importlib.abc.MetaPathFinder):
    """Finds torchvision's transforms once, and changes them when they have been imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        found = importlib.machinery.PathFinder.find_spec(name, path, target)
        if found is not None and found.loader is not None:
            execute = found.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                for cls in SIZED:
                    sized(getattr(module, cls))

            vars(found.loader)["exec_module"] = exec_module
        return found


def run_next(name: str) -> None:
    """Run the module of this name that stands after this folder on the path."""
    here = str(Path(__file__).parent)
    after = sys.path[sys.path.index(here) + 1 :] if here in sys.path else []
    found = importlib.machinery.PathFinder.find_spec(name, after)
    if found is not None and found.loader is not None:
        found.loader.exec_module(importlib.util.module_from_spec(found))


sys.meta_path.insert(0, OnImport())
run_next("sitecustomize")
