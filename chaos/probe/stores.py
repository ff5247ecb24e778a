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

from chaos.model.objects import object_path
from chaos.probe.imported import once_imported
from chaos.run.clock import SystemClock

# The answers that are lost of one request, one for each time that it is sent.
Loses: TypeAlias = Callable[[], bool]
_LOCAL = "localhost"  # names below it are this machine's (RFC 6761)


@dataclass(frozen=True)
class Request:
    """One request; answers are lost, or late, as a fault has it."""

    operation: str
    params: Mapping[str, Any]
    #: an answer's `Body` is read whole
    reads: bool = False
    #: asked as each answer has come
    loses: Loses | None = field(default=None, compare=False)
    #: seconds before it is sent
    delay_s: float = 0.0


Steps: TypeAlias = Generator[Request, Any, Any]


class Call(NamedTuple):
    """A call of a client of S3."""

    client: Any
    operation: str
    params: Mapping[str, Any]
    #: the client is one of asyncio, whose calls are made in a thread of its loop
    is_async: bool = False

    @property
    def request(self) -> Request:
        return Request(self.operation, self.params)

    @property
    def bucket(self) -> str:
        return str(self.params.get("Bucket", ""))

    @property
    def path(self) -> str:
        """The object that it names; of a listing or of many objects, the bucket."""
        return object_path(self.bucket, str(self.params.get("Key", "")))

    @property
    def paths(self) -> tuple[str, ...]:
        """The objects that it removes, puts or reads."""
        if self.operation != "DeleteObjects":
            return (self.path,)
        keys = (one["Key"] for one in self.params.get("Delete", {}).get("Objects", ()))
        return tuple(object_path(self.bucket, key) for key in keys)

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


Around: TypeAlias = Callable[[Call], Steps]

_LOSES: contextvars.ContextVar[Loses | None] = contextvars.ContextVar("loses", default=None)
_QUIET: contextvars.ContextVar[bool] = contextvars.ContextVar("quiet", default=False)


def plainly(call: Call) -> Steps:
    """Make a call as the job does."""
    return (yield call.request)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Make calls of chaos's own, which are not told, while the context lasts."""
    token = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(token)


def wrap_stores(around: Around) -> None:
    """Make each call to S3, also of clients imported later, by `around`."""
    once_imported(
        ("botocore.client", "aiobotocore.client"), functools.partial(_wrap_client, around=around)
    )
    once_imported(("botocore.endpoint", "aiobotocore.endpoint"), _wrap_endpoint)


def _wrap_client(module: ModuleType, around: Around) -> None:
    is_async = module.__name__.startswith("aiobotocore")
    owner = getattr(module, "AioBaseClient" if is_async else "BaseClient", None)
    original = getattr(owner, "_make_api_call", None)
    if owner is None or original is None:  # another version
        return
    made = _made_in_a_loop(original, around) if is_async else _made(original, around)
    owner._make_api_call = functools.wraps(original)(made)  # noqa: SLF001 - it has no public name


def _made(original: Any, around: Around) -> Any:  # functions of a client
    def made(client: Any, operation: str, params: Mapping[str, Any]) -> Any:
        if not _is_told(client):
            return original(client, operation, params)
        steps = around(Call(client, operation, params))
        return _drive(steps, functools.partial(_ask, original, client))

    return made


def _drive(steps: Steps, ask: Callable[[Request], Any]) -> Any:
    try:
        request = next(steps)
        while True:
            try:
                answer = ask(request)
            except BaseException as error:  # noqa: BLE001 - passed on to what has asked
                request = steps.throw(error)
            else:
                request = steps.send(answer)
    except StopIteration as over:
        return over.value


def _ask(original: Any, client: Any, request: Request) -> Any:
    if request.delay_s:
        SystemClock().sleep(request.delay_s)
    token = _LOSES.set(request.loses)
    try:
        answer = original(client, request.operation, dict(request.params))
        if request.reads:
            answer["Body"] = answer["Body"].read()
        return answer
    finally:
        _LOSES.reset(token)


def _made_in_a_loop(original: Any, around: Around) -> Any:
    async def made(client: Any, operation: str, params: Mapping[str, Any]) -> Any:
        if not _is_told(client):
            return await original(client, operation, params)
        steps = around(Call(client, operation, params, is_async=True))
        try:
            request = next(steps)
            while True:
                try:
                    answer = await _ask_in_a_loop(original, client, request)
                except BaseException as error:  # noqa: BLE001 - passed on to what has asked
                    request = steps.throw(error)
                else:
                    request = steps.send(answer)
        except StopIteration as over:
            return over.value

    return made


async def _ask_in_a_loop(original: Any, client: Any, request: Request) -> Any:
    if request.delay_s:
        await asyncio.sleep(request.delay_s)
    token = _LOSES.set(request.loses)
    try:
        answer = await original(client, request.operation, dict(request.params))
        if request.reads:
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
        _lose(request)
        return answer

    async def send_in_a_loop(endpoint: Any, request: Any) -> Any:
        answer = await original(endpoint, request)
        _lose(request)
        return answer

    owner._send = functools.wraps(original)(send_in_a_loop if is_async else send)  # noqa: SLF001


def _lose(request: Any) -> None:
    """Raise, in place of an answer, what a client raises whose connection breaks before it."""
    loses = _LOSES.get()
    if loses is not None and loses():
        from botocore.exceptions import ConnectionClosedError

        raise ConnectionClosedError(endpoint_url=request.url)


def _is_told(client: Any) -> bool:
    return not _QUIET.get() and bool(client.meta.service_model.service_name == "s3")
