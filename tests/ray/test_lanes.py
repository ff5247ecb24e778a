"""An audit whose runs are spread over a cluster says what it says on one machine."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.run.clock import SystemClock, elapsed_seconds
from tests.ray.command import ROOT, chaos, command, strays
from tests.ray.foreign import ForeignCluster, foreign_cluster

pytestmark = [pytest.mark.ray, pytest.mark.nightly, pytest.mark.timeout(900)]

RIGHT, WRONG = "digits_ddp", "digits_optimizer_lost"
STEPS = "before the first commit;mid-epoch;epoch boundary;last epoch"
SHORT = ("--epochs", "3", "--batch-size", "240")  # three steps an epoch
BEGUN_S = 120.0
FACTS = ("group", "name", "status", "defects", "parts", "resumed", "from_scratch", "landed")


@pytest.fixture
def cluster(home: Path) -> Iterator[ForeignCluster]:
    del home
    with foreign_cluster(nodes=3) as started:
        yield started


def words(script: str, *options: str) -> list[str]:
    places = [word for name in STEPS.split(";") for word in ("--places", name)]
    asked = ["--exhaustive", *places, "--no-confirm", *options, "--", *SHORT]
    return ["audit", f"scenarios/jobs/{script}.py", *asked]


def card_in(reports: Path) -> dict[str, Any]:
    (file,) = reports.glob("audits/*/audit.json")
    return dict(json.loads(file.read_bytes()))


def facts(card: dict[str, Any]) -> object:
    """Return what the audit says of the job and of each place; the order of runs may differ."""
    places = sorted(json.dumps([run[name] for name in FACTS]) for run in card["runs"])
    named = sorted((f["defect"]["check"], f["repro"]) for f in card["findings"])
    return card["verdict"]["word"], places, named


def alone(script: str, reports: Path) -> int:
    """Audit on this machine; return the exit code."""
    return chaos(*words(script, "--reports", str(reports)), reports=reports).code


def spread(script: str, cluster: ForeignCluster, reports: Path) -> "subprocess.Popen[str]":
    asked = words(script, "--address", cluster.address, "--reports", str(reports))
    return subprocess.Popen(
        command(*asked),
        cwd=ROOT,
        env=cluster.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("script", [RIGHT, WRONG])
def test_it_finds_the_same_on_a_cluster(
    script: str, cluster: ForeignCluster, tmp_path: Path
) -> None:
    code = alone(script, tmp_path / "here")
    there = spread(script, cluster, tmp_path / "there")
    said, _ = there.communicate()

    assert there.returncode == code, said
    assert facts(card_in(tmp_path / "there")) == facts(card_in(tmp_path / "here"))
    lanes = [*(tmp_path / "there").glob("audits/*/lanes/*")]
    assert len(lanes) == 3
    assert strays() == []


def test_a_run_on_a_lost_node_is_made_again_elsewhere(
    cluster: ForeignCluster, tmp_path: Path
) -> None:
    code = alone(RIGHT, tmp_path / "here")
    there = spread(RIGHT, cluster, tmp_path / "there")
    clock = SystemClock()
    start = clock.now_ns()
    while not [*(tmp_path / "there").glob("audits/*/runs/*/verdict.json")]:
        assert elapsed_seconds(start, clock) < BEGUN_S
        assert there.poll() is None, there.communicate()[0]
        clock.sleep(0.05)
    os.kill(cluster.raylets()[-1].pid, signal.SIGKILL)
    said, _ = there.communicate()

    assert there.returncode == code, said
    assert facts(card_in(tmp_path / "there")) == facts(card_in(tmp_path / "here"))
    assert len([*(tmp_path / "there").glob("audits/*/lanes/*")]) > 3
