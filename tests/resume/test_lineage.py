"""The commits that count, where a checkpoint is older than the report that it came with."""

from typing import Literal

from hypothesis import given

from chaos.model.event import FileWritten, StateSeen, StepDone
from chaos.model.places import TrainingPlace
from chaos.resume.attempt import Attempt, Commit, RankStart
from chaos.resume.lineage import build_lineage
from chaos.resume.steps import Step, Steps
from tests.check.story import Story
from tests.check.tamper import analysis_of
from tests.check.test_judge_properties import stories

FIRST = Commit(20, 0, 0, "ckpt-0", (), saved_place=TrainingPlace(0, 2))


def attempt(
    index: int, start: RankStart, places: list[tuple[int, int]], *commits: Commit
) -> Attempt:
    steps = Steps(
        Step(n, StepDone(attempt=index, rank=0, epoch=epoch, step=step, losses=()))
        for n, (epoch, step) in enumerate(places, 30 * index)
    )
    return Attempt(
        index=index,
        group_started=30 * index,
        worker_locations=(),
        starts={0: start},
        steps=steps,
        commits=commits,
        reported_epochs=frozenset(),
        reading_ranks=frozenset(),
        decisions=(),
    )


BEFORE = attempt(0, RankStart(0, 0, None, 0), [(0, 1), (0, 2), (0, 3), (0, 4), (1, 1)], FIRST)
RESUMED = RankStart(30, 0, "ckpt-0", 0, 2)


def test_an_epoch_that_was_reported_with_the_checkpoint_stays_reported() -> None:
    """A save that was made beside training is reported when it is whole, and not a second time."""
    second = Commit(40, 1, 1, "ckpt-1", (), saved_place=TrainingPlace(1, 0))
    resumed = attempt(1, RESUMED, [(0, 3), (0, 4), (1, 1)], second)

    found = build_lineage([BEFORE, resumed])

    assert found.commits == (FIRST, second)
    assert found.count_steps(0, 0) == 4


def test_an_epoch_that_is_reported_again_counts_once() -> None:
    again = Commit(40, 1, 0, "ckpt-1", ())

    assert build_lineage([BEFORE, attempt(1, RESUMED, [(0, 3), (0, 4)], again)]).commits == (again,)


def test_a_commit_after_the_one_that_is_resumed_from_is_dropped() -> None:
    later = Commit(25, 0, 1, "ckpt-1", ())
    before = attempt(0, RankStart(0, 0, None, 0), [(0, 1), (0, 2), (1, 1)], FIRST, later)

    assert build_lineage([before, attempt(1, RESUMED, [(0, 3)])]).commits == (FIRST,)


def test_epochs_that_are_reported_once_more_stand_in_their_order() -> None:
    """The checkpoint of epoch 2 was of epoch 0, as that of a best value may be."""
    first = [Commit(n, 0, n, f"ckpt-{n}", (), saved_place=TrainingPlace(1, 0)) for n in range(3)]
    before = attempt(0, RankStart(0, 0, None, 0), [(n, 1) for n in range(3)], *first)
    again = Commit(40, 1, 1, "ckpt-3", (), saved_place=TrainingPlace(1, 0))
    resumed = attempt(1, RankStart(30, 0, "ckpt-2", 1), [(1, 1), (2, 1)], again)

    found = build_lineage([before, resumed])

    assert found.commits == (first[0], again)


@given(stories())
def test_a_step_survives_if_it_is_in_the_lineage(story: Story) -> None:
    run = analysis_of(story).run
    kept = {step.number for step in run.lineage.all_steps()}

    every = [step for attempt in run.attempts for step in attempt.steps]

    assert {step.number for step in every if run.lineage.is_surviving(step)} == kept


def test_what_is_done_at_the_place_of_a_resume_is_done_again_unless_it_led_there() -> None:
    survives = build_lineage([BEFORE, attempt(1, RESUMED, [(0, 3)])]).is_surviving

    def state(moment: Literal["entered", "step", "left"], step: int) -> StateSeen:
        return StateSeen(attempt=0, rank=0, epoch=0, step=step, moment=moment, components=())

    def file(step: int) -> FileWritten:
        return FileWritten(
            attempt=0, rank=0, epoch=0, step=step, path="log.txt", digest="aa", bytes=1
        )

    assert survives(state("step", 2))
    assert survives(file(2))
    assert not survives(state("entered", 2))
    assert not survives(file(3))
    at_head = build_lineage(
        [BEFORE, attempt(1, RankStart(30, 0, "ckpt-0", 0), [(0, 1)])]
    ).is_surviving
    assert not at_head(file(0))
