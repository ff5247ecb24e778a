"""The part of a run that survived."""

from tests.check.story import Story, Strike
from tests.check.tamper import analysis_of, resumed_at

KILLED = Story((Strike(2, 3, 1),))


def test_the_lineage_keeps_what_the_last_attempt_did_again() -> None:
    lineage = analysis_of(KILLED).run.lineage

    assert {lineage.count_steps(rank, epoch) for rank in (0, 1) for epoch in range(4)} == {6}
    assert [commit.epoch for commit in lineage.commits] == [0, 1, 2, 3]
    assert lineage.resumed_epochs == {(0, 2), (1, 2)}
    assert lineage.lost_steps == {0: {}, 1: {0: 3, 1: 3}}
    assert {step.attempt for step in lineage.select_steps(0, 2)} == {1}


def test_a_restart_further_back_takes_the_place_of_an_earlier_one() -> None:
    story = Story((Strike(2, 1), Strike(3, 1)))
    history = resumed_at(story.history(), epoch=1, attempt=2)

    lineage = analysis_of(story, history).run.lineage

    assert lineage.resumed_epochs == {(0, 1), (1, 1)}


def test_the_way_between_commits_counts_to_the_next_checkpoint() -> None:
    def longest(story: Story) -> int:
        return analysis_of(story).run.lineage.longest_commit_interval

    assert longest(Story()) == 6
    assert longest(Story(every=2)) == 12
    assert longest(Story(every=9)) == 24
    assert longest(Story(epochs=0)) == 0
