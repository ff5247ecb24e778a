"""Parts of a state are found again by what they belong to, whatever number they had."""

import pytest

from chaos.check.analysis import RunTables
from chaos.check.tolerance import EXACT
from chaos.model import event as ev
from chaos.resume.state_at_resume import ResumeComparison
from chaos.resume.state_snapshots import StateSnapshots, find_differing_parts, index_parts
from tests.check.scribe import history_of

Told = dict[str, str]  # a part's name, and "structure=content"


def seen(parts: Told, *, attempt: int = 0, epoch: int = 0, moment: str = "entered") -> ev.StateSeen:
    return ev.StateSeen(
        attempt=attempt,
        rank=0,
        epoch=epoch,
        step=0,
        moment=moment,  # type: ignore[arg-type]
        components=tuple(
            ev.Component(name=name, digest=told.partition("=")[2], structure=told.partition("=")[0])
            for name, told in parts.items()
        ),
    )


def names(snapshots: StateSnapshots) -> list[list[str]]:
    return [sorted(index_parts(state)) for _, state in snapshots.numbered_snapshots]


def test_a_part_keeps_its_name_when_another_before_it_is_gone() -> None:
    of = StateSnapshots(
        history_of(
            seen({"model": "auto=1", "model.1": "head=1", "optimizer.1.lr": "h=.1"}),
            seen({"model": "head=2", "optimizer.lr": "h=.1"}, epoch=1),
        )
    )

    assert names(of) == [
        ["model", "model.1", "optimizer.1.lr"],
        ["model.1", "optimizer.1.lr"],
    ]


def test_a_run_names_its_parts_as_its_baseline_does() -> None:
    baseline = StateSnapshots(
        history_of(seen({"model": "auto=1"}), seen({"model": "head=1"}, epoch=1))
    )
    run = StateSnapshots(
        history_of(seen({"model": "head=1", "model.1": "third=1"}, epoch=1)), baseline
    )

    assert names(baseline) == [["model"], ["model.1"]]
    assert names(run) == [["model.1", "model.2"]]
    assert (
        index_parts(run.numbered_snapshots[0][1])["model.1"]
        == index_parts(baseline.numbered_snapshots[1][1])["model.1"]
    )


def test_of_owners_that_are_alike_another_number_of_them_is_not_the_same() -> None:
    baseline = StateSnapshots(history_of(seen({"model": "twin=copy", "model.1": "twin=own"})))
    both = StateSnapshots(history_of(seen({"model": "twin=copy", "model.1": "twin=own"})), baseline)
    one = StateSnapshots(history_of(seen({"model": "twin=own"})), baseline)

    due = baseline.numbered_snapshots[0][1]
    assert not list(find_differing_parts(both.numbered_snapshots[0][1], due, EXACT))
    assert not list(find_differing_parts(one.numbered_snapshots[0][1], due, EXACT))
    assert names(one) == [["model.2"]]


def test_parts_without_a_structure_keep_their_names() -> None:
    told = seen({"rng.torch": "=a", "optimizer.slots.1": "=b", "model.weights": "=c"})

    [(_, state)] = StateSnapshots(history_of(told)).numbered_snapshots

    assert state == told


@pytest.mark.parametrize(
    ("ours", "standing"),
    [
        ({"optimizer.state": "o=x", "optimizer.exp_avg": "o=1"}, "restored"),
        ({"optimizer.state": "o=x"}, "not restored"),
        ({"optimizer.state": "other=x"}, "not compared"),
        ({}, "not compared"),
    ],
)
def test_a_part_is_lost_only_where_what_it_belongs_to_is_there(ours: Told, standing: str) -> None:
    parts = {"optimizer.state": "o=x", "optimizer.exp_avg": "o=1"}
    baseline = RunTables(history_of(seen(parts, epoch=1)))
    run = RunTables(
        history_of(
            ev.WorkerStarted(
                attempt=1, rank=0, world_size=1, pid=1, node_id="n", checkpoint="c0", epoch=1
            ),
            seen(ours, attempt=1, epoch=1),
            ev.StepDone(attempt=1, rank=0, epoch=1, step=1, losses=(1.0,)),
        ),
        baseline,
    )
    beside = ResumeComparison(run.snapshots, baseline.snapshots, frozenset(), EXACT)

    rows = beside.build_rows(run.attempts)

    assert {row.component: row.standing for row in rows}["optimizer.exp_avg"] == standing
