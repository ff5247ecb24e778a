"""Imported by each Python of a run or a guarded training: `PYTHONPATH` begins with this folder.

The interpreter's own `sitecustomize`, if there is one, is imported first, as it would be without
this one. Where chaos cannot be imported, as in another virtual environment, nothing is watched.
"""

import contextlib
import importlib
import os
import sys
from pathlib import Path

_here = str(Path(__file__).parent)
_name = Path(__file__).stem
_variables = {
    "chaos.launch.python.process": "CHAOS_RUN_DIRECTORY",  # within a run of chaos
    "chaos.guard.process": "CHAOS_GUARD",
}

sys.path[:] = [entry for entry in sys.path if entry != _here]
_this = sys.modules.pop(_name)
try:
    importlib.import_module(_name)
except ModuleNotFoundError as error:
    if error.name != _name:
        raise
finally:
    sys.modules.setdefault(_name, _this)  # the import of this one looks for it
    with contextlib.suppress(ModuleNotFoundError):
        for _process in ("chaos.launch.python.process", "chaos.guard.process"):
            if _variables[_process] in os.environ:
                importlib.import_module(_process).watch_child()
                break
