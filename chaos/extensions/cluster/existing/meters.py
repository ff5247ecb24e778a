"""A run's figures as metrics of the cluster: an existing Prometheus shows them beside Ray's own.

Ray takes them from this process, the harness, which is a driver of the cluster
while it is connected. The node's agent exports them at its `MetricsExportPort`,
if `ray[default]` is installed there. A call only writes to memory. Ray sends the
values at intervals, and drops unsent ones when it disconnects.
"""

from collections.abc import Sequence
from typing import Any

import ray

from chaos.extensions.cluster.existing.prometheus import Metric, MetricFigures, MetricPoint
from chaos.launch.ray import compat
from chaos.model.history import JournalEntry
from chaos.model.plan import Plan
from chaos.run.clock import Clock, elapsed_seconds
from chaos.run.ports import Say, ShowEntries

# Beyond Ray's interval, so that the last points are exported before the driver disconnects.
MARGIN_S = 0.5


class Meters:
    """The counters and histograms of one connection to a cluster."""

    def __init__(self, report: Say, clock: Clock) -> None:
        self._report = report
        self._clock = clock
        self._recorded_ns: int | None = None
        self._meters: dict[str, Any] = {}
        self._is_broken = False

    def wrap_show(self, show: ShowEntries, plan: Plan) -> ShowEntries:
        """Return a function that shows a run's entries, and also records their points."""
        figures = MetricFigures(plan)

        def show_and_record(entries: Sequence[JournalEntry]) -> None:
            show(entries)
            self._record(figures, entries)

        return show_and_record

    def await_export(self) -> None:
        """Wait until Ray has sent the last values, if an agent takes them."""
        if self._recorded_ns is None or self._is_broken or not _is_exported():
            return
        remaining_s = (
            compat.metrics_interval_s() + MARGIN_S - elapsed_seconds(self._recorded_ns, self._clock)
        )
        if remaining_s > 0:
            self._clock.sleep(remaining_s)

    def _record(self, figures: MetricFigures, entries: Sequence[JournalEntry]) -> None:
        if self._is_broken:
            return
        try:
            for point in figures.add_entries(entries):
                self._add(point)
        except Exception as error:  # noqa: BLE001 - no run may end for its metrics
            self._is_broken = True
            self._report(f"warning: no more metrics of this run: {type(error).__name__}: {error}")

    def _add(self, point: MetricPoint) -> None:
        meter = self._meters.get(point.metric.name)
        if meter is None:
            meter = self._meters[point.metric.name] = _create_meter(point.metric)
        self._recorded_ns = self._clock.now_ns()
        tags = dict(point.tags)
        if point.metric.boundaries:
            meter.observe(point.value, tags=tags)
        else:
            meter.inc(point.value, tags=tags)


def _create_meter(metric: Metric) -> Any:  # a Counter or Histogram of Ray
    from ray.util import metrics

    options = {"description": metric.description, "tag_keys": metric.tags}
    if metric.boundaries:
        return metrics.Histogram(metric.name, boundaries=list(metric.boundaries), **options)
    return metrics.Counter(metric.name, **options)


def _is_exported() -> bool:
    """Return whether this node's agent exports metrics: without `ray[default]` its port is -1."""
    try:
        node_id = ray.get_runtime_context().get_node_id()
        return any(row["NodeID"] == node_id and row["MetricsExportPort"] > 0 for row in ray.nodes())
    except Exception:  # noqa: BLE001 - no run may end for its metrics
        return False
