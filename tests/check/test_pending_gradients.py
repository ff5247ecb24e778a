"""A step whose first micro-batches came back with the save, and one of which they did not."""

import msgspec
import pytest

from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.history import History
from tests.check.story import Story, Strike, loss
from tests.check.tamper import changed
from tests.check.watching import digest

KILLED = Story((Strike(2, 3, 1),))
MICRO = ("1a" * 4, "2b" * 4, "3c" * 4)  # one sample each


def accumulated(history: History, *, since: int) -> History:
    """Return that a first step has three micro-batches, in attempt 1 those from one on."""

    def parts(done: ev.StepDone) -> slice:
        return slice(since if done.attempt else 0, None)

    def inputs(done: ev.StepDone) -> ev.Inputs:
        samples = [f"{done.rank}{sample[1:]}" for sample in MICRO[parts(done)]]
        return ev.Inputs(count=len(samples), digest=digest(samples), samples="".join(samples))

    def losses(done: ev.StepDone) -> tuple[float, ...]:
        return tuple(loss(done.rank, 2, 1) + number for number in range(3))[parts(done)]

    where = lambda done: (done.epoch, done.step) == (2, 1)  # noqa: E731 (one word of a line)
    return changed(history, ev.StepDone, where, inputs=inputs, losses=losses)


def with_gradients(history: History, *ranks: int) -> History:
    """Return that these ranks had gradients before the first backward pass of attempt 1."""
    part = ev.Component(name="gradients", digest="ab" * 8, size=0.5)

    def entered(seen: ev.StateSeen) -> bool:
        return seen.attempt == 1 and seen.moment == "entered" and seen.rank in ranks

    more = lambda seen: (*seen.components, part)  # noqa: E731 (one word of a line)
    return changed(history, ev.StateSeen, entered, components=more)


def broken(history: History) -> list[str]:
    verdict = judge(KILLED.plan(), history, accumulated(KILLED.baseline(), since=1))
    return [result.check for result in verdict.broken]


def test_a_step_that_goes_on_from_gradients_of_the_save_is_the_baselines() -> None:
    run = with_gradients(accumulated(KILLED.history(), since=1), 0, 1)

    assert broken(run) == []


def test_a_step_without_the_gradients_of_the_save_saw_too_little() -> None:
    assert "batch" in broken(accumulated(KILLED.history(), since=1))


def test_gradients_that_came_back_on_one_rank_alone_are_not_those_of_the_other() -> None:
    run = with_gradients(accumulated(KILLED.history(), since=1), 0)

    assert "batch" in broken(run)


@pytest.mark.parametrize("field", ["samples", "losses"])
def test_gradients_do_not_speak_for_micro_batches_of_another_place(field: str) -> None:
    run = with_gradients(accumulated(KILLED.history(), since=1), 0, 1)

    def other(done: ev.StepDone) -> ev.Inputs | None:
        assert done.inputs is not None
        samples = "ff" * 4 + str(done.inputs.samples)[8:] if field == "samples" else None
        return msgspec.structs.replace(done.inputs, samples=samples)

    first = lambda done: (done.attempt, done.epoch, done.step) == (1, 2, 1)  # noqa: E731
    moved = lambda done: tuple(value + 1 for value in done.losses)  # noqa: E731
    run = changed(run, ev.StepDone, first, inputs=other, losses=moved)

    assert "batch" in broken(run)
