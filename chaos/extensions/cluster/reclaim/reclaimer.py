"""The port to a platform that takes a machine back: announce it, take it, see that it is gone."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from importlib import import_module
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from chaos.errors import UsageError
from chaos.faults.world import RefusedError
from chaos.installation import build_install_command

Seen: TypeAlias = Literal["for real", "against a fake alone"]


class Reclaimer(Protocol):
    """A platform's means of reclaiming a node; `tests/extensions/cluster` is the contract.

    Announcing or taking a node that is not there raises `ProcessLookupError`. What the platform
    will not do raises `RefusedError`, before anything has changed. Within
    `convert_permission_errors` that is so where rights are missing, too.
    """

    name: ClassVar[str]
    evidence: ClassVar[Seen]
    takes_announced: ClassVar[bool]  # a node that was announced goes without `take`

    def find_machine(self, host: str, port: int, hostname: str) -> str:
        """Return the name of the one node with an address; `port`: one at which it listens.

        Another network may have the same addresses: a node with another `hostname` is another
        node. Raises `RefusedError` unless there is exactly one.
        """

    def announce(self, node: str, *, notice_s: float) -> float:
        """Announce a node's loss; return the notice that it has (seconds), no less than asked."""

    def take(self, node: str) -> None:
        """End a node at once, with as little grace as the platform has."""

    def is_gone(self, node: str) -> bool:
        """Return whether nothing of the node runs any more; a name that never was is gone, too."""


@contextlib.contextmanager
def convert_permission_errors(reclaimer: Reclaimer) -> Iterator[None]:
    """Turn a platform's refusal for want of rights into `RefusedError`."""
    try:
        yield
    except Exception as error:
        if find_status(error) in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise RefusedError(
                f"{reclaimer.name} does not allow it: {find_reason(error)}"
            ) from error
        raise


def find_reason(error: Exception) -> str:
    """Return the reason that a client states: the first line, but of Kubernetes the API's own."""
    with contextlib.suppress(TypeError, ValueError, KeyError):
        return str(json.loads(getattr(error, "body", None) or "")["message"])
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__


def find_status(error: Exception) -> int | None:
    """Return the HTTP status of an error of any of the clients, each of which names it otherwise.

    Kubernetes' is `status`, Azure's `status_code`, Google's `code`; boto3's is in its `response`.
    """
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        status: int | None = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return status
    names = ("status", "status_code", "code")
    statuses = (getattr(error, name, None) for name in names)
    return next((int(status) for status in statuses if isinstance(status, int)), None)


def import_client(module: str, *, extra: str) -> Any:
    """Import a platform's own client; raises `UsageError` where it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UsageError(
            f"the client {module} is not installed", build_install_command(extra)
        ) from error


def require_single_node(nodes: Sequence[str], address_text: str, reclaimer: Reclaimer) -> str:
    """Return the only node that was found at a place; raises `RefusedError` for none or several."""
    if not nodes:
        raise RefusedError(f"{reclaimer.name} has no node at {address_text}")
    if len(nodes) > 1:
        raise RefusedError(
            f"{reclaimer.name} has several nodes at {address_text}: {', '.join(nodes)}"
        )
    return nodes[0]


def describe_host(host: str, hostname: str) -> str:
    """Return an address and its hostname in words."""
    return f"{host} with the hostname {hostname}"


def check_takeable(
    reclaimer: Reclaimer, node: str, *, requested_s: float = 0.0, available_s: float = 0.0
) -> None:
    """Raise `ProcessLookupError` for a node that is gone, `RefusedError` for too long a notice."""
    if reclaimer.is_gone(node):
        raise ProcessLookupError(f"{node} does not run on {reclaimer.name}")
    if requested_s > available_s:
        notice = f"{available_s:g} s of notice, {requested_s:g} s were asked"
        raise RefusedError(f"{reclaimer.name} gives {notice}")


def split_node_name(node: str, form: str) -> list[str]:
    """Return the parts of a node's name of a form (`NAMESPACE/POD`); raises `UsageError`."""
    name_parts = node.split("/")
    if len(name_parts) != len(form.split("/")) or not all(name_parts):
        raise UsageError(f"a node of this platform is named {form}, got {node!r}")
    return name_parts
