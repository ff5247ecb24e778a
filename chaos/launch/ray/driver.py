"""The process that runs the user's script on a cluster.

`python -m chaos.launch.ray.driver RUN_DIRECTORY HARNESS_PID`. The script runs
as `__main__` with its own arguments, unchanged. Settings are changed only when it
calls Ray: storage path and run name are unique per run, and settings of the
scenario replace those of the script.
"""

import os
import sys
from pathlib import Path
from typing import Any

import ray

from chaos.errors import UsageError, raise_when_called
from chaos.launch.job import is_clean_exit, run_job
from chaos.launch.ray.compat import gpu_type, visible_gpus
from chaos.launch.ray.trials import intercept_tuner
from chaos.launch.raytrain.fit import FitWrapper, RunPart
from chaos.launch.torchrun_requests import TorchrunRequests
from chaos.model.event import NO_FIT, UNCALLED, ScriptRaised
from chaos.processes.child import die_with_parent
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal, open_driver_journal
from chaos.run.signals import DRIVER_STACKS, answer_with_stacks


def main(run_directory: str, harness: int) -> int:
    """Run the job of a run directory's plan; return the exit code."""
    die_with_parent(harness)
    directory = RunDirectory(Path(run_directory))
    plan = directory.load_plan()
    journal = open_driver_journal(directory.journals, SystemClock())
    answer_with_stacks(directory.logs / DRIVER_STACKS)
    part = RunPart(plan, directory, journal, gpus=visible_gpus(), gpu_type=gpu_type())
    is_experiment, requests = plan.job.trial is not None, TorchrunRequests()
    begin_fit = (
        raise_when_called(_build_trial_error) if is_experiment else requests.wrap_fit(lambda: part)
    )
    fit = FitWrapper(begin_fit, number=plan.job.fit)
    fit.intercept(in_trials=is_experiment)
    experiment = intercept_tuner(plan, directory, journal) if is_experiment else None
    _replace_init()
    requests.start()
    try:
        run_job(plan)
    except BaseException as error:
        if not is_clean_exit(error):
            if error is not fit.raised:
                _record_failure(journal, error, None if fit.run else requests.find_request(error))
            raise
    if experiment is not None and not experiment.began:
        journal.add(ScriptRaised(error="NoFit", message="ended without a Tuner of Ray Tune's"))
        return 1
    if experiment is None and fit.run is None:
        journal.add(ScriptRaised(error=NO_FIT, message=UNCALLED, asked=requests.find_request()))
        return 1
    return 0


def _record_failure(journal: Journal, error: BaseException, torchrun_request: str | None) -> None:
    name, message = type(error).__name__, str(error)[:2000]
    journal.add(ScriptRaised(error=name, message=message, asked=torchrun_request))


def _build_trial_error() -> UsageError:
    return UsageError(
        "the scenario names a trial, and the script calls fit() outside of one",
        "Leave job.trial out where the script runs no experiment of Ray Tune.",
    )


def _replace_init() -> None:
    """Let `ray.init` join the cluster under test, and raise where the script names another."""
    connect = ray.init
    own_address = os.environ["RAY_ADDRESS"]

    def init(address: str | None = None, *args: Any, **kwargs: Any) -> Any:
        if address not in (None, "auto", own_address):
            raise RuntimeError(
                f"the script calls ray.init(address={address!r}); chaos runs it on a cluster of "
                f"its own. Call ray.init() without an address, which follows RAY_ADDRESS"
            )
        for setting in ("num_cpus", "num_gpus", "resources", "object_store_memory"):
            if kwargs.pop(setting, None) is not None:
                os.write(2, f"chaos: ray.init({setting}=...) is the scenario's to say\n".encode())
        return connect(own_address, *args, **kwargs)

    ray.init = init


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
