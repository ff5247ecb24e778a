"""The clouds' instance metadata services as a function: what announces that a machine goes.

Sources, as of 2026: AWS, "Spot Instance interruption notices" and "EC2 instance rebalance
recommendations"; Google, "View and query VM metadata"; Azure, "Scheduled Events for Linux VMs".
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, assert_never
from urllib.parse import parse_qs, urlsplit
from uuid import NAMESPACE_OID, uuid5

from chaos.model.scenario import Cloud

# google-auth 2.63 raises where there is none.
CONTENT_TYPES: dict[Cloud, str] = {
    "aws": "text/plain",
    "gcp": "application/text",
    "azure": "application/json; charset=utf-8",
}
TOKEN_TTL_MAX_S = 21600
_AZURE_VERSIONS = {"2017-11-01", "2019-01-01", "2019-04-01", "2019-08-01", "2020-07-01"}
_OF_TOKENS = "x-aws-ec2-metadata-token"


@dataclass(frozen=True)
class Notice:
    """The announced end of a node. Times are unix seconds."""

    node_id: str
    posted_s: float
    deadline_s: float
    #: a job acknowledged it
    is_started: bool = False


@dataclass(frozen=True)
class Request:
    """One request; the headers' names are in lower case."""

    method: str
    #: path and query
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def path(self) -> str:
        """The path, without the slash at its end."""
        return urlsplit(self.target).path.rstrip("/")

    def query(self, name: str) -> str | None:
        return parse_qs(urlsplit(self.target).query).get(name, [None])[0]


@dataclass(frozen=True)
class Response:
    """The answer to a request."""

    status: int
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_given(self) -> bool:
        """Whether it is what was asked for, and not a refusal."""
        return self.status == HTTPStatus.OK


NOT_FOUND, BAD_REQUEST, FORBIDDEN = Response(404), Response(400), Response(403)


def answer(cloud: Cloud, request: Request, notice: Notice | None, now_s: float) -> Response:
    """Return the service's answer to a process on a node, which has this notice or none.

    `now_s` (unix seconds) decides whether a token is still valid. A path that is not emulated is
    not found.
    """
    match cloud:
        case "aws":
            return _aws(request, notice, now_s)
        case "gcp":
            return _gcp(request, notice)
        case "azure":
            return _azure(request, notice)
        case _:
            assert_never(cloud)


def waits_s(cloud: Cloud, request: Request, notice: Notice | None) -> float:
    """Return how long a request waits for a change of its answer, at most (seconds).

    Google's `wait_for_change=true` waits without limit unless there is a `timeout_sec`, and not at
    all where `last_etag` is another than the present one.
    """
    if cloud != "gcp" or request.query("wait_for_change") != "true":
        return 0.0
    now = _gcp(request, notice)
    last = request.query("last_etag")
    if not now.is_given or last not in (None, now.headers["ETag"]):
        return 0.0
    with suppress(ValueError):
        return max(0.0, float(request.query("timeout_sec") or "inf"))
    return float("inf")


def acknowledges(cloud: Cloud, request: Request, notice: Notice | None) -> bool:
    """Return whether a request lets Azure begin with the event at once."""
    if cloud != "azure" or notice is None or request.method != "POST":
        return False
    return answer(cloud, request, notice, 0.0).is_given


def _aws(request: Request, notice: Notice | None, now_s: float) -> Response:
    if request.path == "/latest/api/token":
        return _aws_token(request, now_s)
    token = request.headers.get(_OF_TOKENS)
    if token is not None and not _is_valid(token, now_s):
        return Response(401)
    if request.method != "GET":
        return Response(405)
    known = {"/latest/meta-data/events/maintenance/scheduled": "[]"}
    if notice is not None:
        known |= _aws_notice(notice)
    body = known.get(request.path)
    return NOT_FOUND if body is None else Response(200, body)


def _aws_notice(notice: Notice) -> dict[str, str]:
    time, above = iso(notice.deadline_s), "/latest/meta-data"
    return {
        f"{above}/spot": "instance-action\ntermination-time",
        f"{above}/spot/instance-action": json.dumps({"action": "terminate", "time": time}),
        f"{above}/spot/termination-time": time,
        # The advice comes with the notice: AWS does not promise that it comes before.
        f"{above}/events/recommendations/rebalance": json.dumps(
            {"noticeTime": iso(notice.posted_s)}
        ),
    }


def _aws_token(request: Request, now_s: float) -> Response:
    if request.method != "PUT":
        return Response(405)
    # As AWS does: a proxy that passes requests on must not get a token for someone else.
    if "x-forwarded-for" in request.headers:
        return FORBIDDEN
    ttl = request.headers.get(f"{_OF_TOKENS}-ttl-seconds", "")
    if not (ttl.isascii() and ttl.isdigit() and 1 <= int(ttl[:6]) <= TOKEN_TTL_MAX_S):
        return BAD_REQUEST
    expires = f"{int((now_s + int(ttl)) * 1000):x}"
    return Response(200, f"{expires}-{_digest(expires)}", {f"{_OF_TOKENS}-ttl-seconds": ttl})


def _is_valid(token: str, now_s: float) -> bool:
    expires, _, digest = token.partition("-")
    return digest == _digest(expires) and now_s * 1000 < int(expires, 16)


def _gcp(request: Request, notice: Notice | None) -> Response:
    # As Google does: a job whose poll lacks the header learns nothing there, and so nothing here.
    if request.headers.get("metadata-flavor") != "Google" or "x-forwarded-for" in request.headers:
        return FORBIDDEN
    if request.method != "GET":
        return Response(405)
    above = "/computeMetadata/v1/instance"
    known = {
        "": "computeMetadata/\n",  # by which Google's client finds out whether it is on a machine
        f"{above}/preempted": "FALSE" if notice is None else "TRUE",
        f"{above}/maintenance-event": "NONE",  # of hosts that are maintained: no preemption
    }
    body = known.get(request.path)
    flavor = {"Metadata-Flavor": "Google"}
    if body is None:
        return replace(NOT_FOUND, headers=flavor)
    return Response(200, body, {**flavor, "ETag": _digest(request.path + body)})


def _azure(request: Request, notice: Notice | None) -> Response:
    if request.path != "/metadata/scheduledevents":
        return NOT_FOUND
    is_ours = request.headers.get("metadata", "").lower() == "true"
    if not is_ours or request.query("api-version") not in _AZURE_VERSIONS:
        return BAD_REQUEST
    if request.method == "POST":
        event = None if notice is None else _event_id(notice)
        return Response(200) if _asked_to_start(request.body) == [event] else BAD_REQUEST
    if request.method != "GET":
        return Response(405)
    events = [] if notice is None else [_event(notice)]
    changes = 0 if notice is None else 1 + notice.is_started
    return Response(200, json.dumps({"DocumentIncarnation": 1 + changes, "Events": events}))


def _event(notice: Notice) -> dict[str, Any]:
    started = notice.is_started
    return {
        "EventId": _event_id(notice),
        "EventType": "Preempt",
        "ResourceType": "VirtualMachine",
        "Resources": [notice.node_id],
        "EventStatus": "Started" if started else "Scheduled",
        "NotBefore": "" if started else formatdate(notice.deadline_s, usegmt=True),
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }


def _event_id(notice: Notice) -> str:
    return str(uuid5(NAMESPACE_OID, f"{notice.node_id} {notice.posted_s}")).upper()


def _asked_to_start(body: bytes) -> list[Any] | None:
    """Return the ids of the events that a job lets begin; None where it says nothing of them."""
    try:
        return [entry["EventId"] for entry in json.loads(body)["StartRequests"]]
    except (ValueError, KeyError, TypeError):
        return None


def iso(unix_s: float) -> str:
    """Return a time (unix seconds) to the second, as AWS writes it."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _digest(text: str) -> str:
    return hashlib.sha256(f"chaos {text}".encode()).hexdigest()[:16]
