"""A model, and its buffers, lost between training, file and resume."""

import msgspec
import pytest

from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.verdict import Verdict
from tests.check.causes import with_files
from tests.check.each import judge_each
from tests.check.parts import KILLED, fresh, lost
from tests.check.tamper import changed, restored_wrong
from tests.check.watching import digest
from tests.findings import expect_finding, expect_in_headline


def moved(history: History, step: int, *, epoch: int = 2) -> History:
    """Return that losses differ from one step of a resumed epoch on."""

    def hit(done: ev.StepDone) -> bool:
        return done.attempt >= 1 and (done.epoch, done.step) >= (epoch, step)

    return changed(history, ev.StepDone, hit, losses=lambda e: (e.losses[0] + 0.01,))


def wrong(*names: str, since: int = 1) -> History:
    history = KILLED.history()
    for name in names:
        ours = None if name == "optimizer.momentum_buffer" else fresh(name)
        history = restored_wrong(history, name, ours, since=since)
    return history


# -- buffers --------------------------------------------------------------------------------------


def with_buffers(history: History, *, resumed: float | None = None, left: bool = True) -> History:
    """Tell of running statistics whose norm is 9 in the baseline, and 1 at the very beginning."""

    def parts(seen: ev.StateSeen) -> tuple[ev.Component, ...]:
        size = 1.0 if (seen.attempt, seen.epoch, seen.step) == (0, 0, 0) else 9.0
        if seen.attempt and resumed is not None and (left or seen.moment == "entered"):
            size = resumed
        name = "model.buffers"
        told = ev.Component(name=name, digest=digest(size, seen.epoch, seen.step), size=size)
        return (*seen.components, told)

    return changed(history, ev.StateSeen, components=parts)


def buffers(history: History, resumed: float) -> Verdict:
    mine, due = with_buffers(history, resumed=resumed), with_buffers(KILLED.baseline())
    return judge_each(KILLED.plan(), mine, due)


def test_running_statistics_that_were_lost_have_a_remedy_of_their_own() -> None:
    verdict = buffers(KILLED.history(), 1.2)

    expect_in_headline(
        verdict,
        "part-not-restored",
        part="model.buffers",
        standing="different",
        expects_own_state=False,
    )


@pytest.mark.parametrize(("buffer_count", "kind"), [(1, "part-changed"), (2, "part-not-restored")])
def test_buffers_that_the_file_holds_are_not_said_to_be_missing_there(
    buffer_count: int, kind: str
) -> None:
    entered = next(e for _, e in KILLED.history().select_events(ev.StateSeen))
    model = next(part for part in entered.components if part.name == "model")
    in_file = ev.SavedPart(
        name="net", kind="numbers", digest="x", tensors="x", count=model.count + buffer_count
    )
    verdict = buffers(moved(with_files(KILLED.history(), in_file), 1), 1.2)

    expect_in_headline(verdict, kind, part="model.buffers", standing="different")
    assert verdict.broken[0].anomalies[0].is_unexplained == (kind == "part-changed")


@pytest.mark.parametrize(("count", "is_said"), [(0, False), (1, True)])
def test_an_optimizer_that_the_file_holds_is_not_said_to_be_missing_from_it(
    count: int, *, is_said: bool
) -> None:
    name = "optimizer.momentum_buffer"
    entry = next(e for _, e in KILLED.baseline().select_events(ev.StateSeen) if e.epoch == 2)
    due = next(part for part in entry.components if part.name == name)
    parts = (
        ev.SavedPart(name="train.optimizer.state", kind="numbers", digest="x", count=due.count),
        ev.SavedPart(name="train.optimizer.param_groups", kind="numbers", digest="y"),
    )

    history = with_files(lost(name), *parts[: 1 + count])
    verdict = judge_each(KILLED.plan(), history, KILLED.baseline())

    assert ("read holds an optimizer" in verdict.headline) is is_said
    assert ("Likely it was not saved" in verdict.headline) is not is_said


def test_one_state_in_the_file_is_not_said_to_be_that_of_each_of_two_optimizers() -> None:
    name = "optimizer.momentum_buffer"
    due = next(
        part
        for _, seen in KILLED.baseline().select_events(ev.StateSeen)
        for part in seen.components
        if seen.epoch == 2 and part.name == name
    )
    second = msgspec.structs.replace(due, name="optimizer.1.momentum_buffer")
    history, baseline = (
        changed(
            told,
            ev.StateSeen,
            lambda seen: True,
            components=lambda seen: (*seen.components, second),
        )
        for told in (lost(name), KILLED.baseline())
    )
    in_file = (
        ev.SavedPart(name="opt.state", kind="numbers", digest="x", count=due.count),
        ev.SavedPart(name="opt.param_groups", kind="numbers", digest="y"),
    )

    verdict = judge_each(KILLED.plan(), with_files(history, *in_file), baseline)

    assert "Likely it was not saved" in verdict.headline


def test_running_statistics_that_follow_from_other_masks_are_no_cause() -> None:
    history = moved(wrong("rng.torch"), 1)

    near, far = buffers(history, 8.9), buffers(history, 1.2)

    assert [a.parts[0] for a in near.broken[0].anomalies] == ["rng.torch"]
    assert [a.parts[0] for a in far.broken[0].anomalies] == ["model.buffers"]


def test_a_buffer_and_its_model_are_one_cause() -> None:
    verdict = buffers(moved(wrong("model"), 1), 1.2)

    (cause,) = verdict.broken[0].anomalies
    assert cause.parts == ("model", "model.buffers")
    expect_finding(cause, "part-not-restored", part="model", expects_own_state=False)
