"""Whatever ends the harness, or a part of its cluster: nothing stays, and no job is blamed."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from chaos.launch.ray import compat
from chaos.launch.ray.authentication import FILE, MODE
from chaos.launch.ray.cluster import LocalCluster
from chaos.model.event import DriverExited, RunStarted
from chaos.model.plan import Shape
from chaos.run.clock import SystemClock, elapsed_seconds
from chaos.run.held_folders import HELD_ENV
from chaos.run.journal import read_history
from tests.ray.command import ROOT, command

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]

SMOKE = ROOT / "scenarios/smoke/worker_killed_mid_epoch.chaos.yaml"
EVICTED = ROOT / "scenarios/node/evicted_without_drain.chaos.yaml"
SOON_S = 20.0


class Harness:
    """A `chaos run` whose baseline trains, and the folder that its cluster lives in."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.output = ""
        self.read_to("attempt 0 started")
        (attending,) = [p for p in self.children() if "chaos.run.held_folders" in p.cmdline()]
        self.folder = Path(attending.cmdline()[-1])
        self.belonging = belonging_to(self.folder)

    def read_to(self, words: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output += line
            if words in line:
                return

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children()

    def child(self, name: str) -> psutil.Process:
        """Return the last child of the harness's of a name, or that runs a module of that name."""
        found = [p for p in self.children() if p.name() == name or name in p.cmdline()]
        return max(found, key=psutil.Process.create_time)

    def end(self, number: int) -> int:
        """Send the harness a signal; gives its exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        self.read_to("a line that never comes")
        return self.process.wait(120)

    def has_left_nothing(self) -> bool:
        return within(
            SOON_S,
            lambda: (
                not self.folder.exists()
                and not any(p.is_running() and not is_zombie(p) for p in self.belonging)
                and not belonging_to(self.folder)
            ),
        )


@contextmanager
def harness(reports: Path, scenario: Path = SMOKE) -> Iterator[Harness]:
    with subprocess.Popen(
        command("run", scenario, "--reports", reports),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield Harness(process)
        finally:
            process.kill()


def belonging_to(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            names_it = any(str(folder) in part for part in process.cmdline())
            if names_it or process.environ().get(HELD_ENV) == str(folder):
                found.append(process)
        except psutil.Error:
            continue
    return found


def is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def within(seconds: float, is_so: Callable[[], bool]) -> bool:
    clock = SystemClock()
    start = clock.now_ns()
    while not is_so():
        if elapsed_seconds(start, clock) > seconds:
            return False
        clock.sleep(0.2)
    return True


def events(reports: Path, kind: type[Any]) -> list[Any]:
    found = (read_history(journals) for journals in reports.rglob("journals"))
    return [entry.event for history in found for entry in history if isinstance(entry.event, kind)]


def again_after(reports: Path) -> list[str]:
    return [why for event in events(reports, RunStarted) if (why := event.again_after)]


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGHUP, marks=pytest.mark.nightly)]
)
def test_a_killed_harness_leaves_no_process_and_no_folder(number: int, tmp_path: Path) -> None:
    with harness(tmp_path) as running:
        assert len(running.belonging) > 8

        running.end(number)

        assert running.has_left_nothing()


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
