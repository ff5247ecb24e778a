"""A run's figures as metrics of the cluster: an existing Prometheus shows them beside Ray's own.

Ray takes them from this process, the harness, which is a driver of the cluster
for as long as it is connected: the node's agent exports them at its
`MetricsExportPort`, where `ray[default]` is installed there. A call only
writes to memory; Ray sends it on every ten seconds.
"""

from collections.abc import Sequence
from typing import Any

from chaos.model.history import Entry
from chaos.model.plan import Plan
from chaos.report.points import Figures, Metric, Point
from chaos.run.ports import Say, Show


class Meters:
    """The counters and histograms of one connection to a cluster."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._made: dict[str, Any] = {}
        self._is_broken = False

    def beside(self, show: Show, plan: Plan) -> Show:
        """Give what shows a run's entries, and records the points that they bring."""
        figures = Figures(plan)

        def show_and_record(entries: Sequence[Entry]) -> None:
            show(entries)
            self._record(figures, entries)

        return show_and_record

    def _record(self, figures: Figures, entries: Sequence[Entry]) -> None:
        if self._is_broken:
            return
        try:
            for point in figures.learn(entries):
                self._add(point)
        except Exception as error:  # noqa: BLE001 - no run may end for its metrics
            self._is_broken = True
            self._say(f"warning: no more metrics of this run: {type(error).__name__}: {error}")

    def _add(self, point: Point) -> None:
        meter = self._made.get(point.metric.name)
        if meter is None:
            meter = self._made[point.metric.name] = _made(point.metric)
        tags = dict(point.tags)
        if point.metric.boundaries:
            meter.observe(point.value, tags=tags)
        else:
            meter.inc(point.value, tags=tags)


def _made(metric: Metric) -> Any:  # noqa: ANN401 - a Counter or Histogram of Ray
    from ray.util import metrics

    about = {"description": metric.description, "tag_keys": metric.tags}
    if metric.boundaries:
        return metrics.Histogram(metric.name, boundaries=list(metric.boundaries), **about)
    return metrics.Counter(metric.name, **about)
