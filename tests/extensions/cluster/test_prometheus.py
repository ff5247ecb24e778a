"""What Prometheus is told of a run: each fault and each restart once, as soon as it is known."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from chaos.check.analysis import RunAnalysis
from chaos.extensions.cluster.existing.prometheus import (
    FAULTS,
    LOST_STEPS,
    METRICS,
    RECOVERIES,
    RECOVERY_S,
    Metric,
    MetricFigures,
    MetricPoint,
    build_points,
)
from chaos.model import event as ev
from chaos.model.history import History
from chaos.report.outcome import FinishedRun, build_suite_row
from tests.check.story import Story, Strike
from tests.check.tamper import analysis_of, changed, rows, verdict_on, without

KILLED = Story((Strike(2, 3, 1),))
TWICE = Story((Strike(1, 2, 0), Strike(2, 3, 1, kind="preempt_node")))


def told(story: Story, history: History | None = None) -> list[MetricPoint]:
    return list(build_points(analysis_of(story, history)))


def of(metric: Metric, found: list[MetricPoint]) -> list[MetricPoint]:
    return [point for point in found if point.metric == metric]


def values(found: list[MetricPoint]) -> list[tuple[str, float, dict[str, str]]]:
    return [(point.metric.name, point.value, dict(point.tags)) for point in found]


def test_a_killed_worker_is_a_fault_a_recovery_and_the_steps_that_were_lost() -> None:
    tags = {"fault": "kill_worker", "scenario": "a test"}

    assert values(told(KILLED)) == [
        ("chaos_faults_injected", 1, {**tags, "status": "ok"}),
        ("chaos_recoveries", 1, tags),
        ("chaos_recovery_seconds", 0.986, tags),
        ("chaos_lost_steps", 3, tags),
    ]


def test_a_run_that_was_left_alone_tells_nothing() -> None:
    assert told(Story()) == []


def test_a_fault_that_failed_is_told_as_such() -> None:
    failed = changed(KILLED.history(), ev.FaultEnded, status="fail")

    (fault,) = of(FAULTS, told(KILLED, failed))

    assert fault.tags["status"] == "fail"


def test_a_restart_that_nobody_caused_is_told_without_a_fault_and_without_a_time() -> None:
    alone = without(without(KILLED.history(), ev.FaultInvoked), ev.FaultEnded)

    found = told(KILLED, alone)

    assert [point.metric for point in found] == [RECOVERIES, LOST_STEPS]
    assert {point.tags["fault"] for point in found} == {"none"}


def test_an_attempt_that_makes_no_step_is_no_recovery_and_its_loss_counts() -> None:
    still = without(KILLED.history(), ev.StepDone, lambda e: e.attempt == 1)

    assert [point.metric for point in told(KILLED, still)] == [FAULTS, LOST_STEPS]


def test_the_figures_are_those_of_the_report() -> None:
    analysis = analysis_of(TWICE)
    run = FinishedRun(analysis.plan, {}, analysis.history, None, verdict_on(TWICE), "x", 1.0)
    row, found = build_suite_row(run), told(TWICE)

    assert max(point.value for point in of(RECOVERY_S, found)) == row.recovery_s
    assert len(of(RECOVERIES, found)) == (row.attempts or 0) - 1
    assert [point.tags["fault"] for point in of(RECOVERIES, found)] == [
        "kill_worker",
        "preempt_node",
    ]


def test_a_fault_is_told_when_it_is_over_and_a_recovery_when_every_rank_trains_again() -> None:
    history, figures = KILLED.history(), MetricFigures(KILLED.plan())
    came = {p.metric: n for n, entry in enumerate(history) for p in figures.add_entries([entry])}

    (over,) = rows(history, ev.FaultEnded)
    firsts = {
        e.rank: n for n, e in reversed(list(history.select_events(ev.StepDone))) if e.attempt == 1
    }
    assert came[FAULTS] == over
    assert came[RECOVERIES] == came[RECOVERY_S] == came[LOST_STEPS] == max(firsts.values())


def test_what_a_strike_under_way_may_still_change_waits_for_its_end() -> None:
    history = KILLED.history()
    (over,) = rows(history, ev.FaultEnded)
    late = [e for n, e in enumerate(history) if n != over]
    figures = MetricFigures(KILLED.plan())

    assert figures.add_entries(late[:-1]) == ()
    assert len(figures.add_entries([history[over], late[-1]])) == 4


@given(st.lists(st.integers(min_value=0, max_value=len(TWICE.history())), max_size=12))
def test_however_the_history_comes_each_point_is_given_once(cuts: list[int]) -> None:
    history, figures = TWICE.history(), MetricFigures(TWICE.plan())
    places = [0, *sorted(cuts), len(history)]

    found = [p for a, b in pairwise(places) for p in figures.add_entries(history[a:b])]

    key = lambda point: (point.metric.name, point.subject)  # noqa: E731
    assert sorted(found, key=key) == sorted(
        build_points(RunAnalysis(TWICE.plan(), history)), key=key
    )


def test_tables_are_made_for_what_may_bring_a_point_and_not_for_every_step() -> None:
    history, made = TWICE.history(), []

    class Counting(MetricFigures):
        def _can_complete_point(self, what: ev.AnyEvent) -> bool:
            tells = super()._can_complete_point(what)
            made.append(tells)
            return tells

    figures = Counting(TWICE.plan())
    for entry in history:
        figures.add_entries([entry])

    assert sum(made) == 2 + 2 * TWICE.ranks + 1  # two faults, each rank of two attempts, the end


def test_names_follow_rays_and_prometheus_rules() -> None:
    for metric in METRICS:
        assert metric.name.startswith("chaos_")
        assert not metric.name.endswith("_total")  # the exporter adds it
        assert list(metric.boundaries) == sorted(set(metric.boundaries))
        assert all(boundary > 0 for boundary in metric.boundaries)
