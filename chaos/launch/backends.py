"""The choice of a backend by its name, imported only then: the import of Ray takes a second."""

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import cast, get_args

from chaos.errors import MissingExtraError
from chaos.launch.cluster_extension import load_cluster_extension
from chaos.model.launcher import DEFAULT_LAUNCHER, LAUNCHER_FACTS, Launcher
from chaos.model.plan import BackendName, Plan, PlanBackend
from chaos.plan.permissions import Permissions
from chaos.run.directory import RunDirectory
from chaos.run.machine import has_ray
from chaos.run.ports import Announcer, Backend, OpenBackend, ScriptBackend, ShowEntries


class LauncherBackends(OpenBackend):
    """The backends of several launchers' jobs, but for Ray Train's opened as the first comes."""

    def __init__(self, announcer: Announcer, ray_backend: OpenBackend | None = None) -> None:
        self._announcer = announcer
        self._backends: dict[Launcher, OpenBackend] = (
            {} if ray_backend is None else {DEFAULT_LAUNCHER: ray_backend}
        )

    def close(self) -> None:
        with contextlib.ExitStack() as closing:  # each is ended, even if the end of one raises
            for backend in self._backends.values():
                closing.callback(backend.close)

    def execute(self, plan: Plan, directory: RunDirectory, show: ShowEntries) -> None:
        launcher = plan.job.launcher
        if launcher not in self._backends:
            self._backends[launcher] = open_launcher(launcher, self._announcer)
        self._backends[launcher].execute(plan, directory, show)


def open_backend(
    name: PlanBackend,
    announcer: Announcer,
    permissions: Permissions | None = None,
) -> OpenBackend:
    """Return a backend as a context manager; warn if Ray's version is an untested one.

    Jobs of other launchers than Ray Train have backends of their own, and the name of one stands
    for all of these: Ray is then not imported. Nor is it where it is not installed, and the harness
    refuses Ray Train's jobs by name. `permissions` are those for clusters that chaos did not start.
    """
    if name not in get_args(BackendName) or not has_ray():
        return LauncherBackends(announcer)
    return LauncherBackends(
        announcer,
        _open_ray_backend(cast("BackendName", name), announcer, permissions),
    )


def _open_ray_backend(
    name: BackendName, announcer: Announcer, permissions: Permissions | None
) -> OpenBackend:
    _prepare_ray(announcer)
    if name == "fork":
        return _open_scripts(DEFAULT_LAUNCHER)
    from chaos.launch.ray.backend import RayBackend

    return RayBackend(permissions, announcer.say)


def open_launcher(launcher: Launcher, announcer: Announcer) -> ScriptBackend:
    """Return the embedded backend of a launcher's jobs; others may share its start of a script."""
    if launcher == DEFAULT_LAUNCHER:
        _prepare_ray(announcer)
    return _open_scripts(launcher)


def _open_scripts(launcher: Launcher) -> ScriptBackend:
    backend: ScriptBackend = LAUNCHER_FACTS[launcher].open_scripts()
    return backend


def open_lanes(
    address: str, *, workers: int, lanes_max: int, check: Callable[[Backend], None]
) -> AbstractContextManager[list[Backend]]:
    """Return embedded backends on the nodes of a running cluster; `check` is called with each."""
    require_ray("--address")
    extension = load_cluster_extension("--address")
    return extension.open_lanes(address, workers=workers, lanes_max=lanes_max, check=check)


def require_ray(feature: str) -> None:
    """Raise `MissingExtraError` where Ray is not installed."""
    if not has_ray():
        raise MissingExtraError.from_package(feature, "Ray", "ray")


def _prepare_ray(announcer: Announcer) -> None:
    require_ray("a job of Ray Train's")
    with _speed_up_metrics():
        from chaos.launch.ray import compat

    warning = compat.untested_version()
    if warning:
        announcer.warn(warning)


@contextlib.contextmanager
def _speed_up_metrics() -> Iterator[None]:
    """Send this process's metrics ten times as often as Ray's processes do.

    Ray 2.60 reads the variable as it is imported. It is unset then: no child gets it.
    """
    name = "RAY_metrics_report_interval_ms"
    is_unset = name not in os.environ
    if is_unset:
        os.environ[name] = "1000"
    try:
        yield
    finally:
        if is_unset:
            del os.environ[name]
