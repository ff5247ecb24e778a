"""The samples of an epoch that fewer workers train on."""

from chaos.model import event as ev
from chaos.model.history import History
from tests.accepted import expect_text
from tests.check.fewer_workers import STORY, fed, judged, part, shrunk
from tests.check.tamper import changed
from tests.check.watching import digest
from tests.findings import expect_finding


def test_an_epoch_has_the_same_samples_with_fewer_workers() -> None:
    samples = judged(shrunk(STORY.history()))["samples"]

    assert (samples.status, samples.evidence) == ("pass", 4)
    expect_text(samples.summary)


def test_samples_that_one_worker_trains_over_and_over_are_found() -> None:
    def one(done: ev.StepDone) -> ev.Inputs:
        first, mine = part(done.epoch, 1), part(done.epoch, done.step)
        assert first.samples is not None
        return ev.Inputs(count=mine.count, digest="d", samples=first.samples[:8] * mine.count)

    samples = judged(fed(one))["samples"]

    assert samples.status == "fail"
    expect_finding(
        samples,
        "epoch-samples-uneven",
        epoch=2,
        sample_count=24,
        missing_count=23,
        surplus_count=23,
    )


def test_a_part_of_the_epoch_that_fewer_workers_never_train_is_not_known_to_be_right() -> None:
    half = judged(fed(lambda done: part(done.epoch, done.step, of=12)))["samples"]

    assert half.status == "inconclusive"
    expect_text(half.summary)


def test_fewer_workers_that_make_as_many_steps_as_before_are_no_defect() -> None:
    """Each report comes after a number of steps, wherever in the data that is."""

    def stretch(done: ev.StepDone) -> ev.Inputs:
        mine = [f"{100 * done.epoch + 10 * done.rank + done.step:08x}"]
        return ev.Inputs(count=1, digest=digest(mine), samples="".join(mine))

    baseline = changed(STORY.baseline(), ev.StepDone, inputs=stretch)
    run = changed(History(shrunk(STORY.history())), ev.StepDone, inputs=stretch)

    samples = judged(list(run), baseline)["samples"]

    assert (samples.status, samples.evidence) == ("pass", 2)
    expect_text(samples.summary)


def test_inputs_of_fewer_workers_that_were_not_seen_are_not_counted() -> None:
    samples = judged(fed(lambda _: None))["samples"]

    assert (samples.status, samples.evidence) == ("pass", 2)
    expect_text(samples.summary)
