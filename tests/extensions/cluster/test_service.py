"""The metadata service knows the node of who asks, and answers when the notice comes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from chaos.extensions.cluster.metadata.service import CloudMetadata, find_node
from chaos.faults.world import Target
from chaos.model.event import MetadataAsked
from chaos.model.scenario import Cloud
from chaos.run.clock import SystemClock
from chaos.run.journal import Journal, read_history
from tests.extensions.cluster.metadata import ACTION, EVENTS, PREEMPTED, asked


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
