"""Imported by each Python of a run or a guarded training: `PYTHONPATH` begins with this folder.

The interpreter's own `sitecustomize`, if there is one, is imported first, as it would be without
this one. Where chaos cannot be imported, as in another virtual environment, nothing is watched.
"""

import contextlib
import importlib
import os
import sys
from pathlib import Path

_own_folder = str(Path(__file__).parent)
_name = Path(__file__).stem
# Processes that Python and torch start for themselves, and that run no line of the job's.
_HELPERS = ("multiprocessing.resource_tracker", "torch._inductor.compile_worker")
# The modules that watch a process, each by the variable that asks for it, a run's first. What a
# rank has started is no rank; where no launcher names the ranks, it may be one.
_WATCHERS = {
    "CHAOS_CHILD": "chaos.launch.child",
    "CHAOS_RUN_DIRECTORY": "chaos.launch.python.process",
    "CHAOS_GUARD": "chaos.extensions.guard.process",
}

sys.path[:] = [entry for entry in sys.path if entry != _own_folder]
_this_module = sys.modules.pop(_name)
try:
    importlib.import_module(_name)
except ModuleNotFoundError as error:
    if error.name != _name:
        raise
finally:
    sys.modules.setdefault(_name, _this_module)  # the import of this one looks for it
    _selected = [module for variable, module in _WATCHERS.items() if variable in os.environ]
    if _selected and not any(helper in word for word in sys.orig_argv for helper in _HELPERS):
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(_selected[0]).watch_child()
