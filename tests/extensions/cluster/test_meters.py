"""A run's figures beside Ray's own: what reaches Ray's metrics, and what no run may feel of it."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from chaos.extensions.cluster.existing import meters
from chaos.extensions.cluster.existing.meters import Meters
from chaos.extensions.cluster.existing.prometheus import METRICS, Metric
from chaos.launch.ray import compat
from chaos.model.history import JournalEntry
from tests.check.story import Story, Strike
from tests.ray.command import ROOT

KILLED = Story((Strike(2, 3, 1),))


class HandClock:
    """Goes on when it is told to, and remembers how long somebody slept."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []

    def now_ns(self) -> int:
        return int(self.now_s * 1e9)

    def wall_ns(self) -> int:
        return self.now_ns()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class Recording:
    """Stands for Ray's counters and histograms, and remembers what they were told."""

    def __init__(self, *, broken: bool = False) -> None:
        self.made: list[str] = []
        self.told: list[tuple[str, float, str]] = []
        self._broken = broken

    def __call__(self, metric: Metric) -> Any:
        if self._broken:
            raise RuntimeError("no core worker")
        self.made.append(metric.name)
        outer = self

        class Meter:
            def inc(self, value: float, tags: dict[str, str]) -> None:
                outer.told.append((metric.name, value, tags["fault"]))

            observe = inc

        return Meter()


def shown_and_recorded(
    monkeypatch: pytest.MonkeyPatch, ray: Recording, said: list[str], *, runs: int = 1
) -> list[JournalEntry]:
    """Let runs go by a backend's meters, entry by entry; gives the entries that were shown."""
    monkeypatch.setattr(meters, "_create_meter", ray)
    shown: list[JournalEntry] = []
    mine = Meters(said.append, HandClock())
    for _ in range(runs):
        show = mine.wrap_show(shown.extend, KILLED.plan())
        for entry in KILLED.history():
            show([entry])
    return shown


def test_each_run_adds_to_the_same_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = Recording()

    shown = shown_and_recorded(monkeypatch, ray, [], runs=2)

    assert ray.made == [metric.name for metric in METRICS]
    assert ray.told[:4] == ray.told[4:]
    assert ray.told[0] == ("chaos_faults_injected", 1.0, "kill_worker")
    assert len(shown) == 2 * len(KILLED.history())


def test_what_ray_refuses_is_one_warning_and_the_run_is_shown_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []

    shown = shown_and_recorded(monkeypatch, Recording(broken=True), said, runs=2)

    assert said == ["warning: no more metrics of this run: RuntimeError: no core worker"]
    assert len(shown) == 2 * len(KILLED.history())


def test_what_goes_wrong_in_showing_is_not_taken_for_a_defect_of_metrics() -> None:
    def fails(entries: Sequence[JournalEntry]) -> None:
        raise BrokenPipeError(len(entries))

    with pytest.raises(BrokenPipeError):
        Meters(lambda _: None, HandClock()).wrap_show(fails, KILLED.plan())(KILLED.history())


@pytest.mark.parametrize(
    ("exported", "later_s", "slept"), [(True, 4.0, [6.5]), (True, 11.0, []), (False, 4.0, [])]
)
def test_nobody_leaves_a_cluster_before_its_agent_has_the_last_figures(
    monkeypatch: pytest.MonkeyPatch, *, exported: bool, later_s: float, slept: list[float]
) -> None:
    monkeypatch.setattr(meters, "_create_meter", Recording())
    monkeypatch.setattr(meters, "_is_exported", lambda: exported)
    monkeypatch.setattr(compat, "metrics_interval_s", lambda: 10.0)
    clock = HandClock()
    mine = Meters(lambda _: None, clock)
    mine.wrap_show(say_nothing_of, KILLED.plan())(KILLED.history())

    clock.now_s = later_s
    mine.await_export()

    assert clock.slept == slept


def test_nobody_waits_for_figures_that_there_are_none_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meters, "_is_exported", lambda: True)
    clock = HandClock()

    Meters(lambda _: None, clock).await_export()

    assert clock.slept == []


def say_nothing_of(entries: Sequence[JournalEntry]) -> None:
    del entries


def test_this_process_sends_metrics_on_every_second_and_nobody_whom_it_starts() -> None:
    code = (
        "import os, io\nfrom rich.console import Console\n"
        "from chaos.launch.backends import open_backend\n"
        "from chaos.report.screen import ConsoleAnnouncer\n"
        "open_backend('ray', ConsoleAnnouncer(Console(file=io.StringIO())))\n"
        "from chaos.launch.ray import compat\n"
        "print(compat.metrics_interval_s(), 'RAY_metrics_report_interval_ms' in os.environ)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["1.0", "False"]
