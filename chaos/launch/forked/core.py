"""Ray's core in small: references, actors and their calls, as far as Ray Train uses them.

An actor is either a forked process (the workers) or an object in the driver
(synchronization, preemption watcher, the controller itself). Calls return
references; a process that dies fails its open calls with Ray's own
`ActorDiedError`.
"""

import asyncio
import inspect
import os
import pickle
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from concurrent.futures import wait as wait_for_futures
from typing import Any

from ray import cloudpickle
from ray.exceptions import ActorDiedError, GetTimeoutError, RayError

from chaos.launch.node_disk import HEAD
from chaos.processes.wire import Wire


class WorkerDiedError(ActorDiedError):  # type: ignore[misc]
    """A worker's process has ended. `preempted` has Ray's meaning: its node was drained."""

    preempted = False  # in place of Ray's property

    def __init__(self, *, is_preempted: bool) -> None:
        super().__init__()
        self.preempted = is_preempted


class Context:
    """The part of `ray.get_runtime_context()` that Ray Train reads."""

    node_id = HEAD
    session = ""
    resources: dict[str, float] = {}  # noqa: RUF012 - the process's, as the two above
    current_actor: Any = None

    def get_node_id(self) -> str:
        return type(self).node_id

    def get_worker_id(self) -> str:
        return f"{os.getpid():056x}"

    def get_actor_id(self) -> str:
        return f"{os.getpid():032x}"

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """Return no accelerator: the embedded backend runs on the CPU."""
        return {}

    def get_job_id(self) -> str:
        return "01000000"


class Ref:
    """The stand-in for `ray.ObjectRef`: a value that may not be there yet."""

    def __init__(self, future: "Future[Any]") -> None:
        self.future = future

    def __reduce__(self) -> tuple[Callable[[Any], "Ref"], tuple[Any]]:
        """Pickle the value: an argument of a worker's method has its value already."""
        return put, (self.future.result(),)


def put(value: Any) -> Ref:  # any value
    """Return a reference to a value."""
    future: Future[Any] = Future()
    future.set_result(value)
    return Ref(future)


class StoredResult(Ref):
    """The result of `ray.put`: pickled at once, and only once, however often it is sent."""

    def __init__(self, value: Any) -> None:  # any value
        super().__init__(Future())
        self._pickled = dumps(value)
        self.future.set_result(value)

    def __reduce__(self) -> tuple[Callable[[Any], Ref], tuple[Any]]:
        """Pickle as the bytes that were made when the value was stored."""
        return _unpickled, (self._pickled,)


def _unpickled(pickled: bytes) -> Ref:
    return put(pickle.loads(pickled))  # noqa: S301 - our own bytes


def get(refs: Any, *, timeout: float | None = None) -> Any:  # as `ray.get`
    """Return the value of one reference or of a list; raise as soon as one of them has failed.

    `ray.get` does so too. Otherwise the driver would wait for a rank that waits
    for a dead one, as long as the time-out of their process group is.
    """
    if isinstance(refs, Ref):
        try:
            return refs.future.result(timeout)
        except FutureTimeoutError as error:
            if refs.future.done():
                raise  # the call itself raised a TimeoutError
            raise GetTimeoutError(f"no answer within {timeout} s") from error
    refs = list(refs)
    done, _ = wait_for_futures(
        [ref.future for ref in refs], timeout=timeout, return_when=FIRST_EXCEPTION
    )
    for future in done:
        if (failure := future.exception()) is not None:
            raise failure
    return [get(ref, timeout=0 if timeout is not None else None) for ref in refs]


def wait(
    refs: Sequence[Ref], *, num_returns: int = 1, timeout: float | None = None
) -> tuple[list[Ref], list[Ref]]:
    """Wait for all references, or for the first if `num_returns` is fewer; or until the time-out.

    Returns those that are there, and the others.
    """
    waits_for_all = num_returns >= len(refs)
    return_when = "ALL_COMPLETED" if waits_for_all else "FIRST_COMPLETED"
    wait_for_futures([ref.future for ref in refs], timeout=timeout, return_when=return_when)
    # One look at each: Ray loses a reference that ends between two looks, and is in neither list.
    are_done = [ref.future.done() for ref in refs]
    done = [ref for ref, is_done in zip(refs, are_done, strict=True) if is_done]
    return done, [ref for ref, is_done in zip(refs, are_done, strict=True) if not is_done]


class Method:
    """The `handle.method` of an actor, with `.remote()` and `.options()`."""

    def __init__(self, handle: Any, name: str) -> None:  # one of the handles below
        self._handle = handle
        self._name = name

    def remote(self, *args: Any, **kwargs: Any) -> Ref:
        ref: Ref = self._handle.call(self._name, args, kwargs)
        return ref

    def options(self, **_: Any) -> "Method":  # names of tasks and the like
        """Ignore options, which have no meaning here."""
        return self


class ObjectActor:
    """An actor that is an object in the driver; its calls run on one event loop."""

    all: dict[int, "ObjectActor"] = {}  # noqa: RUF012 - the process's registry, by number

    def __init__(self, instance: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._instance = instance
        self._loop = loop
        self.number = len(self.all)
        self.all[self.number] = self

    def __getattr__(self, name: str) -> Method:
        if name.startswith("__"):
            raise AttributeError(name)
        return Method(self, name)

    def __reduce__(self) -> tuple[Callable[[int], "DriverActor"], tuple[int]]:
        """Pickle as a handle, by which a worker calls back into the driver."""
        return DriverActor, (self.number,)

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Ref:
        async def run() -> Any:
            result = getattr(self._instance, name)(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result

        return Ref(asyncio.run_coroutine_threadsafe(run(), self._loop))

    def end(self) -> None:
        """Do nothing: the object ends with its driver."""


class DriverActor:
    """A worker's handle to an object in the driver."""

    ask_driver: Callable[[int, str, tuple[Any, ...], dict[str, Any]], Ref]

    def __init__(self, number: int) -> None:
        self._number = number

    def __getattr__(self, name: str) -> Method:
        if name.startswith("__"):
            raise AttributeError(name)
        return Method(self, name)

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Ref:
        return type(self).ask_driver(self._number, name, args, kwargs)


class ProcessActor:
    """The driver's handle to a forked worker."""

    def __init__(
        self,
        pid: int,
        wire: Wire,
        build_death_error: Callable[[], RayError],
        kill: Callable[[], None],
    ) -> None:
        self.pid = pid
        self._kill = kill
        self._wire = wire
        self._build_death_error = build_death_error
        # Three threads come here: the loop of Ray's controller calls, the listener settles, and a
        # callback of a driver's object answers. The lock guards the table of open calls alone, and
        # is not held while something is sent: the pipe may be full until the worker reads.
        self._lock = threading.Lock()
        self._open: dict[int, Future[Any]] = {}
        self._count = 0
        self._is_dead = False
        threading.Thread(target=self._listen, daemon=True, name=f"worker-{pid}").start()

    def __getattr__(self, name: str) -> Method:
        if name.startswith("_"):
            raise AttributeError(name)
        return Method(self, name)

    def __reduce__(self) -> tuple[Callable[[int], int], tuple[int]]:
        """Pickle as the pid: only the driver calls a worker."""
        return int, (self.pid,)

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Ref:
        # Registered before the send: if the worker dies in between, either the listener or this
        # call fails the future.
        future: Future[Any] = Future()
        with self._lock:
            number = self._count
            self._count += 1
            self._open[number] = future
        try:
            self._wire.send(("call", number, name, args, kwargs))
        except OSError:
            self._is_dead = True
        if self._is_dead:
            self._fail_open_calls()
        return Ref(future)

    def end(self) -> None:
        """Kill the process, as `ray.kill` does, unless it has ended by itself."""
        if not self._is_dead:
            self._kill()

    def _listen(self) -> None:
        try:
            while True:
                self._handle(self._wire.receive())
        except EOFError:
            self._is_dead = True
            self._fail_open_calls()
            self._wire.close()

    def _handle(self, message: tuple[Any, ...]) -> None:
        kind, number, *rest = message
        if kind == "reply":
            with self._lock:
                future = self._open.pop(number)
            set_outcome(future, *rest)
            return
        actor, name, args, kwargs = rest
        ref = ObjectActor.all[actor].call(name, args, kwargs)
        ref.future.add_done_callback(lambda done: self._answer(number, done))

    def _answer(self, number: int, future: "Future[Any]") -> None:
        error = future.exception()
        try:
            self._wire.send(("answer", number, error is None, error or future.result()))
        except OSError:
            return  # the worker is dead, and has no use for the answer

    def _fail_open_calls(self) -> None:
        # Taken out under the lock: the listener and a call that finds the connection broken may
        # both come here, and a future can be failed once.
        with self._lock:
            abandoned, self._open = self._open, {}
        for future in abandoned.values():
            future.set_exception(self._build_death_error())


def set_outcome(future: "Future[Any]", succeeded: bool, value: Any) -> None:  # noqa: FBT001
    """Set a future's result, or its exception."""
    if succeeded:
        future.set_result(value)
    else:
        future.set_exception(value)


def dumps(message: Any) -> bytes:  # functions of a script travel by value
    """Pickle as Ray does, so that a script's own functions can travel."""
    data: bytes = cloudpickle.dumps(message)
    return data


def picklable(error: BaseException) -> BaseException:
    """Return the exception if it can be pickled, otherwise one with the same message that can."""
    try:
        pickle.loads(dumps(error))  # noqa: S301 - our own bytes
    except Exception:  # noqa: BLE001 - whatever pickling it raises
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
