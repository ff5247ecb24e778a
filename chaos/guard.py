"""The guard by the name that training scripts and `RAY_TRAIN_CALLBACKS` use.

It is an extension, which may not be installed: `chaos.guard` is then no module.
"""

import sys
from importlib import import_module

sys.modules[__name__] = import_module("chaos.extensions.guard")
