"""Lanes on the nodes of a running cluster: an embedded backend in an actor each.

Such a lane injects faults into forked workers of its own, never into the cluster: to Ray it is an
actor that computes. Its node needs chaos, and the script with its packages and data at the same
paths as this machine.
"""

import contextlib
import itertools
import math
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import ray
from ray.exceptions import RayError, RayTaskError

from chaos.errors import ClusterError
from chaos.extensions.cluster.existing.cluster import connect
from chaos.launch.forked.backend import ForkBackend
from chaos.model.history import HISTORY, Baseline
from chaos.model.plan import Plan
from chaos.run import held_folders, remote_files
from chaos.run.clock import SystemClock, elapsed_seconds
from chaos.run.directory import VERDICT, RunDirectory
from chaos.run.ports import Backend, Judge, R, ShowEntries, W

READY_S = 60.0
END_S = 5.0
# Processes in a row that are lost as they make one and the same run: the run is then the reason.
TRIES = 3
THREADS_ENV = "OMP_NUM_THREADS"  # Ray 2.60 sets it for an actor by the actor's CPUs
Files: TypeAlias = Mapping[str, bytes]
Check: TypeAlias = Callable[[Backend], None]


class JudgeRequest(NamedTuple):
    """The request that a run be judged where it was executed; see `JudgingBackend`."""

    judge: Judge[Any, Any]
    #: a reference to the baseline
    baseline: Any
    words: Any


class LaneActor:
    """The content of an actor: it executes plans one after the other, in a folder of its own.

    The environment is that of its node, without what Ray sets for a worker. `threads` is the
    harness's own number of threads, if it sets one. `fetch` returns the baseline of a reference.
    """

    def __init__(
        self, name: str, threads: str | None, fetch: Callable[[Any], Baseline] = ray.get
    ) -> None:
        # A run in here starts scripts and Ray Train of its own. With Ray's variables they would
        # take the cluster of this actor for theirs, and with its number of threads sums would be
        # those of another machine.
        for variable in [*os.environ]:
            if variable.startswith("RAY_") or variable == THREADS_ENV:
                del os.environ[variable]
        if threads is not None:
            os.environ[THREADS_ENV] = threads
        self._folder = held_folders.build_path(name)
        held_folders.hold(self._folder)
        held_folders.start_attendant(self._folder)
        self._backend = ForkBackend()
        self._fetch = fetch
        self._cached_baseline: tuple[Any, Baseline] | None = None

    def is_ready(self) -> bool:
        return True

    def execute(
        self, run_files: Files, judge_request: "JudgeRequest | None" = None
    ) -> tuple[Files, Any]:
        """Execute the plan among the files of a run, and have it judged if that is asked for.

        Returns the files that it has written, and what the judge returns.
        """
        folder, clock = self._folder / "run", SystemClock()
        directory, start = remote_files.unpack_files(run_files, folder), clock.now_ns()
        try:
            with held_folders.bind_processes(self._folder):
                self._backend.execute(directory.load_plan(), directory, lambda _: None)
            # What the run has written travels as the answer, and not by a shared folder: nodes
            # share none.
            if judge_request is None:
                return _load_folders(
                    folder, directory.journals, directory.logs, directory.save_records
                ), None
            seconds, baseline = (
                elapsed_seconds(start, clock),
                self._get_baseline(judge_request.baseline),
            )
            judgement = judge_request.judge(directory, seconds, baseline, judge_request.words)
            # The history has what the journals have, and no judgement is of the saves.
            report_files = [folder / HISTORY, folder / VERDICT]
            return _load_files(folder, report_files) | _load_folders(
                folder, directory.logs
            ), judgement
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _get_baseline(self, reference: Any) -> Baseline:
        # One object for many runs, as what is computed of it alone is kept with it.
        if self._cached_baseline is None or self._cached_baseline[0] != reference:
            self._cached_baseline = reference, self._fetch(reference)
        return self._cached_baseline[1]

    def end(self) -> None:
        """End all that was forked, and remove the folder."""
        self._backend.close()
        held_folders.remove(self._folder)


_Actor = ray.remote(max_restarts=0)(LaneActor)


def _load_folders(root: Path, *folders: Path) -> dict[str, bytes]:
    return _load_files(root, (file for folder in folders for file in folder.rglob("*")))


def _load_files(root: Path, files: Iterable[Path]) -> dict[str, bytes]:
    """Return the content of the files, by their paths below a folder."""
    return {str(file.relative_to(root)): file.read_bytes() for file in files if file.is_file()}


class BaselineStore:
    """The baseline in Ray's store: sent once for all lanes, and again only if there is another."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._baselines: tuple[Baseline, Any] | None = None

    def get_reference(self, baseline: Baseline) -> Any:
        with self._lock:
            if self._baselines is None or self._baselines[0] is not baseline:
                self._baselines = baseline, ray.put(baseline)
            return self._baselines[1]


class RemoteLane:
    """A backend in an actor. If its process or its node is lost, a new one starts elsewhere.

    `check` is called with this lane for every new actor; it raises if the node cannot be used.
    """

    def __init__(self, start: Callable[[], Any], check: Check, baselines: BaselineStore) -> None:
        self._start, self._check, self._baselines = start, check, baselines
        self._lock = Lock()
        self._actor: Any = None
        self._is_checking = self._is_closed = self._is_running = False

    def execute(self, plan: Plan, directory: RunDirectory, show: ShowEntries) -> None:
        """Execute a plan on a node; raises `ClusterError` if three in a row are lost at it."""
        del plan, show  # the plan is in the directory, and an audit shows runs, not events
        self._execute(directory, None)

    def execute_and_judge(
        self, directory: RunDirectory, judge: Judge[W, R], baseline: Baseline, words: W
    ) -> R:
        """Execute a plan on a node, and judge it there; raises `ClusterError` as `execute` does."""
        reference = self._baselines.get_reference(baseline)
        judgement: R = self._execute(directory, JudgeRequest(judge, reference, words))
        return judgement

    def _execute(self, directory: RunDirectory, judge_request: JudgeRequest | None) -> Any:
        # The check makes runs on this very lane. A process that is lost there must not be replaced
        # from within: the new one would have to be checked in turn, and the count of tries begin
        # anew.
        if self._is_checking:
            return self._execute_remotely(directory, judge_request)
        last_error: RayError | None = None
        for _ in range(TRIES):
            try:
                if self._actor is None:
                    self._begin()
                return self._execute_remotely(directory, judge_request)
            except RayTaskError as error:
                raise error.cause from error  # what went wrong in the lane, as it would here
            except RayError as error:
                if self._is_closed:
                    raise
                self._end()
                last_error = error
        raise ClusterError(
            f"{TRIES} processes on the cluster were lost in a row, each as it made a run: "
            f"{last_error}",
            "Look at the nodes' memory, and whether chaos is installed there; or audit without "
            "--address.",
        )

    def _begin(self) -> None:
        with self._lock:
            if self._is_closed:
                raise ClusterError("the audit was broken off")
            self._actor = self._start()
        self._is_checking = True
        try:
            self._check(self)
        finally:
            self._is_checking = False

    def _execute_remotely(self, directory: RunDirectory, judge_request: JudgeRequest | None) -> Any:
        self._is_running = True
        try:
            answer = self._actor.execute.remote(remote_files.pack_files(directory), judge_request)
            files, judgement = ray.get(answer)
        finally:
            self._is_running = False
        remote_files.unpack_files(files, directory.path)
        return judgement

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        self._end()

    def _end(self) -> None:
        actor, self._actor = self._actor, None
        if actor is None or not ray.is_initialized():
            return
        if not self._is_running:  # else the audit is broken off, and `end` would wait for the run
            with contextlib.suppress(RayError):  # it is gone
                ray.get(actor.end.remote(), timeout=END_S)
        # At once, and not by an end that Ray waits for: a run that is broken off would go on on
        # someone else's cluster.
        ray.kill(actor)


@contextlib.contextmanager
def open_remote_lanes(
    address: str, *, workers: int, lanes_max: int, check: Check
) -> Iterator[list[Backend]]:
    """Return lanes on the free CPUs of a running cluster, at most so many; end them on leaving.

    A lane of a job with several workers takes half as many CPUs, as they wait for each other.
    Raises `ClusterError` if the cluster cannot be joined, or has no room.
    """
    cpus = math.ceil(workers / 2) if workers > 1 else 0.5
    token, numbers = secrets.token_hex(4), itertools.count()

    def start(cpus: float = 0) -> Any:  # an actor's handle has no type
        actor_class = _Actor.options(num_cpus=cpus, scheduling_strategy="SPREAD")
        return actor_class.remote(
            f"chaos-lane-{token}-{next(numbers)}", os.environ.get(THREADS_ENV)
        )

    with contextlib.ExitStack() as stack:
        stack.callback(connect(address).close)
        actors = _await_actors(
            [start(cpus) for _ in range(min(lanes_max, _count_free_lanes(cpus)))]
        )
        if not actors:
            raise ClusterError(
                f"the cluster at {address} has no room: a run takes {cpus:g} free CPUs of one node",
                "Wait until it has, or audit without --address.",
            )
        starters, sent_baselines = (
            [partial(_take_or_start, [actor], start) for actor in actors],
            BaselineStore(),
        )
        lanes = [RemoteLane(starter, check, sent_baselines) for starter in starters]
        for lane in lanes:
            stack.callback(lane.close)
        yield [*lanes]


def _count_free_lanes(cpus: float) -> int:
    """Return how many lanes of so many CPUs the nodes hold, and the free CPUs allow."""
    nodes = (node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"])
    free = ray.available_resources().get("CPU", 0)
    return min(sum(int(count // cpus) for count in nodes), int(free // cpus))


def _await_actors(actors: list[Any]) -> list[Any]:
    """Return the actors that have started within a minute; end the others.

    Raises `ClusterError` if one of them fails as it starts.
    """
    actor_by_answer = {actor.is_ready.remote(): actor for actor in actors}
    done, unanswered = (
        ray.wait([*actor_by_answer], num_returns=len(actor_by_answer), timeout=READY_S)
        if actor_by_answer
        else ([], [])
    )
    for reference in unanswered:
        ray.kill(actor_by_answer[reference])
    try:
        ray.get(done)
    except RayError as error:
        raise ClusterError(
            f"a process on the cluster did not start: {str(error).strip().splitlines()[-1]}",
            "Each node needs chaos, at the version of this machine.",
        ) from error
    return [actor_by_answer[reference] for reference in done]


def _take_or_start(ready_actors: list[Any], start: Callable[[], Any]) -> Any:
    """Return the actor that was started beforehand; later ones need no free CPUs."""
    return ready_actors.pop() if ready_actors else start()
