"""Imported by each Python that a command starts, as `PYTHONPATH` begins with this folder.

The interpreter's own `sitecustomize`, if there is one, is imported first, as it would be without
this one. Where chaos cannot be imported, as in another virtual environment, nothing is watched.
"""

import contextlib
import importlib
import sys
from pathlib import Path

_here = str(Path(__file__).parent)
_name = Path(__file__).stem

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
        from chaos.launch.python.process import watch_child

        watch_child()
