"""A node that is a process of its own ends with its harness, and a run goes on without it."""

import signal
from pathlib import Path

import pytest

from tests.ray.cluster_ends import SOON_S, again_after, harness, is_zombie, within
from tests.ray.command import ROOT

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]
EVICTED = ROOT / "scenarios/node/evicted_without_drain.chaos.yaml"


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda n: n.name)
def test_no_node_that_is_a_process_of_its_own_outlives_the_harness(
    number: signal.Signals, tmp_path: Path
) -> None:
    with harness(tmp_path, EVICTED) as running:
        starts = [p for p in running.children() if "--block" in p.cmdline()]
        assert len(starts) == 3

        running.end(number)

        assert running.has_left_nothing()
        assert within(SOON_S, lambda: not any(p.is_running() and not is_zombie(p) for p in starts))


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_where_a_pod_is_killed_the_run_is_tried_again_on_a_new_cluster(tmp_path: Path) -> None:
    with harness(tmp_path, EVICTED) as running:
        running.child("--block").kill()

        code = running.wait()

        assert running.has_left_nothing()
    assert code == 0, running.output
    [why] = again_after(tmp_path)
    assert "the ray start of node" in why
