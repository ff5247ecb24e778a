"""Whatever ends the harness, or a part of its cluster: nothing stays, and no job is blamed."""

import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from chaos.launch.ray import compat
from chaos.launch.ray.authentication import FILE, MODE
from chaos.launch.ray.cluster import LocalCluster
from chaos.model.event import DriverExited
from chaos.model.plan import Shape
from tests.ray.cluster_ends import again_after, events, harness
from tests.ray.command import command

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGHUP, marks=pytest.mark.nightly)]
)
def test_a_killed_harness_leaves_no_process_and_no_folder(number: int, tmp_path: Path) -> None:
    with harness(tmp_path) as running:
        assert len(running.belonging) > 8

        running.end(number)

        assert running.has_left_nothing()


@pytest.mark.nightly
def test_what_ci_sends_when_it_cancels_ends_a_run_in_good_order(tmp_path: Path) -> None:
    with harness(tmp_path) as running:
        code = running.end(signal.SIGTERM)

        assert running.has_left_nothing()
    assert code == 128 + signal.SIGTERM, running.output
    assert list(tmp_path.glob("suites/*/junit.xml"))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raylet", "raylet of node"),
        pytest.param("gcs_server", "gcs server of the head", marks=pytest.mark.nightly),
    ],
)
def test_where_a_part_of_the_cluster_is_killed_the_run_is_tried_again_on_a_new_one(
    name: str, said: str, tmp_path: Path
) -> None:
    with harness(tmp_path) as running:
        running.child(name).kill()

        code = running.wait()

        assert running.has_left_nothing()
    assert code == 0, running.output
    [why] = again_after(tmp_path)
    assert f"the {said}" in why
    assert "was ended by SIGKILL, and chaos did not end it" in why


@pytest.mark.nightly
def test_a_run_whose_chaos_actor_is_killed_is_tried_again(tmp_path: Path) -> None:
    with harness(tmp_path) as running:
        every = psutil.Process(running.process.pid).children(recursive=True)
        [actor] = [p for p in every if "ray::ChaosActor" in " ".join(p.cmdline()[:1])]
        actor.kill()

        code = running.wait()

    assert code == 0, running.output
    [why] = again_after(tmp_path)
    assert "an actor of chaos on the cluster is gone" in why


@pytest.mark.nightly
def test_a_run_whose_driver_is_killed_from_outside_is_tried_again(tmp_path: Path) -> None:
    with harness(tmp_path) as running:
        running.child("chaos.launch.ray.driver").kill()

        code = running.wait()

    exits = events(tmp_path, DriverExited)
    assert [event.code for event in exits].count(-signal.SIGKILL) == 1
    assert code == 0, running.output
    assert any("calls fit() was ended by SIGKILL" in why for why in again_after(tmp_path))


def test_nobody_without_its_token_may_use_a_cluster_of_ours() -> None:
    cluster = LocalCluster.start(Shape(nodes=1, cpus_per_node=1))
    try:
        file = Path(os.environ[FILE])
        asks = (
            f"assert __import__('{compat.__name__}', fromlist='_').is_refused('{cluster.address}')"
        )
        without = {k: v for k, v in os.environ.items() if k not in {MODE, FILE}}
        subprocess.run([command()[0], "-c", asks], env=without, check=True)
        assert file.parent.stat().st_mode & 0o777 == 0o700
    finally:
        cluster.close()

    assert not file.parent.exists()
    assert MODE not in os.environ
    assert FILE not in os.environ
