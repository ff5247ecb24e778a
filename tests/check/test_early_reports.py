"""A report that comes before its attempt trains anything ends no epoch."""

from typing import Any

import pytest

from chaos.check.analysis import RunTables
from chaos.check.attempt import attempts
from chaos.check.restarts import restarts
from chaos.model import event as ev
from chaos.model.history import Entry, History


def told(line: str) -> History:
    """One rank: `g0` an attempt that goes on at epoch 0, `e` an early report, `s` a step, `c`."""
    events: list[ev.AnyEvent] = []
    attempt, epoch, step = -1, 0, 0
    for word in line.split():
        match word[0]:
            case "g":
                attempt, epoch, step = attempt + 1, int(word[1:]), 0
                start: dict[str, Any] = {"attempt": attempt, "epoch": epoch, "checkpoint": None}
                events.append(ev.WorkerStarted(**start, rank=0, world_size=1, pid=1, node_id="n"))
            case "s":
                step += 1
                place: dict[str, Any] = {"attempt": attempt, "epoch": epoch, "step": step}
                events.append(ev.StepDone(**place, rank=0, losses=(1.0,)))
            case early:
                is_early = early == "e"
                events.append(
                    ev.Committed(
                        attempt=attempt,
                        epoch=epoch - is_early,
                        checkpoint=f"{word}{len(events)}",
                        metrics=({},),
                        early=is_early,
                    )
                )
                epoch, step = epoch + (not is_early), 0
    return History([Entry(time_ns=n, source="w", seq=n, what=e) for n, e in enumerate(events)])


@pytest.mark.parametrize(
    ("line", "epochs", "due"),
    [
        pytest.param("g0 e s c s c", [0, 1], None, id="validated at the fresh start"),
        pytest.param("g0 e s c s g1 e s c", [0, 1], None, id="and at a resume"),
        pytest.param("g0 s c s g1 e e s c", [0, 1], None, id="at a resume alone, twice"),
        pytest.param("g0 e g0 e s c", [0], None, id="killed before it trained"),
        pytest.param("g0 s c g1 e", [0, 1], None, id="nothing left but its last report"),
        pytest.param("g0 s c g1 e", [0], 1, id="nothing left but to validate"),
        pytest.param("g0 s c g1 e e", [0, 1], 2, id="nothing left but to validate and report"),
        pytest.param("g0 e e e", [0, 1, 2], None, id="no step is ever seen"),
    ],
)
def test_epochs_are_what_was_trained(line: str, epochs: list[int], due: int | None) -> None:
    found = attempts(told(line), due)

    assert sorted({commit.epoch for a in found for commit in a.commits}) == epochs


def test_its_checkpoint_may_be_gone_on_from() -> None:
    course = RunTables(told("g0 e s g0 s c"))

    [restart] = restarts(course.history, course.attempts, course.lineage, ())

    assert restart.newest is not None
    assert restart.newest.epoch == -1
    assert set(course.committed) == {"e1", "c5"}
