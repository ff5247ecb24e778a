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
_SESSION_HEADER = "x-aws-ec2-metadata-token"


@dataclass(frozen=True)
class Notice:
    """The announced end of a node. Times are unix seconds."""

    node_id: str
    posted_s: float
    deadline_s: float
    #: a job acknowledged it
    is_started: bool = False


@dataclass(frozen=True)
class MetadataRequest:
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

    def find_parameter(self, name: str) -> str | None:
        return parse_qs(urlsplit(self.target).query).get(name, [None])[0]


@dataclass(frozen=True)
class MetadataResponse:
    """The answer to a request."""

    status: int
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_ok(self) -> bool:
        """Whether it is what was asked for, and not a refusal."""
        return self.status == HTTPStatus.OK


NOT_FOUND, BAD_REQUEST, FORBIDDEN = (
    MetadataResponse(404),
    MetadataResponse(400),
    MetadataResponse(403),
)


def answer_request(
    cloud: Cloud, request: MetadataRequest, notice: Notice | None, now_s: float
) -> MetadataResponse:
    """Return the service's answer to a process on a node, which has this notice or none.

    `now_s` (unix seconds) decides whether a token is still valid. A path that is not emulated is
    not found.
    """
    match cloud:
        case "aws":
            return _answer_aws(request, notice, now_s)
        case "gcp":
            return _answer_gcp(request, notice)
        case "azure":
            return _answer_azure(request, notice)
        case _:
            assert_never(cloud)


def compute_wait_s(cloud: Cloud, request: MetadataRequest, notice: Notice | None) -> float:
    """Return how long a request waits for a change of its answer, at most (seconds).

    Google's `wait_for_change=true` waits without limit unless there is a `timeout_sec`, and not at
    all where `last_etag` is another than the present one.
    """
    if cloud != "gcp" or request.find_parameter("wait_for_change") != "true":
        return 0.0
    present_answer = _answer_gcp(request, notice)
    last_etag = request.find_parameter("last_etag")
    if not present_answer.is_ok or last_etag not in (None, present_answer.headers["ETag"]):
        return 0.0
    with suppress(ValueError):
        return max(0.0, float(request.find_parameter("timeout_sec") or "inf"))
    return float("inf")


def is_acknowledgement(cloud: Cloud, request: MetadataRequest, notice: Notice | None) -> bool:
    """Return whether a request lets Azure begin with the event at once."""
    if cloud != "azure" or notice is None or request.method != "POST":
        return False
    return answer_request(cloud, request, notice, 0.0).is_ok


def _answer_aws(request: MetadataRequest, notice: Notice | None, now_s: float) -> MetadataResponse:
    if request.path == "/latest/api/token":
        return _answer_aws_token(request, now_s)
    token = request.headers.get(_SESSION_HEADER)
    if token is not None and not _is_valid(token, now_s):
        return MetadataResponse(401)
    if request.method != "GET":
        return MetadataResponse(405)
    body_by_path = {"/latest/meta-data/events/maintenance/scheduled": "[]"}
    if notice is not None:
        body_by_path |= _build_aws_notice(notice)
    body = body_by_path.get(request.path)
    return NOT_FOUND if body is None else MetadataResponse(200, body)


def _build_aws_notice(notice: Notice) -> dict[str, str]:
    time, prefix = format_iso(notice.deadline_s), "/latest/meta-data"
    return {
        f"{prefix}/spot": "instance-action\ntermination-time",
        f"{prefix}/spot/instance-action": json.dumps({"action": "terminate", "time": time}),
        f"{prefix}/spot/termination-time": time,
        # The advice comes with the notice: AWS does not promise that it comes before.
        f"{prefix}/events/recommendations/rebalance": json.dumps(
            {"noticeTime": format_iso(notice.posted_s)}
        ),
    }


def _answer_aws_token(request: MetadataRequest, now_s: float) -> MetadataResponse:
    if request.method != "PUT":
        return MetadataResponse(405)
    # As AWS does: a proxy that passes requests on must not get a token for someone else.
    if "x-forwarded-for" in request.headers:
        return FORBIDDEN
    ttl = request.headers.get(f"{_SESSION_HEADER}-ttl-seconds", "")
    if not (ttl.isascii() and ttl.isdigit() and 1 <= int(ttl[:6]) <= TOKEN_TTL_MAX_S):
        return BAD_REQUEST
    expires = f"{int((now_s + int(ttl)) * 1000):x}"
    return MetadataResponse(
        200, f"{expires}-{_compute_digest(expires)}", {f"{_SESSION_HEADER}-ttl-seconds": ttl}
    )


def _is_valid(token: str, now_s: float) -> bool:
    expires, _, digest = token.partition("-")
    return digest == _compute_digest(expires) and now_s * 1000 < int(expires, 16)


def _answer_gcp(request: MetadataRequest, notice: Notice | None) -> MetadataResponse:
    # As Google does: a job whose poll lacks the header learns nothing there, and so nothing here.
    if request.headers.get("metadata-flavor") != "Google" or "x-forwarded-for" in request.headers:
        return FORBIDDEN
    if request.method != "GET":
        return MetadataResponse(405)
    prefix = "/computeMetadata/v1/instance"
    body_by_path = {
        "": "computeMetadata/\n",  # by which Google's client finds out whether it is on a machine
        f"{prefix}/preempted": "FALSE" if notice is None else "TRUE",
        f"{prefix}/maintenance-event": "NONE",  # of hosts that are maintained: no preemption
    }
    body = body_by_path.get(request.path)
    flavor = {"Metadata-Flavor": "Google"}
    if body is None:
        return replace(NOT_FOUND, headers=flavor)
    return MetadataResponse(200, body, {**flavor, "ETag": _compute_digest(request.path + body)})


def _answer_azure(request: MetadataRequest, notice: Notice | None) -> MetadataResponse:
    if request.path != "/metadata/scheduledevents":
        return NOT_FOUND
    has_header = request.headers.get("metadata", "").lower() == "true"
    if not has_header or request.find_parameter("api-version") not in _AZURE_VERSIONS:
        return BAD_REQUEST
    if request.method == "POST":
        event = None if notice is None else _build_event_id(notice)
        return (
            MetadataResponse(200) if _parse_start_requests(request.body) == [event] else BAD_REQUEST
        )
    if request.method != "GET":
        return MetadataResponse(405)
    events = [] if notice is None else [_build_event(notice)]
    changes = 0 if notice is None else 1 + notice.is_started
    return MetadataResponse(200, json.dumps({"DocumentIncarnation": 1 + changes, "Events": events}))


def _build_event(notice: Notice) -> dict[str, Any]:
    is_started = notice.is_started
    return {
        "EventId": _build_event_id(notice),
        "EventType": "Preempt",
        "ResourceType": "VirtualMachine",
        "Resources": [notice.node_id],
        "EventStatus": "Started" if is_started else "Scheduled",
        "NotBefore": "" if is_started else formatdate(notice.deadline_s, usegmt=True),
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }


def _build_event_id(notice: Notice) -> str:
    return str(uuid5(NAMESPACE_OID, f"{notice.node_id} {notice.posted_s}")).upper()


def _parse_start_requests(body: bytes) -> list[Any] | None:
    """Return the ids of the events that a job lets begin; None where it says nothing of them."""
    try:
        return [entry["EventId"] for entry in json.loads(body)["StartRequests"]]
    except (ValueError, KeyError, TypeError):
        return None


def format_iso(unix_s: float) -> str:
    """Return a time (unix seconds) to the second, as AWS writes it."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _compute_digest(text: str) -> str:
    return hashlib.sha256(f"chaos {text}".encode()).hexdigest()[:16]
