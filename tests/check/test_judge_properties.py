"""What holds for every right run, for every guilty one, and for every torn one."""

from dataclasses import replace

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from chaos.check.judge import CHECKS
from chaos.model import event as ev
from chaos.model.bounds import Bound
from chaos.model.history import History
from tests.check.each import judge_each
from tests.check.mutate import NoPlaceError
from tests.check.mutations import BROKEN, MUTATIONS
from tests.check.story import Story, Strike
from tests.check.tamper import result_on, rows, verdict_on

KINDS = ("kill_worker", "kill_node", "preempt_node")


@st.composite
def strikes(draw: st.DrawFn, *, epochs: int, steps: int, ranks: int) -> Strike:
    return Strike(
        epoch=draw(st.integers(0, epochs - 1)),
        step=draw(st.integers(1, steps)),
        rank=draw(st.integers(0, ranks - 1)),
        kind=draw(st.sampled_from(KINDS)),
        moment=draw(st.sampled_from([None, None, "reported", "committed"])),
        drift=draw(st.integers(1, steps)),
    )


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Return a right job, struck where every strike lands before the next one begins."""
    epochs, steps, ranks = draw(st.integers(1, 4)), draw(st.integers(1, 5)), draw(st.integers(1, 3))
    drawn = draw(st.lists(strikes(epochs=epochs, steps=steps, ranks=ranks), max_size=3))
    kills = sorted((s for s in drawn if s.kind != "preempt_node"), key=lambda s: s.epoch)
    preemptions = [s for s in drawn if s.kind == "preempt_node"][:1]
    return Story(
        tuple(preemptions if draw(st.booleans()) else kills),
        epochs=epochs,
        steps=steps,
        ranks=ranks,
        every=draw(st.integers(1, 2)),
        wall=draw(st.booleans()),
        sync=draw(st.booleans()),
        watch=draw(st.sampled_from([True, True, False])),
        files=draw(st.sampled_from([False, False, True])),
        keep=draw(st.sampled_from([None, 1, 2])),
        best=draw(st.booleans()),
    )


def struck(history: History) -> set[int]:
    """Return the ops that came to something while training was on."""
    over = rows(history, ev.FitReturned)[-1]
    return {event.op for number, event in history.select_events(ev.FaultEnded) if number < over}


@given(stories())
def test_a_right_run_is_never_accused(story: Story) -> None:
    verdict = verdict_on(story, epoch_metric="epoch", ignore_metrics=("seconds",))

    assert verdict.broken == ()
    landed = struck(story.history())
    assert verdict.status == ("pass" if len(landed) == len(story.strikes) else "inconclusive")


@given(stories())
def test_a_metric_that_never_repeats_accuses_nobody_and_is_always_named(story: Story) -> None:
    story = replace(story, wall=True, files=False)
    result = result_on("trajectory", story)
    named = (
        result.measures.get("metrics_not_compared"),
        result.measures.get("metrics_without_control"),
    )

    assert result.status != "fail"
    assert not story.strikes or "seconds" in named
    assert result.status == ("inconclusive" if named[1] else "pass")


@given(stories(), st.data())
def test_a_baseline_that_is_cut_short_accuses_nobody_and_clears_nobody(
    story: Story, data: st.DataObject
) -> None:
    whole = story.baseline()
    cut = History(whole.entries[: data.draw(st.integers(0, len(whole) - 1))])

    verdict = judge_each(story.plan(epoch_metric="epoch"), story.history(), cut)

    assert verdict.broken == ()
    assert verdict.status == "inconclusive"


@given(stories(), st.data())
def test_a_right_run_that_is_cut_short_is_never_accused_and_never_green(
    story: Story, data: st.DataObject
) -> None:
    whole = story.history()
    cut = History(whole.entries[: data.draw(st.integers(0, len(whole) - 1))])

    assert (
        judge_each(story.plan(epoch_metric="epoch"), cut, story.baseline()).status == "inconclusive"
    )


@given(stories(), st.data())
def test_judging_any_part_of_a_run_gives_the_same_verdict_twice_and_never_fails(
    story: Story, data: st.DataObject
) -> None:
    whole = story.history()
    gone = data.draw(st.sets(st.integers(0, len(whole) - 1), max_size=len(whole)))
    part = History([entry for number, entry in enumerate(whole) if number not in gone])
    baseline = data.draw(st.sampled_from([None, story.baseline()]))
    plan = story.plan(epoch_metric="epoch")

    verdict = judge_each(plan, part, baseline)

    assert verdict == judge_each(plan, part, baseline)
    assert not any("the check itself failed" in result.summary for result in verdict.results)
    ended = {event.op for _, event in part.select_events(ev.FaultEnded)}
    if ended != {op.index for op in plan.ops}:
        assert verdict.status != "pass"


STRUCK = Story((Strike(2, 2, 1),), epochs=4, steps=3, best=True, others=1)
HOMES = {
    "new work on a node that is to go": replace(STRUCK, strikes=(Strike(2, 2, 1, "preempt_node"),))
}


@st.composite
def struck_once(draw: st.DrawFn) -> Story:
    """Return a right job that one fault struck in an epoch that is not the last."""
    epochs, steps, ranks = draw(st.integers(3, 4)), draw(st.integers(2, 5)), draw(st.integers(2, 3))
    strike = draw(strikes(epochs=epochs - 1, steps=steps, ranks=ranks))
    return Story(
        (strike,),
        epochs=epochs,
        steps=steps,
        ranks=ranks,
        keep=draw(st.sampled_from([None, 2])),
        best=True,
        others=draw(st.integers(0, 1)),
    )


def assert_named(name: str, story: Story) -> None:
    mutate, check, status = MUTATIONS[name]

    verdict = verdict_on(story, mutate(story.history()))

    assert verdict.status == status, verdict.headline
    found = verdict.broken if status == "fail" else verdict.undecided
    assert found[0].check == check, [result.summary for result in found]


@pytest.mark.parametrize("name", MUTATIONS)
def test_every_defect_has_a_run_in_which_its_own_check_names_it_first(name: str) -> None:
    assert_named(name, HOMES.get(name, STRUCK))


def test_every_check_that_can_be_broken_has_a_defect() -> None:
    never = {"faults-happened", "watched"}  # these two ask whether there is anything to judge by

    assert {check for _, check in BROKEN.values()} == {c.NAME for c in CHECKS} - never


@pytest.mark.parametrize("name", MUTATIONS)
@settings(max_examples=5)
@given(story=struck_once())
def test_every_defect_is_first_named_by_its_own_check(name: str, story: Story) -> None:
    try:
        assert_named(name, story)
    except NoPlaceError:
        reject()


@settings(max_examples=30)
@given(st.integers(1, 5), st.integers(0, 1))
def test_more_lost_work_than_allowed_is_found_and_less_is_not(step: int, rank: int) -> None:
    story = Story((Strike(2, step, rank),))

    enough = verdict_on(story, lost_steps=Bound(max=step))
    short = verdict_on(story, lost_steps=Bound(max=step - 1))

    assert enough.status == "pass"
    assert [result.check for result in short.broken] == ["lost-work"]
