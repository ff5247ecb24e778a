"""A spot trace in fast motion comes to the same on a cluster, whose nodes take seconds to join."""

import subprocess
from pathlib import Path

import pytest

from tests.ray.command import ROOT, chaos, command
from tests.ray.test_backend_parity import outcome

pytestmark = [pytest.mark.ray, pytest.mark.nightly, pytest.mark.timeout(900)]

DIGITS = ROOT / "scenarios/jobs/digits_ddp.py"
# Milliseconds. All events of a minute fall into one step: the cluster must keep up with each.
ROWS = [(0, "add", "a"), (0, "add", "b"), (0, "add", "c")]
ROWS += [(600_000, "remove", "a"), (620_000, "add", "d"), (640_000, "remove", "b")]
ROWS += [(660_000, "add", "e"), (900_000, "remove", "c"), (900_000, "remove", "d")]
ROWS += [(1_000_000, "add", "f"), (1_000_000, "add", "g")]


def test_both_backends_lose_and_gain_the_same_nodes(tmp_path: Path) -> None:
    trace, file = tmp_path / "trace.csv", tmp_path / "replayed.chaos.yaml"
    trace.write_text("".join(f"{ms},{what},{node}\n" for ms, what, node in ROWS))
    words = ("from-trace", trace, DIGITS, "--seed", "1", "--step-s", "0.01", "--scale", "1500")
    options = ("--reports", tmp_path / "clean", "--", "--epochs", "4")
    told = subprocess.run(
        command(*words, *options), cwd=tmp_path, capture_output=True, text=True, check=True
    )
    file.write_text(told.stdout)

    fork = chaos("run", file, "--backend", "fork", reports=tmp_path / "fork")
    ray = chaos("run", file, "--backend", "ray", reports=tmp_path / "ray")

    assert fork.code == ray.code == 0, ray.output
    assert told.stdout.count("kill_node") >= 2
    assert "hold: true" in told.stdout
    (embedded,), (cluster,) = fork.runs(), ray.runs()
    assert outcome(cluster) == outcome(embedded)
