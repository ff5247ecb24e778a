"""The guard of a job of Ray Train: `RAY_TRAIN_CALLBACKS=chaos.extensions.guard.RayCallback`.

The folder is in `CHAOS_GUARD`, in the environment of the driver; without it the guard keeps its
records in the run's own storage folder, if that is a path.
"""

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from chaos.declaration import GUARD_ENV
from chaos.extensions.guard.process import (
    COPIED,
    FOLDER,
    GuardedCommand,
    GuardPolicy,
    begin_guard,
    report_failure,
)
from chaos.launch.raytrain import compat

_BASES: Any = compat.callback_bases()


class RayCallback(*_BASES):  # type: ignore[misc]
    """Ray makes it in the driver, pickles it into the controller and from there into workers."""

    def __init__(self) -> None:
        self._location = os.environ.get(GUARD_ENV)
        self._policy = GuardPolicy.from_env()
        self._command = GuardedCommand.from_process()

    def after_controller_start(self, train_run_context: Any) -> None:
        try:
            config = train_run_context.run_config
            run = compat.run_folder(config)
            # The driver's: those of workers have ports and tokens, which differ at each start. By
            # the same command another run is another job: Ray gives it no save of this one.
            self._command = self._command._replace(run=run)
            if self._location is None and compat.is_local(
                config.storage_context.storage_filesystem
            ):
                self._location = str(Path(run) / FOLDER)
        except Exception as error:  # noqa: BLE001 - training goes on
            report_failure("run folder", error)

    def after_init_train_context(self) -> None:
        if self._location is None:
            report_failure("folder", ValueError(f"set {GUARD_ENV} in the driver's environment"))
            return
        command = self._command
        try:
            checkpoint = compat.starting_checkpoint()
            command = command._replace(
                checkpoint=f"{command.run}/{checkpoint}" if checkpoint else ""
            )
            compat.watch_persisted(partial(sys.audit, COPIED))
        except Exception as error:  # noqa: BLE001 - training goes on
            report_failure("checkpoints of Ray Train", error)
        begin_guard(self._location, self._policy, command)
