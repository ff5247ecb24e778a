"""The process that runs the user's script, or builds a trainer for a train loop.

`python -m chaos.backends.ray.driver RUN_DIRECTORY`. The script runs as
`__main__` with its own arguments, unchanged. What chaos must have different
is changed where the script meets Ray: storage path and run name are unique
per run, and what the scenario sets replaces what the script configures.
"""

import ctypes
import faulthandler
import importlib
import os
import runpy
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ray

from chaos.backends.ray import compat
from chaos.backends.ray.observer import plain_value
from chaos.backends.ray.settings import RUN_TOKEN_ENV
from chaos.model.event import FitCalled, FitRaised, FitReturned, ScriptRaised
from chaos.model.plan import Plan
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal

_PR_SET_PDEATHSIG = 1


def main(run_directory: str) -> int:
    """Run the job of a run directory's plan; gives the exit code."""
    _die_with_the_harness()
    directory = RunDirectory(Path(run_directory))
    plan = directory.load_plan()
    journal = Journal(directory.journals, "driver", role="driver", clock=SystemClock())
    stacks = (directory.logs / "stacks-driver.txt").open("w")
    faulthandler.register(signal.SIGUSR2, file=stacks, all_threads=True)
    fit = Fit(plan, directory, journal)
    fit.intercept()
    _keep_to_our_cluster()
    try:
        if plan.job.script is not None:
            _run_script(plan.job.script, plan.job.args)
        else:
            _run_train_loop(plan)
    except BaseException as error:
        if not _is_clean_exit(error):
            if error is not fit.raised:
                journal.add(ScriptRaised(error=type(error).__name__, message=str(error)[:2000]))
            raise
    if not fit.called:
        problem = "ended without calling trainer.fit()"
        journal.add(ScriptRaised(error="NoFit", message=problem))
        return 1
    return 0


class Fit:
    """Stands where every trainer's constructor and `fit()` meet Ray."""

    def __init__(self, plan: Plan, directory: RunDirectory, journal: Journal) -> None:
        self._plan = plan
        self._directory = directory
        self._journal = journal
        self._replaced: dict[str, Any] = {}
        self.called = False
        self.raised: BaseException | None = None

    def intercept(self) -> None:
        """Wrap the constructor and `fit` of the class that all trainers share."""
        base = compat.trainer_class()
        construct, fit = base.__init__, base.fit

        def __init__(trainer: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401, N807
            construct(trainer, *args, **kwargs)
            self._configure(trainer)

        base.__init__ = __init__
        base.fit = lambda trainer: self._fit(trainer, fit)

    def _configure(self, trainer: Any) -> None:  # noqa: ANN401
        run, scaling, job = trainer.run_config, trainer.scaling_config, self._plan.job
        self._replace(scaling, "num_workers", job.workers)
        if job.failure is not None:
            self._replace(run.failure_config, "max_failures", job.failure.max_failures)
            limit = job.failure.max_preemption_failures
            self._replace(run.failure_config, "max_preemption_failures", limit)
        if job.checkpoint is not None:
            for name, value in job.checkpoint.model_dump().items():
                self._replace(run.checkpoint_config, name, value)
        self._replace(run, "storage_path", self._storage_path(run))
        self._replace(run, "name", f"{self._plan.slug}-{os.environ[RUN_TOKEN_ENV]}")
        vars(run).pop("storage_context", None)  # cached from the path before ours (Ray 2.60)
        self._mark_workers(run)
        self._refuse_what_does_not_fit(scaling)

    def _replace(self, config: Any, name: str, value: Any) -> None:  # noqa: ANN401
        before = getattr(config, name)
        if before != value:
            self._replaced[name] = plain_value(before)
            setattr(config, name, value)

    def _storage_path(self, run: Any) -> str:  # noqa: ANN401
        """Keep remote storage where it is, below a folder of this run's own."""
        if run.storage_filesystem is not None or "://" in str(run.storage_path):
            return f"{str(run.storage_path).rstrip('/')}/chaos-{os.environ[RUN_TOKEN_ENV]}"
        return str(self._directory.storage)

    def _mark_workers(self, run: Any) -> None:  # noqa: ANN401
        env = run.worker_runtime_env or {}
        marks = {RUN_TOKEN_ENV: os.environ[RUN_TOKEN_ENV], **self._plan.job.env}
        run.worker_runtime_env = {**env, "env_vars": {**env.get("env_vars", {}), **marks}}

    def _refuse_what_does_not_fit(self, scaling: Any) -> None:  # noqa: ANN401
        shape, wants = self._plan.shape, compat.resources_per_worker(scaling)
        cpus = wants.pop("CPU", 0)
        unheld = {name: amount for name, amount in wants.items() if amount and name != "memory"}
        if cpus > shape.cpus_per_node or unheld:
            raise ValueError(
                f"a worker asks for {compat.resources_per_worker(scaling)}, a node of this "
                f"cluster has {shape.cpus_per_node} CPU; set cluster.cpus_per_node, or ask for less"
            )

    def _fit(self, trainer: Any, fit: Callable[[Any], Any]) -> Any:  # noqa: ANN401
        if self.called:
            raise RuntimeError("the script calls fit() a second time; chaos watches one per script")
        self.called = True
        run, scaling = trainer.run_config, trainer.scaling_config
        self._journal.add(
            FitCalled(
                trainer=type(trainer).__name__,
                workers=scaling.num_workers,
                run_name=run.name,
                storage_path=run.storage_path,
                settings=_settings(trainer),
                replaced=self._replaced,
            )
        )
        try:
            result = fit(trainer)
        except BaseException as error:
            self.raised = error
            self._journal.add(FitRaised(error=type(error).__name__, message=str(error)[:4000]))
            raise
        metrics = {key: plain_value(value) for key, value in (result.metrics or {}).items()}
        checkpoint = compat.checkpoint_name(result.checkpoint)
        self._journal.add(FitReturned(metrics=metrics, checkpoint=checkpoint))
        return result


def _settings(trainer: Any) -> dict[str, Any]:  # noqa: ANN401
    run, scaling = trainer.run_config, trainer.scaling_config
    env = {k: v for k, v in sorted(os.environ.items()) if k.startswith(("RAY_TRAIN_", "TORCH_"))}
    return {
        "train_loop_config": plain_value(trainer.train_loop_config or {}),
        "num_workers": scaling.num_workers,
        "use_gpu": bool(scaling.use_gpu),
        "resources_per_worker": plain_value(compat.resources_per_worker(scaling)),
        "placement_strategy": str(scaling.placement_strategy),
        "max_failures": run.failure_config.max_failures,
        "max_preemption_failures": run.failure_config.max_preemption_failures,
        "num_to_keep": run.checkpoint_config.num_to_keep,
        "checkpoint_score_attribute": run.checkpoint_config.checkpoint_score_attribute,
        "environment": env,
    }


def _run_script(script: str, args: Mapping[str, Any]) -> None:
    sys.argv = [script, *command_line(args)]
    sys.path.insert(0, str(Path(script).parent))
    runpy.run_path(script, run_name="__main__")


def command_line(args: Mapping[str, Any]) -> list[str]:
    """Spell a mapping as a command line: `{epochs: 4, fast: true}` is `--epochs 4 --fast`."""
    words: list[str] = []
    for name, value in args.items():
        if value is True:
            words.append(f"--{name}")
        elif isinstance(value, list | tuple):
            words += [f"--{name}", *map(str, value)]
        elif value is not False and value is not None:
            words += [f"--{name}", str(value)]
    return words


def _run_train_loop(plan: Plan) -> None:
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    # Ray passes the working directory and the folder of argv[0] on to its workers (Ray 2.60).
    sys.path[:0] = [plan.cwd, str(Path(plan.file).parent)]
    sys.argv = [plan.file]
    train_loop = _find(plan.job.source)
    trainer = TorchTrainer(
        train_loop,
        train_loop_config=dict(plan.job.args) or None,
        scaling_config=ScalingConfig(num_workers=plan.job.workers),
        run_config=RunConfig(),
    )
    trainer.fit()


def _find(source: str) -> Callable[..., Any]:
    module_name, _, name = source.partition(":")
    found: Any = importlib.import_module(module_name)
    for part in name.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{source} is not a function but {type(found).__name__}")
    train_loop: Callable[..., Any] = found
    return train_loop


def _keep_to_our_cluster() -> None:
    """Refuse a script that insists on another cluster than the one under test."""
    connect = ray.init
    ours = os.environ["RAY_ADDRESS"]

    def init(address: str | None = None, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        if address not in (None, "auto", ours):
            raise RuntimeError(
                f"the script calls ray.init(address={address!r}); chaos runs it on a cluster of "
                f"its own. Call ray.init() without an address, which follows RAY_ADDRESS"
            )
        for sized in ("num_cpus", "num_gpus", "resources", "object_store_memory"):
            if kwargs.pop(sized, None) is not None:
                os.write(2, f"chaos: ray.init({sized}=...) is the scenario's to say\n".encode())
        return connect(ours, *args, **kwargs)

    ray.init = init


def _is_clean_exit(error: BaseException) -> bool:
    return isinstance(error, SystemExit) and error.code in (None, 0)


def _die_with_the_harness() -> None:
    """Ask the kernel to end this process when its parent ends, even by SIGKILL."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
