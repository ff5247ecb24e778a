"""The requests of this process to an object store, told before and after each is made.

Followed are the clients of botocore, which boto3 has, and of aiobotocore, which s3fs has: their
calls by name (`_make_api_call`), and below them each try that is sent (`_send`), where an answer
can be lost as a network loses it, so that the client's own retries follow. Read in botocore 1.43
and aiobotocore 3.10. Clients in native code (pyarrow's, s5cmd's) are not seen.

What is done about a call is a generator, `Steps`: it yields each request that is to be made, the
job's own among them, and returns the job's answer. So one way of telling serves clients that wait
and those of asyncio.
"""

import asyncio
import contextlib
import contextvars
import functools
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from chaos.model.objects import build_object_path
from chaos.probe.import_hooks import call_after_import
from chaos.run.clock import SystemClock

# The answers that are lost of one request, one for each time that it is sent.
Loses: TypeAlias = Callable[[], bool]
_LOCAL = "localhost"  # names below it are this machine's (RFC 6761)


@dataclass(frozen=True)
class StoreRequest:
    """One request; answers are lost, or late, as a fault has it."""

    operation: str
    params: Mapping[str, Any]
    #: an answer's `Body` is read whole
    needs_body: bool = False
    #: asked as each answer has come
    loses_answer: Loses | None = field(default=None, compare=False)
    #: seconds before it is sent
    delay_s: float = 0.0


Steps: TypeAlias = Generator[StoreRequest, Any, Any]


class ClientCall(NamedTuple):
    """A call of a client of S3."""

    client: Any
    operation: str
    params: Mapping[str, Any]
    #: the client is one of asyncio, whose calls are made in a thread of its loop
    is_async: bool = False

    @property
    def request(self) -> StoreRequest:
        return StoreRequest(self.operation, self.params)

    @property
    def bucket(self) -> str:
        return str(self.params.get("Bucket", ""))

    @property
    def path(self) -> str:
        """The object that it names; of a listing or of many objects, the bucket."""
        return build_object_path(self.bucket, str(self.params.get("Key", "")))

    @property
    def paths(self) -> tuple[str, ...]:
        """The objects that it removes, puts or reads."""
        if self.operation != "DeleteObjects":
            return (self.path,)
        keys = (entry["Key"] for entry in self.params.get("Delete", {}).get("Objects", ()))
        return tuple(build_object_path(self.bucket, key) for key in keys)

    @property
    def endpoint(self) -> str:
        return str(self.client.meta.endpoint_url)

    @property
    def is_local(self) -> bool:
        """Whether the store is on this machine."""
        host = urlsplit(self.endpoint).hostname or ""
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return host == _LOCAL or host.endswith(f".{_LOCAL}")


Around: TypeAlias = Callable[[ClientCall], Steps]

_LOSES: contextvars.ContextVar[Loses | None] = contextvars.ContextVar("loses", default=None)
_QUIET: contextvars.ContextVar[bool] = contextvars.ContextVar("quiet", default=False)


def make_call(call: ClientCall) -> Steps:
    """Make a call as the job does."""
    return (yield call.request)


@contextlib.contextmanager
def pause_watch() -> Iterator[None]:
    """Make calls of chaos's own, which are not told, while the context lasts."""
    token = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(token)


def wrap_stores(handle_call: Around) -> None:
    """Make each call to S3, also of clients imported later, by `handle_call`."""
    call_after_import(
        ("botocore.client", "aiobotocore.client"),
        functools.partial(_wrap_client, handle_call=handle_call),
    )
    call_after_import(("botocore.endpoint", "aiobotocore.endpoint"), _wrap_endpoint)


def _wrap_client(module: ModuleType, handle_call: Around) -> None:
    is_async = module.__name__.startswith("aiobotocore")
    owner = getattr(module, "AioBaseClient" if is_async else "BaseClient", None)
    original = getattr(owner, "_make_api_call", None)
    if owner is None or original is None:  # another version
        return
    replacement = (
        _wrap_async_call(original, handle_call) if is_async else _wrap_call(original, handle_call)
    )
    owner._make_api_call = functools.wraps(original)(replacement)  # noqa: SLF001 - it has no public name


def _wrap_call(original: Any, handle_call: Around) -> Any:  # functions of a client
    def call_store(client: Any, operation: str, params: Mapping[str, Any]) -> Any:
        if not _is_watched(client):
            return original(client, operation, params)
        steps = handle_call(ClientCall(client, operation, params))
        return _run_steps(steps, functools.partial(_send_request, original, client))

    return call_store


def _run_steps(steps: Steps, send_request: Callable[[StoreRequest], Any]) -> Any:
    try:
        request = next(steps)
        while True:
            try:
                answer = send_request(request)
            except BaseException as error:  # noqa: BLE001 - passed on to what has asked
                request = steps.throw(error)
            else:
                request = steps.send(answer)
    except StopIteration as stop:
        return stop.value


def _send_request(original: Any, client: Any, request: StoreRequest) -> Any:
    if request.delay_s:
        SystemClock().sleep(request.delay_s)
    token = _LOSES.set(request.loses_answer)
    try:
        answer = original(client, request.operation, dict(request.params))
        if request.needs_body:
            answer["Body"] = answer["Body"].read()
        return answer
    finally:
        _LOSES.reset(token)


def _wrap_async_call(original: Any, handle_call: Around) -> Any:
    async def call_store(client: Any, operation: str, params: Mapping[str, Any]) -> Any:
        if not _is_watched(client):
            return await original(client, operation, params)
        steps = handle_call(ClientCall(client, operation, params, is_async=True))
        try:
            request = next(steps)
            while True:
                try:
                    answer = await _send_async_request(original, client, request)
                except BaseException as error:  # noqa: BLE001 - passed on to what has asked
                    request = steps.throw(error)
                else:
                    request = steps.send(answer)
        except StopIteration as stop:
            return stop.value

    return call_store


async def _send_async_request(original: Any, client: Any, request: StoreRequest) -> Any:
    if request.delay_s:
        await asyncio.sleep(request.delay_s)
    token = _LOSES.set(request.loses_answer)
    try:
        answer = await original(client, request.operation, dict(request.params))
        if request.needs_body:
            answer["Body"] = await answer["Body"].read()
        return answer
    finally:
        _LOSES.reset(token)


def _wrap_endpoint(module: ModuleType) -> None:
    is_async = module.__name__.startswith("aiobotocore")
    owner = getattr(module, "AioEndpoint" if is_async else "Endpoint", None)
    original = getattr(owner, "_send", None)
    if owner is None or original is None:  # another version
        return

    def send(endpoint: Any, request: Any) -> Any:
        answer = original(endpoint, request)
        _lose_answer(request)
        return answer

    async def send_async(endpoint: Any, request: Any) -> Any:
        answer = await original(endpoint, request)
        _lose_answer(request)
        return answer

    owner._send = functools.wraps(original)(send_async if is_async else send)  # noqa: SLF001


def _lose_answer(request: Any) -> None:
    """Raise, in place of an answer, what a client raises whose connection breaks before it."""
    loses_answer = _LOSES.get()
    if loses_answer is not None and loses_answer():
        from botocore.exceptions import ConnectionClosedError

        raise ConnectionClosedError(endpoint_url=request.url)


def _is_watched(client: Any) -> bool:
    return not _QUIET.get() and bool(client.meta.service_model.service_name == "s3")
