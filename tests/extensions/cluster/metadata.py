"""A metadata service with one node, which is asked as by a worker."""

import http.client

from chaos.extensions.cluster.metadata.answer import (
    MetadataRequest,
    Notice,
    answer_request,
)
from chaos.extensions.cluster.metadata.service import CloudMetadata

NOW_S = 1_790_000_000.0

ABOVE = "/latest/meta-data"

ACTION = f"{ABOVE}/spot/instance-action"

PREEMPTED = "/computeMetadata/v1/instance/preempted"

EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"


def aws(target: str, notice: Notice | None, **headers: str) -> tuple[int, str]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    given = answer_request("aws", MetadataRequest("GET", target, named), notice, NOW_S)
    return given.status, given.body


def asked(service: CloudMetadata, method: str, target: str, body: str = "") -> tuple[int, str]:
    host = service.variables()["CHAOS_METADATA"].removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=30)
    connection.request(method, target, body, {"Metadata-Flavor": "Google", "Metadata": "true"})
    response = connection.getresponse()
    content = response.read().decode()
    assert response.headers["Content-Type"] is not None
    connection.close()
    return response.status, content
