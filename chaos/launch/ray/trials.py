"""An experiment of Ray Tune: every trial is an actor, and calls a `trainer.fit()` of its own there.

The trainable of the script's `Tuner` is wrapped, and pickled into the trial's
actor. There `fit()` is configured, recorded and passed on, as in the driver of a
job without Tune. The trial that the scenario names is the run. Each of the others
has a folder of its own, with journals, a plan without faults, and no chaos
controller.
"""

import copy
import functools
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray import tune

from chaos.errors import UsageError
from chaos.launch.ray.compat import gpu_type, visible_gpus
from chaos.launch.raytrain.bucket import join_uri
from chaos.launch.raytrain.fit import FitWrapper, RunPart
from chaos.model.event import ExperimentEnded, ScriptRaised
from chaos.model.plan import Plan
from chaos.probe.address import RunAddress
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory, create_run
from chaos.run.journal import Journal, open_driver_journal

_NUMBER = re.compile(r"_(\d{5,})$")


@dataclass
class Experiment:
    """The script's experiment, as the driver sees it."""

    began: bool = False


@dataclass(frozen=True)
class TrialContext:
    """The data that a trial's actor needs: the run, and the driver's environment for it."""

    address: RunAddress
    env: dict[str, str]
    gpus: tuple[str, ...] = ()
    gpu_type: str | None = None


def intercept_tuner(plan: Plan, directory: RunDirectory, journal: Journal) -> Experiment:
    """Watch every trial of the script's `Tuner`, and record their number."""
    experiment, actor_context = Experiment(), _build_context(plan)
    construct, run = tune.Tuner.__init__, tune.Tuner.fit

    def init(tuner: Any, trainable: Any = None, **settings: Any) -> None:
        if experiment.began:
            raise UsageError("the script makes a second Tuner; chaos watches one per script")
        if not callable(trainable) or isinstance(trainable, type):
            raise UsageError(
                f"the Tuner is given {trainable!r}, and chaos can watch a function alone",
                "Give it the function that makes the trainer and calls its fit().",
            )
        experiment.began = True
        settings["run_config"] = _isolate_storage(
            settings.get("run_config"), directory, actor_context
        )
        construct(tuner, _wrap_trainable(trainable, actor_context), **settings)

    @functools.wraps(run)
    def fit(tuner: Any) -> Any:
        results = run(tuner)
        journal.add(ExperimentEnded(trials=len(results)))
        return results

    tune.Tuner.__init__, tune.Tuner.fit = init, fit
    return experiment


def _build_context(plan: Plan) -> TrialContext:
    ray_env = {name: value for name, value in os.environ.items() if name.startswith("RAY_TRAIN_")}
    return TrialContext(
        RunAddress.from_env(), {**ray_env, **plan.job.env}, visible_gpus(), gpu_type()
    )


def _isolate_storage(run_config: Any, directory: RunDirectory, actor_context: TrialContext) -> Any:
    """Return Tune's settings, with a folder for its results that only this run uses."""
    settings = tune.RunConfig() if run_config is None else copy.copy(run_config)
    path, run_folder = str(settings.storage_path), f"chaos-{actor_context.address.token}"
    if "://" in path:
        settings.storage_path = join_uri(path, run_folder)
    elif settings.storage_filesystem is not None:
        settings.storage_path = f"{path.rstrip('/')}/{run_folder}"
    else:
        settings.storage_path = str(directory.storage.resolve() / ".tune")
    return settings


def _wrap_trainable(
    trainable: Callable[..., Any], actor_context: TrialContext
) -> Callable[..., Any]:
    """Return a trainable that is watched, with the attributes that Tune has set on the original."""

    @functools.wraps(trainable)
    def run_trial(config: dict[str, Any]) -> Any:  # what the trainable gives
        return _live_as_trial(functools.partial(trainable, config), actor_context)

    return run_trial


def _live_as_trial(trainable: Callable[[], Any], actor_context: TrialContext) -> Any:
    """Run a trainable in its actor, as the run under test or as a trial beside it."""
    number = trial_number(str(tune.get_context().get_trial_id()))
    directory = RunDirectory(actor_context.address.directory)
    plan, address = directory.load_plan(), actor_context.address
    if number != plan.job.trial:
        # The trials beside are watched, and have neither faults nor an address to ask for any: that
        # they came through is a finding about the trial under test, whose loss is not to reach
        # them.
        plan = plan.replace(ops=(), slug=f"{plan.slug}-trial-{number}")
        directory = create_run(directory.trials, str(number), plan, {})
        address = RunAddress(Path(directory.path), address.token, "none:")
    os.environ.update(actor_context.env)
    os.environ.update(address.build_variables())
    journal = open_driver_journal(directory.journals, SystemClock())
    fit = FitWrapper(
        lambda: RunPart(plan, directory, journal, actor_context.gpus, actor_context.gpu_type)
    )
    fit.intercept()
    try:
        result = trainable()
    finally:
        fit.release()
    if fit.run is None:
        message = f"trial {number} ended without calling trainer.fit()"
        journal.add(ScriptRaised(error="NoFit", message=message))
    return result


def trial_number(trial_id: str) -> int:
    """Return a trial's number in the order in which Tune made it, from its id (`1d6d2_00003`)."""
    match = _NUMBER.search(trial_id)
    if match is None:
        raise UsageError(
            f"trial {trial_id} has no number: its search algorithm makes trials as others end",
            "Use grid or random search, whose trials are the same in every run.",
        )
    return int(match[1])
