"""What a clean run shows that a fault could change."""

from collections.abc import Mapping

import pytest

from chaos.audit.job_profile import find_evidence, is_counter
from chaos.model import event as ev
from chaos.model.history import History
from tests.check.story import Story
from tests.check.tamper import changed

QUIET = Story(epochs=3, steps=4).history()
BLIND = changed(
    History([entry for entry in QUIET if not isinstance(entry.event, ev.StateSeen)]),
    ev.StepDone,
    losses=None,
)


def reporting(*records: Mapping[str, object]) -> History:
    return changed(BLIND, ev.Committed, metrics=lambda e: (records[e.epoch],) * 2)


def test_losses_state_and_metrics_are_what_a_fault_can_change() -> None:
    assert set(find_evidence(QUIET)) == {"losses", "state", "metrics"}


@pytest.mark.parametrize(
    "series", [(0, 1, 2), (5, 10, 15), (1.0, 2.0, 3.0), (7, 7, 7), (0.1, 0.1), ("a", "b"), (True,)]
)
def test_a_counter_a_constant_and_a_name_are_no_measurement(series: tuple[object, ...]) -> None:
    assert is_counter(series)  # type: ignore[arg-type]


@pytest.mark.parametrize("series", [(0.5, 0.25), (3, 1, 2), (0.1, 0.2, 0.3), (1, 4, 9)])
def test_numbers_that_are_measured_are_one(series: tuple[float, ...]) -> None:
    assert not is_counter(series)


def test_a_job_that_reports_only_its_epoch_shows_nothing() -> None:
    assert [*find_evidence(reporting(*({"epoch": n, "name": "a"} for n in range(3))))] == []


def test_a_metric_that_is_never_the_same_twice_is_not_compared() -> None:
    history = reporting(*({"seconds": 0.1 * n * n} for n in range(3)))

    assert [*find_evidence(history)] == ["metrics"]
    assert [*find_evidence(history, ignore=("seconds",))] == []
