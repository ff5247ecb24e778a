"""Which strikes can show a bug, by place."""

import pytest

from chaos.check.judge import CHECKS
from chaos.extensions.lab.selftest.catalogue import EXHIBITS, CatalogueJob, Variant
from chaos.faults.kill_worker import KillWorker
from chaos.model.plan import Op
from chaos.model.trigger import AtMoment, AtStep, Moment


def exhibit(name: str) -> CatalogueJob:
    return next(e for e in EXHIBITS if e.id == name)


def variant(epochs: int = 4, steps: int = 5, cadence: int = 2) -> Variant:
    return Variant(
        epochs=epochs,
        steps_per_epoch=steps,
        cadence=cadence,
        seed=0,
        batch_size=8,
        optimizer="sgd",
    )


def step(epoch: int, step: int = 1) -> Op:
    return Op(index=0, at=AtStep(epoch=epoch, step=step, rank=1), kill_worker=KillWorker())


def moment(epoch: int, moment: Moment) -> Op:
    at = AtMoment(epoch=epoch, moment=moment, rank=0)
    return Op(index=0, at=at, kill_worker=KillWorker())


def shows(name: str, op: Op, choices: Variant | None = None) -> bool:
    return exhibit(name).has_revealing_fault(choices or variant(), (op,))


RESTORING = ("Z01", "Z03", "Z07", "Z09", "Z11", "Z13", "Z15", "Z23")


@pytest.mark.parametrize("bug", RESTORING)
def test_before_the_first_commit_a_bug_in_restoring_is_masked(bug: str) -> None:
    assert not shows(bug, step(0, 4))
    assert not shows(bug, moment(0, "upload_end"))
    assert not shows(bug, moment(0, "reported"))


@pytest.mark.parametrize("bug", RESTORING)
def test_after_a_commit_a_bug_in_restoring_shows(bug: str) -> None:
    assert shows(bug, moment(0, "committed"))
    assert shows(bug, step(1))
    assert shows(bug, moment(3, "saving"))


def test_after_the_last_commit_only_doing_it_again_shows() -> None:
    last = moment(3, "committed")

    assert [bug for bug in RESTORING if shows(bug, last)] == ["Z01", "Z03"]


def test_a_restarted_epoch_shows_from_its_middle_alone() -> None:
    # Five steps, saved after 2, 4 and 5: epoch 0, 1 and 2 as chaos counts.
    assert [epoch for epoch in range(7) if shows("Z05", step(epoch))] == [1, 2, 4, 5]


def test_names_sorted_as_text_go_wrong_from_two_digits_on() -> None:
    # Saved after steps 5, 10, 15 and 20: "5" comes last.
    assert [epoch for epoch in range(4) if shows("Z19", step(epoch))] == [2, 3]
    assert not shows("Z19", moment(2, "saving"))
    assert shows("Z19", moment(3, "saving"))
    # Saved after steps 4, 8 and 12.
    choices = variant(steps=4)
    assert [epoch for epoch in range(4) if shows("Z19", step(epoch), choices)] == [3]


@pytest.mark.parametrize("bug", ["Z17", "Z21"])
def test_a_bug_in_saving_shows_inside_a_save_alone(bug: str) -> None:
    assert shows(bug, moment(1, "saving"))
    assert not shows(bug, step(2, 5))
    assert not shows(bug, moment(2, "committed"))


def test_one_strike_of_several_is_enough() -> None:
    bug = exhibit("Z07")

    assert bug.has_revealing_fault(variant(), (step(0), step(2)))
    assert not bug.has_revealing_fault(variant(), ())


def test_nothing_reveals_a_bug_in_a_control() -> None:
    assert not any(shows(e.id, step(2)) for e in EXHIBITS if e.is_control)


def test_every_bug_names_who_should_see_it_and_every_control_nobody() -> None:
    assert all(bool(e.first_checks) != e.is_control for e in EXHIBITS)


@pytest.mark.parametrize("name", sorted({name for e in EXHIBITS for name in e.first_checks}))
def test_who_should_see_a_bug_is_a_check_that_exists(name: str) -> None:
    assert name in {check.NAME for check in CHECKS}
