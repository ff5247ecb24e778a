"""The emulated metadata services answer as the clouds' own: before a notice, after it, for whom."""

import json
import os
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
from chaos.extensions.cluster.metadata.service import CloudMetadata
from chaos.faults.world import Target
from chaos.model.scenario import Cloud
from chaos.run.clock import SystemClock
from chaos.run.journal import Journal
from tests.extensions.cluster.metadata import ABOVE, ACTION, EVENTS, NOW_S, PREEMPTED, aws

GOOGLE, AZURE = {"metadata-flavor": "Google"}, {"metadata": "true"}
NOTICE = Notice("node-1", posted_s=NOW_S - 1, deadline_s=NOW_S + 119)

clouds = st.sampled_from(get_args(Cloud))
notices = st.builds(
    Notice, st.just("node-1"), st.floats(1e9, 2e9), st.floats(1e9, 2e9), st.booleans()
)


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
