"""The wrapper of every Ray Train trainer's `fit()`: configures it, records it, and calls it."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import uuid4

from chaos.declaration import TOKEN_ENV
from chaos.errors import LocalModeError, RefusalError, raise_when_called
from chaos.launch.job import describe_script_line
from chaos.launch.raytrain import compat
from chaos.launch.raytrain.bucket import RemoteStorage, hide_keys, join_uri, save_remote_storage
from chaos.launch.raytrain.observer import convert_value
from chaos.launch.raytrain.trainer import (
    build_cpu_settings,
    build_fitting_settings,
    build_gloo_settings,
    check_resources,
)
from chaos.model.event import LATER_FIT, FitCalled, FitRaised, FitReturned, ScriptRaised
from chaos.model.plan import Op, Plan
from chaos.probe.address import find_metadata_variables
from chaos.probe.gradient_buckets import has_varying_sums
from chaos.probe.write_ledger import mark_training_begin
from chaos.registry import EXTENSIONS_ENV, EXTENSIONS_OFF
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal
from chaos.run.record_file import read_small_file


@dataclass(frozen=True)
class RunPart:
    """The run of a `fit()`, as far as the driver needs it."""

    plan: Plan
    directory: RunDirectory
    journal: Journal
    #: the ids of the GPUs for its workers; None: they train on the CPU, even if they ask for GPUs
    gpus: tuple[str, ...] | None = None
    #: that of all of them, in Ray's terms
    gpu_type: str | None = None


class LaterFitExit(SystemExit):
    """The script called `fit()` once more after the watched one returned: the script ends there.

    A further training would get no fault and no verdict, and may take as long as the first.
    """


_RAY_NAME_PREFIX = "ray_train_run-"
Train: TypeAlias = Callable[[Any], Any]  # a trainer's own `fit`
Configure: TypeAlias = Callable[[Any, RunPart], None]


EarlierFit: TypeAlias = Callable[[Any, Train, Configure], Any]


def train_unchanged(trainer: Any, fit: Train, configure: Configure) -> Any:
    """Train without any change of the trainer."""
    del configure
    return fit(trainer)


class FitWrapper:
    """The replacement of `fit()` in the class that all trainers share.

    `begin` is called when the script calls `fit()` for the `number`-th time, and
    returns the run of this call: a driver has one; a zygote forks here, once per
    run. `first_driver` executes the calls before. Where the watched call raises and the script
    calls `fit()` again, that is a retry of its own: the next attempts of the same run.
    """

    def __init__(
        self,
        begin: Callable[[], RunPart],
        *,
        number: int = 1,
        earlier: EarlierFit = train_unchanged,
    ) -> None:
        self._begin = begin
        self._earlier = earlier
        self._earlier_runs: list[Any] = []
        self._remaining_calls = number - 1
        self._has_returned = False
        self._configured: list[tuple[Any, dict[str, Any]]] = []
        self._replaced: dict[str, Any] = {}
        self._storage = ""
        self._original: Callable[[Any], Any] | None = None
        self.run: RunPart | None = None
        self.raised: BaseException | None = None

    def intercept(self, *, in_trials: bool = False) -> None:
        """Replace `fit` by this. `in_trials`: Tune calls it, in processes of its own."""
        base = compat.trainer_class()
        self._original = fit = base.fit
        base.fit = lambda trainer: self._fit(trainer, fit)
        _replace_tune(allows_tuner=in_trials)

    def release(self) -> None:
        """Restore `fit`: the process may be used for another trial, with its own `FitWrapper`."""
        compat.trainer_class().fit = self._original

    def _configure(self, trainer: Any, part: RunPart) -> None:
        run, scaling, job = trainer.run_config, trainer.scaling_config, part.plan.job
        if not part.plan.follows_script:
            self._replace(scaling, "num_workers", job.num_workers)
        if job.failure is not None and not job.restarts_by_command:
            self._replace(run.failure_config, "max_failures", job.failure.max_failures)
            limit = job.failure.max_preemption_failures
            self._replace(run.failure_config, "max_preemption_failures", limit)
        if job.checkpoint is not None:
            self._replace_all(run.checkpoint_config, job.checkpoint.model_dump())
        if not self._is_configured(run):
            self._configure_run(run, part)
        # Ray 2.60 caches the context for the script's own path, and would store there.
        vars(run).pop("storage_context", None)
        _mark_workers(run, {**find_metadata_variables(), **job.env})
        self._configure_resources(trainer, part)

    def _is_configured(self, run: Any) -> bool:
        """Return whether a retry passes on what an earlier call has set, name and storage."""
        return any(
            run is configured_run
            and all(getattr(run, name) == value for name, value in settings.items())
            for configured_run, settings in self._configured
        )

    def _configure_run(self, run: Any, part: RunPart) -> None:
        if is_storage_redirected(run, part.plan):
            self._replace(run, "storage_filesystem", None)
        self._replace(run, "storage_path", _choose_storage_path(run, part))
        self._replace(run, "name", _choose_name(run, part))
        self._storage = _configure_storage(run, part)
        settings = {name: getattr(run, name) for name in ("name", "storage_path")}
        self._configured.append((run, settings))

    def _configure_resources(self, trainer: Any, part: RunPart) -> None:
        """Set the workers' resources to those of the plan; with GPUs, refuse what does not fit."""
        scaling = trainer.scaling_config
        if part.gpus is None:
            self._replace_all(scaling, build_cpu_settings(scaling))
            self._replace_all(trainer.backend_config, build_gloo_settings(trainer.backend_config))
            needs = compat.resources_per_worker(scaling)
            self._replace_all(scaling, build_fitting_settings(scaling, needs, part.plan.shape))
        else:
            check_resources(scaling, part.plan, part.gpus, part.gpu_type)

    def _replace_all(self, config: Any, values: dict[str, Any]) -> None:
        for name, value in values.items():
            self._replace(config, name, value)

    def _replace(self, config: Any, name: str, value: Any) -> None:
        original = getattr(config, name)
        if original != value:
            plain_original = convert_value(original)
            self._replaced.setdefault(
                name,
                hide_keys(plain_original) if isinstance(plain_original, str) else plain_original,
            )
            setattr(config, name, value)

    def _fit(self, trainer: Any, fit: Callable[[Any], Any]) -> Any:
        # Four kinds of calls, told apart by order alone: those before the watched one (`number`),
        # the watched one, the script's own retries of it after it raised, and any after it
        # returned.
        if self.run is not None:
            if not self._has_returned:
                return self._run_watched(trainer, fit, self.run)
            message = f"fit() was called once more{describe_script_line()}"
            self.run.journal.add(ScriptRaised(error=LATER_FIT, message=message))
            raise LaterFitExit
        if self._remaining_calls:
            self._remaining_calls -= 1
            self._earlier_runs.append(trainer.run_config)
            return self._earlier(trainer, fit, self._configure)
        if any(
            _continues_run(trainer.run_config, earlier_run) for earlier_run in self._earlier_runs
        ):
            raise RefusalError(
                "the fit() that is watched goes on with an earlier one, by its run name "
                f"{trainer.run_config.name}; each run of chaos has a name of its own",
                "Have the script pass the earlier result's checkpoint on, or watch that one.",
            )
        self.run = self._begin()
        mark_training_begin()
        return self._run_watched(trainer, fit, self.run)

    def _run_watched(self, trainer: Any, fit: Train, part: RunPart) -> Any:
        run, scaling = trainer.run_config, trainer.scaling_config
        if not self._is_configured(run):
            self._replaced = {}
        self._configure(trainer, part)
        if scaling.num_workers == 0:
            raise LocalModeError.create()
        if "Torch" in type(trainer).__name__ and has_varying_sums(scaling.max_workers):
            self._replaced["ddp_rebuilds_buckets"] = True
        part.journal.add(
            FitCalled(
                trainer=type(trainer).__name__,
                workers=scaling.max_workers,
                run_name=run.name,
                storage_path=self._storage,
                settings=_settings(trainer),
                original_settings=self._replaced,
            )
        )
        try:
            result = fit(trainer)
        except BaseException as error:
            self.raised = error
            part.journal.add(FitRaised(error=type(error).__name__, message=str(error)[:4000]))
            raise
        self._has_returned = True
        metrics = {key: convert_value(value) for key, value in (result.metrics or {}).items()}
        # Not by the storage context of `run`: on a cluster that is the controller's, and one made
        # here would write to storage, which this host may not even reach.
        checkpoint = compat.checkpoint_name(result.checkpoint, result.path)
        part.journal.add(FitReturned(metrics=metrics, checkpoint=checkpoint))
        return result


def _replace_tune(*, allows_tuner: bool) -> None:
    """Replace the functions of Tune that call `fit()` in another process: they raise."""
    from ray import tune

    tune.run = tune.run_experiments = raise_when_called(_build_tune_error)
    if not allows_tuner:
        tune.Tuner.fit = tune.run


def _build_tune_error(*_: object, **__: object) -> RefusalError:
    return RefusalError(
        "the script runs trials of Ray Tune, which call fit() in actors; chaos injects faults "
        "into one of them where the scenario names it, on a cluster",
        "Set job.trial (0 is the first one) and use the backend `ray`, or test one trial's "
        "trainer alone: a script that calls its fit() itself, with that trial's settings.",
    )


def _continues_run(run: Any, earlier: Any) -> bool:  # two RunConfigs
    """Return whether a run finds the checkpoints of an earlier one.

    Ray 2.60 names a run by the second if the script does not. Two runs with the same
    such name are different, unless they share one configuration object.
    """
    if run is earlier:
        return True
    has_same_name = (str(run.storage_path), run.name) == (str(earlier.storage_path), earlier.name)
    return has_same_name and not str(run.name).startswith(_RAY_NAME_PREFIX)


def _choose_name(run: Any, part: RunPart) -> str:
    """Return a name for the run: another one where the script's own is not that of its first start.

    Storage is found by it, so a script that is named anew at each start finds nothing.
    """
    # Chaos's name is one for all starts of a run, since storage is found by it. To give it to a
    # script that names its runs anew at each start (by a job's id of a scheduler, say) would let
    # that one resume where in production it finds nothing.
    chaos_name, script_name = f"{part.plan.slug}-{os.environ[TOKEN_ENV]}", str(run.name)
    name_file = part.directory.path / "run-name"
    if not name_file.exists():
        name_file.write_text(script_name, encoding="utf-8")
        return chaos_name
    is_named = not script_name.startswith(_RAY_NAME_PREFIX)
    is_same = is_named and read_small_file(name_file).decode() == script_name
    return chaos_name if is_same else f"{chaos_name}-{uuid4().hex[:8]}"


def is_storage_redirected(run: Any, plan: Plan) -> bool:
    """Return whether the run's folder replaces storage elsewhere, as in an audit."""
    is_elsewhere = run.storage_filesystem is not None or "://" in str(run.storage_path)
    return is_elsewhere and plan.confined is not None and not plan.confined.keeps_storage


def _choose_storage_path(run: Any, part: RunPart) -> str:
    """Return the run's own folder in remote storage, of the script or the scenario, or locally."""
    requested, folder_name = part.plan.shape.storage or "", f"chaos-{os.environ[TOKEN_ENV]}"
    if is_storage_redirected(run, part.plan):
        return str(part.directory.storage.resolve())
    if "://" in requested:
        return join_uri(requested, folder_name)
    if run.storage_filesystem is not None:
        return f"{str(run.storage_path).rstrip('/')}/{folder_name}"
    if "://" in str(run.storage_path):
        return join_uri(str(run.storage_path), folder_name)
    marker = part.directory.path / "storage-apart"
    if marker.exists():
        raise RefusalError(
            f"the job keeps its checkpoints on a local disk ({run.storage_path}), and not all "
            f"nodes ({read_small_file(marker).decode()}) see the run's directory",
            "Give cluster.storage, a folder or URI that every node reaches.",
        )
    return str(part.directory.storage.resolve())


def _configure_storage(run: Any, part: RunPart) -> str:
    """Replace the run's file system by one that can fail, if the plan has a storage fault.

    If storage is no local folder, the way to it is written for the harness. Returns the
    path of storage, without keys.
    """
    ops = part.plan.select_storage_ops(own_objects=False)
    path = str(run.storage_path)
    is_folder = run.storage_filesystem is None and "://" not in path
    if is_folder and not ops:
        return path
    from pyarrow.fs import FileSystem

    display_path, inner, folder = hide_keys(path), run.storage_filesystem, path
    if inner is None:
        inner, folder = FileSystem.from_uri(path)
    if not is_folder:
        save_remote_storage(part.directory, RemoteStorage(inner, folder, run.name, display_path))
    if ops:
        _wrap_storage(run, part, ops=ops, inner=inner, folder=folder)
    return display_path


def _wrap_storage(
    run: Any,
    part: RunPart,
    *,
    ops: tuple[Op, ...],
    inner: Any,  # a pyarrow file system
    folder: str,
) -> None:
    from chaos.launch.raytrain.wrapped.filesystem import FaultyFileSystem
    from chaos.probe.storage_faults import StorageSettings

    root = f"{folder.rstrip('/')}/{run.name}"
    layer = StorageSettings(part.directory.path, ops, root, compat.snapshot_name())
    run.storage_filesystem, run.storage_path = FaultyFileSystem(inner, layer), folder


def _mark_workers(run: Any, env: dict[str, str]) -> None:
    script_env = run.worker_runtime_env or {}
    chaos_env = {TOKEN_ENV: os.environ[TOKEN_ENV], EXTENSIONS_ENV: EXTENSIONS_OFF, **env}
    run.worker_runtime_env = {
        **script_env,
        "env_vars": {**script_env.get("env_vars", {}), **chaos_env},
    }


def _settings(trainer: Any) -> dict[str, Any]:
    run, scaling = trainer.run_config, trainer.scaling_config
    env = {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(("RAY_TRAIN_", "TORCH_"))
    }
    return {
        "train_loop_config": convert_value(trainer.train_loop_config or {}),
        "num_workers": convert_value(scaling.num_workers),
        "use_gpu": bool(scaling.use_gpu),
        "resources_per_worker": convert_value(compat.resources_per_worker(scaling)),
        "placement_strategy": str(scaling.placement_strategy),
        "max_failures": run.failure_config.max_failures,
        "max_preemption_failures": run.failure_config.max_preemption_failures,
        "num_to_keep": run.checkpoint_config.num_to_keep,
        "checkpoint_score_attribute": run.checkpoint_config.checkpoint_score_attribute,
        "checkpoint_score_order": run.checkpoint_config.checkpoint_score_order,
        "environment": env,
    }
