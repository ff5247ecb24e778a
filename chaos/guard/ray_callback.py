"""The guard of a job of Ray Train: `RAY_TRAIN_CALLBACKS=chaos.guard.RayCallback`.

The folder is in `CHAOS_GUARD`, in the environment of the driver; without it the guard keeps its
records in the run's own storage folder, if that is a path.
"""

import os
from pathlib import Path
from typing import Any

from chaos.declared import GUARD_ENV
from chaos.guard.process import FOLDER, Command, Use, begin, failed
from chaos.launch.raytrain import compat

_BASES: Any = compat.callback_bases()


class RayCallback(*_BASES):  # type: ignore[misc]
    """Ray makes it in the driver, pickles it into the controller and from there into workers."""

    def __init__(self) -> None:
        self._place = os.environ.get(GUARD_ENV)
        self._use = Use.asked()
        # The driver's: those of workers have ports and tokens, which differ at each start.
        self._command = Command.own()

    def after_controller_start(self, train_run_context: Any) -> None:
        try:
            config = train_run_context.run_config
            files = type(config.storage_context.storage_filesystem).__name__
            if self._place is None and files == "LocalFileSystem":
                self._place = str(Path(compat.run_folder(config)) / FOLDER)
        except Exception as error:  # noqa: BLE001 - training goes on
            failed("run folder", error)

    def after_init_train_context(self) -> None:
        if self._place is None:
            failed("folder", ValueError(f"set {GUARD_ENV} in the driver's environment"))
        else:
            begin(self._place, self._use, self._command)
