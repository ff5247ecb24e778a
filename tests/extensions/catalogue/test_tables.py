"""The lists of `chaos list` are whole, and fit a terminal."""

import pytest
from rich.console import Console

from chaos.check.judge import CHECKS
from chaos.extensions.catalogue.tables import (
    TOPICS,
    Topic,
    build_catalogue,
    list_check_rows,
    list_fault_rows,
    list_place_rows,
)
from chaos.model.fault_entry import FAULTS
from chaos.model.trigger import KINDS, MOMENTS


def test_every_fault_moment_and_check_is_listed_with_what_it_is() -> None:
    assert [name for name, _ in list_fault_rows()] == list(FAULTS)
    assert [name for name, _ in list_check_rows()] == [check.NAME for check in CHECKS]
    places = [name for name, _ in list_place_rows()]
    assert places[1 : 1 + len(MOMENTS)] == [f"moment: {m}" for m in MOMENTS]
    assert all(any(kind in name for name in places) for kind in KINDS)
    assert all(
        what
        for rows in (list_fault_rows(), list_place_rows(), list_check_rows())
        for _, what in rows
    )


def test_a_setting_that_must_be_given_has_no_default() -> None:
    told = dict(list_fault_rows())

    assert told["preempt_node"].endswith("{notice_s: …, reclaim: on_time}")
    assert told["kill_controller"].endswith(".")


@pytest.mark.parametrize("topic", TOPICS)
def test_a_list_fits_80_columns(topic: Topic) -> None:
    console = Console(width=80, file=None)
    with console.capture() as captured:
        console.print(build_catalogue(topic))

    assert max(len(line) for line in captured.get().splitlines()) <= 80
