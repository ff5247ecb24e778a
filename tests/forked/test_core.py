"""The small core behaves, where Ray Train asks, as Ray's does."""

import asyncio
import os
import pickle
import signal
import socket
import threading
from concurrent.futures import Future
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, GetTimeoutError

from chaos.launch.forked import core
from chaos.processes.wire import Wire


def test_a_value_that_was_put_is_given_back() -> None:
    assert core.get([core.put(1), core.put("two")]) == [1, "two"]


def test_waiting_too_long_is_rays_own_error() -> None:
    with pytest.raises(GetTimeoutError):
        core.get(core.Ref(Future()), timeout=0.01)


def test_of_several_none_is_waited_for_once_one_has_failed() -> None:
    failed: Future[object] = Future()
    failed.set_exception(OSError("gone"))

    with pytest.raises(OSError, match="gone"):
        core.get([core.Ref(Future()), core.Ref(failed)])


def test_wait_tells_what_is_there_from_what_is_not() -> None:
    there, not_yet = core.put(1), core.Ref(Future())

    assert core.wait([there, not_yet], num_returns=2, timeout=0.01) == ([there], [not_yet])


def test_a_reference_travels_by_value() -> None:
    again = pickle.loads(core.dumps(core.put({"a": 1})))

    assert core.get(again) == {"a": 1}


def test_what_is_stored_is_pickled_once_and_keeps_the_value_of_then() -> None:
    value = {"a": 1}
    stored = core.StoredResult(value)
    value["a"] = 2

    assert core.get(pickle.loads(core.dumps(stored))) == {"a": 1}
    assert core.get(pickle.loads(core.dumps([stored]))[0]) == {"a": 1}


def test_an_exception_that_cannot_travel_is_told_in_words() -> None:
    class LocalError(Exception):
        def __reduce__(self) -> Any:
            raise TypeError("no")

    assert "LocalError: gone wrong" in str(core.picklable(LocalError("gone wrong")))


@pytest.fixture
def loop() -> Any:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self, number: int) -> int:
        self.count += number
        return self.count

    async def later(self) -> str:
        await asyncio.sleep(0)
        return "later"

    def fail(self) -> None:
        raise KeyError("no such thing")


def test_an_objects_methods_can_be_called_plain_or_async(loop: Any) -> None:
    actor = core.ObjectActor(Counter(), loop)

    assert core.get(actor.add.remote(2)) == 2
    assert core.get(actor.later.options(name="x").remote()) == "later"
    with pytest.raises(KeyError):
        core.get(actor.fail.remote())


def child_end(serve: Any) -> tuple[int, Wire]:
    """Fork a process that serves one end of a socket; gives its pid and the other end."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        serve(Wire(theirs, core.dumps))
        os._exit(0)
    theirs.close()
    return pid, Wire(ours, core.dumps)


def wait_for_ever(wire: Wire) -> None:
    del wire
    signal.pause()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking beside Hypothesis' threads
@pytest.mark.parametrize("is_preempted", [True, False])
def test_a_worker_that_dies_fails_its_open_calls(is_preempted: bool) -> None:
    pid, wire = child_end(wait_for_ever)
    actor = core.ProcessActor(
        pid, wire, lambda: core.WorkerDiedError(is_preempted=is_preempted), lambda: os.kill(pid, 9)
    )
    open_call = actor.poll_status.remote()

    actor.end()

    with pytest.raises(ActorDiedError) as died:
        core.get(open_call, timeout=10)
    assert died.value.preempted is is_preempted
    with pytest.raises(ActorDiedError):
        core.get(actor.poll_status.remote(), timeout=10)
    os.waitpid(pid, 0)


class Wavering(Future[object]):
    """A future that ends between two looks at it."""

    looks = 0

    def done(self) -> bool:
        self.looks += 1
        return self.looks > 1


def test_what_ends_while_it_is_looked_at_is_in_one_of_the_lists() -> None:
    wavering = core.Ref(Wavering())

    done, others = core.wait([wavering], timeout=0.01)

    assert [*done, *others] == [wavering]
