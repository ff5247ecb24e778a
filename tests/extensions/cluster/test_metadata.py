"""The emulated metadata services answer as the clouds' own: before a notice, after it, for whom."""

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.extensions.cluster.metadata.answer import (
    TOKEN_TTL_MAX_S,
    MetadataRequest,
    Notice,
    answer_request,
    compute_wait_s,
    is_acknowledgement,
)
from chaos.extensions.cluster.metadata.service import CloudMetadata, find_node
from chaos.faults.world import Target
from chaos.model.event import MetadataAsked
from chaos.model.scenario import Cloud
from chaos.run.clock import SystemClock
from chaos.run.journal import Journal, read_history

NOW_S = 1_790_000_000.0
ABOVE = "/latest/meta-data"
ACTION = f"{ABOVE}/spot/instance-action"
PREEMPTED = "/computeMetadata/v1/instance/preempted"
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
GOOGLE, AZURE = {"metadata-flavor": "Google"}, {"metadata": "true"}
NOTICE = Notice("node-1", posted_s=NOW_S - 1, deadline_s=NOW_S + 119)

clouds = st.sampled_from(get_args(Cloud))
notices = st.builds(
    Notice, st.just("node-1"), st.floats(1e9, 2e9), st.floats(1e9, 2e9), st.booleans()
)


def aws(target: str, notice: Notice | None, **headers: str) -> tuple[int, str]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    given = answer_request("aws", MetadataRequest("GET", target, named), notice, NOW_S)
    return given.status, given.body


@pytest.mark.parametrize("path", ["spot/instance-action", "spot/termination-time", "spot/"])
@pytest.mark.parametrize("more", ["", "events/recommendations/rebalance"])
def test_aws_has_nothing_before_a_notice(path: str, more: str) -> None:
    assert aws(f"{ABOVE}/{more or path}", None) == (404, "")


@given(notices)
def test_aws_announces_the_time_of_the_loss_to_the_second(notice: Notice) -> None:
    action = json.loads(aws(ACTION, notice)[1])
    advice = json.loads(aws(f"{ABOVE}/events/recommendations/rebalance", notice)[1])
    at = datetime.fromisoformat(action["time"])

    assert action["action"] == "terminate"
    assert at == datetime.fromtimestamp(notice.deadline_s, UTC).replace(microsecond=0)
    assert aws(f"{ABOVE}/spot/termination-time", notice) == (200, action["time"])
    assert advice["noticeTime"].endswith("Z")


@given(st.none() | notices)
def test_aws_schedules_no_maintenance_for_a_spot_machine(notice: Notice | None) -> None:
    assert aws(f"{ABOVE}/events/maintenance/scheduled", notice) == (200, "[]")


@given(st.integers(1, TOKEN_TTL_MAX_S), st.integers(0, TOKEN_TTL_MAX_S))
def test_a_token_is_valid_until_it_expires(ttl: int, later: int) -> None:
    asked = {"x-aws-ec2-metadata-token-ttl-seconds": str(ttl)}
    token = answer_request("aws", MetadataRequest("PUT", "/latest/api/token", asked), None, NOW_S)
    request = MetadataRequest("GET", ACTION, {"x-aws-ec2-metadata-token": token.body})

    assert token.headers == asked
    expected = 200 if later < ttl else 401
    assert answer_request("aws", request, NOTICE, NOW_S + later).status == expected


@given(st.text(max_size=30))
def test_a_token_that_was_never_given_is_refused(token: str) -> None:
    assert aws(ACTION, NOTICE, x_aws_ec2_metadata_token=token)[0] == 401


@pytest.mark.parametrize("ttl", ["", "0", "-5", "21601", "99999999999", "1e3", "²"])
def test_a_token_without_a_proper_life_is_a_bad_request(ttl: str) -> None:
    headers = {"x-aws-ec2-metadata-token-ttl-seconds": ttl}

    assert (
        answer_request(
            "aws", MetadataRequest("PUT", "/latest/api/token", headers), None, NOW_S
        ).status
        == 400
    )


def test_a_token_is_put_from_the_machine_itself() -> None:
    headers = {"x-aws-ec2-metadata-token-ttl-seconds": "60", "x-forwarded-for": "10.0.0.1"}

    assert (
        answer_request(
            "aws", MetadataRequest("PUT", "/latest/api/token", headers), None, NOW_S
        ).status
        == 403
    )
    assert (
        answer_request("aws", MetadataRequest("GET", "/latest/api/token"), None, NOW_S).status
        == 405
    )


@given(st.none() | notices)
def test_google_says_true_from_the_notice_on(notice: Notice | None) -> None:
    given_ = answer_request("gcp", MetadataRequest("GET", PREEMPTED, GOOGLE), notice, NOW_S)

    assert given_.body == ("FALSE" if notice is None else "TRUE")
    assert given_.headers["Metadata-Flavor"] == "Google"
    assert answer_request("gcp", MetadataRequest("GET", PREEMPTED), notice, NOW_S).status == 403


def test_google_waits_for_a_change_of_what_was_last_seen() -> None:
    def wait(notice: Notice | None, **query: str) -> float:
        words = "&".join(f"{name}={value}" for name, value in query.items())
        return compute_wait_s("gcp", MetadataRequest("GET", f"{PREEMPTED}?{words}", GOOGLE), notice)

    etag = answer_request("gcp", MetadataRequest("GET", PREEMPTED, GOOGLE), None, NOW_S).headers[
        "ETag"
    ]

    assert wait(None) == 0
    assert wait(None, wait_for_change="true", timeout_sec="7") == 7
    assert wait(None, wait_for_change="true", last_etag=etag) == float("inf")
    assert wait(NOTICE, wait_for_change="true", last_etag=etag) == 0
    assert (
        compute_wait_s("gcp", MetadataRequest("GET", f"{PREEMPTED}?wait_for_change=true"), None)
        == 0
    )


@given(notices)
def test_azure_schedules_a_preemption_until_it_is_acknowledged(notice: Notice) -> None:
    before, after = (
        json.loads(answer_request("azure", MetadataRequest("GET", EVENTS, AZURE), n, NOW_S).body)
        for n in (None, notice)
    )
    (event,) = after["Events"]

    assert before == {"DocumentIncarnation": 1, "Events": []}
    assert after["DocumentIncarnation"] == (3 if notice.is_started else 2)
    assert (event["EventType"], event["Resources"]) == ("Preempt", ["node-1"])
    assert event["EventStatus"] == ("Started" if notice.is_started else "Scheduled")
    if not notice.is_started:
        at = parsedate_to_datetime(event["NotBefore"]).timestamp()
        assert abs(at - notice.deadline_s) <= 1


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b'{"StartRequests": [{"EventId": "x"}]}'])
def test_azure_refuses_to_start_what_is_not_scheduled(body: bytes) -> None:
    request = MetadataRequest("POST", EVENTS, AZURE, body)

    assert answer_request("azure", request, NOTICE, NOW_S).status == 400
    assert not is_acknowledgement("azure", request, NOTICE)


@pytest.mark.parametrize(
    ("target", "headers"), [(EVENTS, {}), ("/metadata/scheduledevents", AZURE)]
)
def test_azure_needs_header_and_version(target: str, headers: dict[str, str]) -> None:
    assert (
        answer_request("azure", MetadataRequest("GET", target, headers), NOTICE, NOW_S).status
        == 400
    )


@given(clouds, st.text(max_size=40), st.none() | notices)
def test_a_path_that_is_not_there_is_not_found(
    cloud: Cloud, path: str, notice: Notice | None
) -> None:
    request = MetadataRequest("GET", f"/unknown/{path}", {**GOOGLE, **AZURE})

    assert answer_request(cloud, request, notice, NOW_S).status == 404


@pytest.fixture
def group() -> dict[int, Target]:
    return {0: Target(attempt=0, rank=0, pid=os.getpid(), node_id="node-1")}


@pytest.fixture(params=get_args(Cloud))
def service(
    request: pytest.FixtureRequest, group: dict[int, Target], tmp_path: Path
) -> Iterator[CloudMetadata]:
    clock = SystemClock()
    journal = Journal(tmp_path, "metadata", role="chaos", clock=clock)
    service = CloudMetadata(request.param, clock, lambda: group, tmp_path / "log", journal)
    yield service
    service.close()


def asked(service: CloudMetadata, method: str, target: str, body: str = "") -> tuple[int, str]:
    host = service.variables()["CHAOS_METADATA"].removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=30)
    connection.request(method, target, body, {"Metadata-Flavor": "Google", "Metadata": "true"})
    response = connection.getresponse()
    content = response.read().decode()
    assert response.headers["Content-Type"] is not None
    connection.close()
    return response.status, content


PLACES: dict[Cloud, str] = {"aws": ACTION, "gcp": PREEMPTED, "azure": EVENTS}


def test_a_worker_sees_the_notice_of_its_own_node(
    service: CloudMetadata, group: dict[int, Target], tmp_path: Path
) -> None:
    place = PLACES[service.cloud]
    calm = asked(service, "GET", place)

    service.post("node-2", deadline_ns=SystemClock().now_ns())
    assert asked(service, "GET", place) == calm
    service.post("node-1", deadline_ns=SystemClock().now_ns())
    assert asked(service, "GET", place) != calm

    group.clear()  # another program: no notice
    assert asked(service, "GET", place) == calm
    lines = (tmp_path / "log").read_text().splitlines()
    assert [line.split()[1] for line in lines] == ["node-1", "node-1", "node-1", "-"]
    events = [e for _, e in read_history(tmp_path).select_events(MetadataAsked)]
    assert [(e.node_id, e.has_notice) for e in events] == [
        ("node-1", False),
        ("node-1", True),
        (None, False),
    ]


@pytest.mark.parametrize("service", ["aws"], indirect=True)
def test_a_process_below_a_worker_is_on_its_node(service: CloudMetadata) -> None:
    service.post("node-1", deadline_ns=SystemClock().now_ns())
    url = service.variables()["AWS_EC2_METADATA_SERVICE_ENDPOINT"] + ACTION
    code = f"import urllib.request as u; print(u.urlopen({url!r}).status)"
    env = {**os.environ, "no_proxy": "127.0.0.1"}

    seen = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False)

    assert seen.stdout.strip() == b"200", seen.stderr
    assert find_node(1, {}) is None


def test_a_request_that_waits_is_answered_when_the_notice_comes(
    group: dict[int, Target], tmp_path: Path
) -> None:
    class Meanwhile(SystemClock):
        def sleep(self, seconds: float) -> None:
            waiting.post("node-1", deadline_ns=self.now_ns())

    clock = Meanwhile()
    journal = Journal(tmp_path, "metadata", role="chaos", clock=clock)
    waiting = CloudMetadata("gcp", clock, lambda: group, tmp_path / "log", journal)
    try:
        assert asked(waiting, "GET", f"{PREEMPTED}?wait_for_change=true") == (200, "TRUE")
    finally:
        waiting.close()


@pytest.mark.parametrize("service", ["azure"], indirect=True)
def test_an_acknowledged_event_has_started(service: CloudMetadata) -> None:
    service.post("node-1", deadline_ns=SystemClock().now_ns())
    event = json.loads(asked(service, "GET", EVENTS)[1])["Events"][0]
    body = json.dumps({"StartRequests": [{"EventId": event["EventId"]}]})

    assert asked(service, "POST", EVENTS, body) == (200, "")
    again = json.loads(asked(service, "GET", EVENTS)[1])
    assert (again["DocumentIncarnation"], again["Events"][0]["EventStatus"]) == (3, "Started")
