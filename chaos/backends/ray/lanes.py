"""Lanes on the nodes of a running cluster: an embedded backend in an actor each.

Such a lane injects faults into forked workers of its own, never into the cluster: for Ray it is one
actor that computes. Its node needs the script and its packages at the same paths as this machine.
"""

import contextlib
import itertools
import math
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import ray
from ray.exceptions import RayActorError

from chaos.backends.fork.backend import ForkBackend
from chaos.backends.ray.existing.cluster import connect
from chaos.errors import ClusterError
from chaos.model.plan import Plan
from chaos.run import apart, leavings
from chaos.run.directory import RunDirectory
from chaos.run.ports import Backend, Show

READY_S = 60.0
TRIES = 3
Files: TypeAlias = Mapping[str, bytes]
Check: TypeAlias = Callable[[Backend], None]


class Lane:
    """What runs in an actor: it executes plans one after the other, in the environment of its node."""

    def __init__(self, audit: str, token: str, number: int) -> None:
        for name in (name for name in list(os.environ) if _is_rays(name)):
            del os.environ[name]
        self._sees = apart.sees(Path(audit), token)
        self._folder = leavings.named(f"chaos-lane-{token}-{number}")
        if not self._sees:
            leavings.hold(self._folder)
            leavings.attend(self._folder)
        self._backend = ForkBackend()

    def is_ready(self) -> bool:
        """Return True, once the actor runs."""
        return True

    def execute(self, text: str, path: str, given: Files) -> Files:
        """Execute a plan; return the run's files, none if the harness sees its directory."""
        plan, show = Plan.model_validate_json(text), _ignore
        if self._sees:
            self._backend.execute(plan, RunDirectory(Path(path)), show)
            return {}
        folder = self._folder / "run"
        directory = apart.unpack(given, folder)
        if plan.confined is not None:
            confined = plan.confined.model_copy(update={"folder": str(folder)})
            plan = plan.model_copy(update={"confined": confined})
        try:
            self._backend.execute(plan, directory, show)
            return packed(directory)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


_Actor = ray.remote(max_restarts=0)(Lane)


def _is_rays(name: str) -> bool:
    """Return whether Ray 2.60 has set a variable for its worker, which the job is not."""
    return name.startswith("RAY_") or name == "OMP_NUM_THREADS"


def _ignore(entries: object) -> None:
    del entries


def packed(directory: RunDirectory) -> Files:
    """Return the files of a run that are read after it, by their paths in its directory."""
    folders = (directory.journals, directory.logs, directory.saves)
    files = (file for folder in folders for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(directory.path)): file.read_bytes() for file in files}


class RemoteLane:
    """A backend in an actor. If its process or its node is lost, a new one starts elsewhere.

    `check` is called with every new one before it is used; it raises if that node cannot be used.
    """

    def __init__(self, start: Callable[[], Any], check: Check) -> None:
        self._start, self._check = start, check
        self._actor: Any = None
        self._is_closed = False

    def execute(self, plan: Plan, directory: RunDirectory, show: Show) -> None:
        """Execute a plan on a node; raises `ClusterError` if three in a row are lost at it."""
        del show  # an audit shows runs, not events
        for _ in range(TRIES):
            try:
                if self._actor is None:
                    self._actor = self._start()
                    self._check(self)
                self._execute(plan, directory)
            except RayActorError:
                if self._is_closed:
                    raise
                self._actor = None
                directory.set_aside()
                shutil.rmtree(directory.path / "tried-before")
            else:
                return
        raise ClusterError(
            f"{TRIES} processes on the cluster were lost in a row, each as it made a run",
            "Look at the nodes' memory, or audit without --address.",
        )

    def _execute(self, plan: Plan, directory: RunDirectory) -> None:
        text, path = plan.model_dump_json(), str(directory.path)
        files = ray.get(self._actor.execute.remote(text, path, packed(directory)))
        apart.unpack(files, directory.path)

    def close(self) -> None:
        """End the actor, and with it all that it has forked."""
        self._is_closed = True
        actor, self._actor = self._actor, None
        if actor is not None and ray.is_initialized():
            ray.kill(actor)


@contextlib.contextmanager
def lanes_at(
    address: str, audit: Path, *, workers: int, most: int | None, check: Check
) -> Iterator[list[Backend]]:
    """Return lanes on the free CPUs of a running cluster, at most so many; end them on leaving.

    A lane of a job with several workers takes half as many CPUs, as they wait for each other.
    Raises `ClusterError` if the cluster cannot be joined, or has no room.
    """
    connection = connect(address)
    lanes: list[RemoteLane] = []
    try:
        cpus = math.ceil(workers / 2) if workers > 1 else 0.5
        count = int(ray.available_resources().get("CPU", 0) // cpus)
        token, numbers = secrets.token_hex(4), itertools.count()
        apart.leave_mark(audit, token)

        def start(cpus: float = 0) -> Any:  # noqa: ANN401 - an actor's handle has no type
            made = _Actor.options(num_cpus=cpus, scheduling_strategy="SPREAD")
            return made.remote(str(audit), token, next(numbers))

        actors = [start(cpus) for _ in range(count if most is None else min(count, most))]
        ready = _ready(actors)
        for actor in set(actors) - set(ready):
            ray.kill(actor)
        if not ready:
            raise ClusterError(
                f"the cluster at {address} has no room: a run takes {cpus:g} free CPUs of one node",
                "Wait until it has, or audit without --address.",
            )
        lanes += [RemoteLane(partial(_given_or_new, [actor], start), check) for actor in ready]
        yield list(lanes)
    finally:
        for lane in lanes:
            lane.close()
        apart.remove_mark(audit)
        connection.close()


def _ready(actors: list[Any]) -> list[Any]:
    """Return the actors that have started within a minute."""
    asked = {actor.is_ready.remote(): actor for actor in actors}
    if not asked:
        return []
    done, _ = ray.wait([*asked], num_returns=len(asked), timeout=READY_S)
    return [asked[reference] for reference in done]


def _given_or_new(given: list[Any], start: Callable[[], Any]) -> Any:  # noqa: ANN401
    """Return the actor that was started beforehand; later ones need no free CPUs."""
    return given.pop() if given else start()
