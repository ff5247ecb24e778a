"""A job that goes back a little at every resume is found at every number of resumes."""

import msgspec
import pytest

from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.history import History
from tests.check.story import Story, Strike


def one_epoch_back(story: Story) -> History:
    """Tell of a job that trains the finished epoch again, each time that it resumes."""
    due = {(e.rank, e.epoch, e.step): e for _, e in story.baseline().select_events(ev.StepDone)}
    entries = []
    for entry in story.history():
        what = entry.event
        if isinstance(what, ev.StepDone) and what.attempt:
            theirs = due[what.rank, what.epoch - what.attempt, what.step]
            what = msgspec.structs.replace(what, inputs=theirs.inputs, losses=theirs.losses)
        entries.append(msgspec.structs.replace(entry, event=what))
    return History(entries)


@pytest.mark.parametrize("resumes", [1, 2, 3])
def test_each_epoch_that_is_trained_again_adds_to_those_before(resumes: int) -> None:
    strikes = tuple(Strike(epoch=1 + n, step=3, rank=1) for n in range(resumes))
    story = Story(strikes=strikes, extra=resumes)

    verdict = judge(story.plan(), one_epoch_back(story), story.baseline())

    assert verdict.broken[0].check == "cursor", verdict.headline
    assert "went back" in verdict.broken[0].summary
