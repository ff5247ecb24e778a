"""The figures of a run in what Prometheus reads of a node, beside Ray's own."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from chaos.run.clock import SystemClock, seconds_since
from tests.ray.command import ROOT, command
from tests.ray.existing import scenario_in
from tests.ray.foreign import ForeignCluster, foreign_cluster

LACKING = [
    name
    for name in ("aiohttp_cors", "opencensus", "opentelemetry", "prometheus_client")
    if find_spec(name) is None
]
pytestmark = [
    pytest.mark.ray,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        bool(LACKING),
        reason=f"no agent exports metrics without {', '.join(LACKING)}: "
        "pip install ray-train-chaos[metrics]",
    ),
]
KILLED = """
scenario: a worker is killed
job: {script: SCRIPT, args: {epochs: 3}, workers: 2, failure: {max_failures: 1}}
faults:
  - at: {epoch: 1, step: 2, rank: 1}
    kill_worker: {}
"""
PORTS = """
import json, ray
ray.init('ADDRESS', log_to_driver=False, logging_level='ERROR')
print(json.dumps([n['MetricsExportPort'] for n in ray.nodes() if n['Alive']]))
"""
LABELS = 'fault="kill_worker",scenario="a worker is killed"'


@pytest.fixture(scope="module")
def cluster() -> Iterator[ForeignCluster]:
    # Ray sends figures on every ten seconds, unless it is told otherwise.
    with foreign_cluster(nodes=2, env={"RAY_metrics_report_interval_ms": "1000"}) as started:
        yield started


def ports(cluster: ForeignCluster) -> list[int]:
    look = [sys.executable, "-c", PORTS.replace("ADDRESS", cluster.address)]
    done = subprocess.run(
        look, env=cluster.environment(), capture_output=True, text=True, check=True
    )
    found: list[int] = json.loads(done.stdout.splitlines()[-1])
    return found


def exported(found: list[int]) -> dict[str, float]:
    """Give what the nodes' agents export of chaos, by name and the labels that are ours."""
    values: dict[str, float] = {}
    for port in found:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        for line in lines:
            if line.startswith("ray_chaos_"):
                name, _, value = line.rpartition(" ")
                values[name] = float(value)
    return values


def test_prometheus_sees_a_strike_and_what_it_cost(cluster: ForeignCluster, tmp_path: Path) -> None:
    leave = ("--allow-faults-on", cluster.address, "--reports", tmp_path)
    ran = subprocess.run(
        command("run", scenario_in(tmp_path, KILLED), "--address", cluster.address, *leave),
        cwd=ROOT,
        env=cluster.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    print(ran.stdout)
    found = ports(cluster)
    print(found)
    clock = SystemClock()
    start = clock.now_ns()
    while not exported(found) and seconds_since(start, clock) < 30:
        clock.sleep(1)
    print(exported(found))
    assert 0
