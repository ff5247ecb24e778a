"""The choice of a backend by its name, imported only then: the import of Ray takes a second."""

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from rich.console import Console
from rich.text import Text

from chaos.errors import MissingExtraError
from chaos.model.launcher import USUAL, Launcher
from chaos.model.plan import BackendName, Plan, PlanBackend
from chaos.plan.permitted import NodeFacts, Permissions
from chaos.run.directory import RunDirectory
from chaos.run.machine import has_ray
from chaos.run.ports import Backend, OpenBackend, Say, ScriptBackend, Show


class ByLauncher(OpenBackend):
    """The backends of several launchers' jobs, but for Ray Train's opened as the first comes."""

    def __init__(self, console: Console, rays: OpenBackend | None = None) -> None:
        self._console = console
        self._opened: dict[Launcher, OpenBackend] = {} if rays is None else {USUAL: rays}

    def close(self) -> None:
        with contextlib.ExitStack() as closing:  # each is ended, even if the end of one raises
            for opened in self._opened.values():
                closing.callback(opened.close)

    def execute(self, plan: Plan, directory: RunDirectory, show: Show) -> None:
        launcher = plan.job.launcher
        if launcher not in self._opened:
            self._opened[launcher] = open_launcher(launcher, self._console)
        self._opened[launcher].execute(plan, directory, show)


def open_backend(
    name: PlanBackend,
    console: Console,
    permissions: Permissions | None = None,
    *,
    prestart: bool = False,
) -> OpenBackend:
    """Return a backend as a context manager; warn if Ray's version is an untested one.

    Jobs of other launchers than Ray Train have backends of their own, and the name of one stands
    for all of these: Ray is then not imported. Nor is it where it is not installed, and the harness
    refuses Ray Train's jobs by name. `permissions` are those for clusters that chaos did not start.
    `prestart`: a local cluster's workers are started before they are needed.
    """
    if (name != "ray" and name != "fork") or not has_ray():  # noqa: PLR1714 - mypy narrows it
        return ByLauncher(console)
    return ByLauncher(console, _open_rays(name, console, permissions, prestart=prestart))


def _open_rays(
    name: BackendName, console: Console, permissions: Permissions | None, *, prestart: bool
) -> OpenBackend:
    say = _ready(console)
    if name == "fork":
        if prestart:
            say("--prestart-workers: off, forked workers have their imports done already")
        return _opened_by(USUAL)
    from chaos.launch.ray.backend import RayBackend

    return RayBackend(permissions, say, prestart=prestart)


def open_launcher(launcher: Launcher, console: Console) -> ScriptBackend:
    """Return the embedded backend of a launcher's jobs; others may share its start of a script."""
    if launcher == USUAL:
        _ready(console)
    return _opened_by(launcher)


def _opened_by(launcher: Launcher) -> ScriptBackend:
    """Call `open_scripts` of the launcher's folder; a job of Ray Train's is embedded in forks."""
    opened: ScriptBackend = _module("forked" if launcher == USUAL else launcher).open_scripts()
    return opened


def why_not_forked(launcher: Launcher, env: Mapping[str, str]) -> str | None:
    """Return why a command's workers cannot be forked in this environment, None if they can."""
    why: str | None = _module(launcher).why_not_forked(env)
    return why


def _module(folder: str) -> Any:
    return importlib.import_module(f"chaos.launch.{folder}.backend")


def open_lanes(
    address: str, *, workers: int, most: int, check: Callable[[Backend], None]
) -> AbstractContextManager[list[Backend]]:
    """Return embedded backends on the nodes of a running cluster; `check` is called with each."""
    refuse_without_ray("--address")
    from chaos.launch.ray.lanes import lanes_at

    return lanes_at(address, workers=workers, most=most, check=check)


def refuse_without_ray(who: str) -> None:
    """Raise `MissingExtraError` where Ray is not installed."""
    if not has_ray():
        raise MissingExtraError.of(who, "Ray", "ray")


def _ready(console: Console) -> Say:
    refuse_without_ray("a job of Ray Train's")
    with _sending_metrics_every_second():
        from chaos.launch.ray import compat

    def say(words: str) -> None:
        console.print(Text(words), soft_wrap=True)

    warning = compat.untested_version()
    if warning:
        console.print(Text.assemble(("warning: ", "yellow"), warning), soft_wrap=True)
    return say


@contextlib.contextmanager
def _sending_metrics_every_second() -> Iterator[None]:
    """Send this process's metrics ten times as often as Ray's processes do.

    Ray 2.60 reads the variable as it is imported. It is unset then: no child gets it.
    """
    name = "RAY_metrics_report_interval_ms"
    is_ours = name not in os.environ
    if is_ours:
        os.environ[name] = "1000"
    try:
        yield
    finally:
        if is_ours:
            del os.environ[name]


def nodes_at(address: str, launcher: Launcher = USUAL) -> list[NodeFacts]:
    """Return the nodes of a running cluster; raises `ClusterError` if none can be joined."""
    if launcher != USUAL:
        found: list[NodeFacts] = _module(launcher).nodes_at(address)
        return found
    refuse_without_ray("--address")
    from chaos.launch.ray.existing.cluster import connect, nodes

    connection = connect(address)
    try:
        return nodes()
    finally:
        connection.close()
