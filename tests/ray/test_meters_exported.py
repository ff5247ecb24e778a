"""The figures of a run in what Prometheus reads of a node, beside Ray's own."""

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from chaos.run.clock import SystemClock, elapsed_seconds
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
OURS = re.compile(r"(ray_chaos_\w+)\{.*\} (\S+)")


@pytest.fixture(scope="module")
def cluster() -> Iterator[ForeignCluster]:
    with foreign_cluster(nodes=2) as started:
        yield started


def ports(cluster: ForeignCluster) -> list[int]:
    look = [sys.executable, "-c", PORTS.replace("ADDRESS", cluster.address)]
    done = subprocess.run(
        look, env=cluster.environment(), capture_output=True, text=True, check=True
    )
    found: list[int] = json.loads(done.stdout.splitlines()[-1])
    return found


def exported(found: list[int]) -> dict[str, float]:
    """Return what the nodes' agents export of the killed worker; of buckets, the last."""
    values: dict[str, float] = {}
    for port in found:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        told = (line for line in lines if 'fault="kill_worker"' in line)
        values |= {hit[1]: float(hit[2]) for line in told if (hit := OURS.fullmatch(line))}
    return values


def awaited(found: list[int], name: str, harness: "subprocess.Popen[str] | None" = None) -> float:
    """Wait until a figure is exported, while a run goes on; gives it."""
    clock = SystemClock()
    start = clock.now_ns()
    while name not in (seen := exported(found)):
        assert harness is None or harness.poll() is None, "the run was over before"
        assert elapsed_seconds(start, clock) < 200, f"{name} did not come; there is {seen}"
        clock.sleep(0.5)
    return seen[name]


def test_prometheus_sees_a_strike_while_the_run_goes_on_and_what_it_cost(
    cluster: ForeignCluster, tmp_path: Path
) -> None:
    leave = ("--allow-faults-on", cluster.address, "--reports", tmp_path)
    found = ports(cluster)
    with subprocess.Popen(
        command("run", scenario_in(tmp_path, KILLED), "--address", cluster.address, *leave),
        cwd=ROOT,
        env=cluster.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as harness:
        try:
            assert awaited(found, "ray_chaos_faults_injected_total", harness) == 1
            said, _ = harness.communicate(timeout=120)
        finally:
            harness.kill()

    assert harness.returncode == 0, said
    assert "Ray dashboard" not in said  # it has none
    assert awaited(found, "ray_chaos_recoveries_total") == 1
    assert awaited(found, "ray_chaos_lost_steps_total") == 2
    assert awaited(found, "ray_chaos_recovery_seconds_count") == 1
