"""A run's figures beside Ray's own: what reaches Ray's metrics, and what no run may feel of it."""

from collections.abc import Sequence
from typing import Any

import pytest

from chaos.backends.ray import meters
from chaos.backends.ray.meters import Meters
from chaos.model.history import Entry
from chaos.report.points import METRICS, Metric
from chaos.run.ports import say_nothing
from tests.check.story import Story, Strike

KILLED = Story((Strike(2, 3, 1),))


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
) -> list[Entry]:
    """Let runs go by a backend's meters, entry by entry; gives the entries that were shown."""
    monkeypatch.setattr(meters, "_made", ray)
    shown: list[Entry] = []
    mine = Meters(said.append)
    for _ in range(runs):
        show = mine.beside(shown.extend, KILLED.plan())
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
    def fails(entries: Sequence[Entry]) -> None:
        raise BrokenPipeError(len(entries))

    with pytest.raises(BrokenPipeError):
        Meters(say_nothing).beside(fails, KILLED.plan())(KILLED.history())
