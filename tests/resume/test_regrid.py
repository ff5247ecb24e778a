"""A job that reports by the clock is laid beside its baseline by steps, judged, never blamed."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.check.analysis import RunTables
from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.history import Baseline, History
from chaos.model.verdict import CheckResult, Verdict
from chaos.resume.lineage import Lineage
from chaos.resume.regrid import ReportGrid, regrid_baseline
from tests.check.by_the_clock import by_the_clock
from tests.check.story import Story, Strike
from tests.check.tamper import changed
from tests.findings import expect_finding, expect_in_headline

STORY = Story(strikes=(Strike(epoch=2, step=3),))  # two ranks, 4 epochs of 6 steps
OTHERS = (1, 9, 2, 7, 5)
lengths = st.lists(st.integers(1, 7), min_size=1, max_size=6)


def cut(total: int, marks: list[int]) -> list[int]:
    """Return the lengths of the parts that marks cut a way into."""
    places = [0, *sorted({mark % total for mark in marks} - {0}), total]
    return [b - a for a, b in pairwise(places)]


def lineage_of(history: History) -> Lineage:
    return RunTables(history).lineage


def judged(history: History, baseline: History, story: Story = STORY) -> Verdict:
    return judge(story.plan(align="steps"), history, baseline)


def of(verdict: Verdict, check: str) -> CheckResult:
    return next(result for result in verdict.results if result.check == check)


@given(lengths)
def test_on_its_own_reports_a_baseline_is_what_it_was(ways: list[int]) -> None:
    history = by_the_clock(Story(epochs=1, steps=sum(ways)), ways)

    assert list(regrid_baseline(history, history)) == list(history)


@given(st.lists(st.integers(0, 99)), st.lists(st.integers(0, 99)))
def test_every_step_comes_to_stand_where_the_run_made_it(one: list[int], other: list[int]) -> None:
    story = Story(epochs=2, steps=6)
    run, baseline = (by_the_clock(story, cut(12, marks)) for marks in (one, other))

    laid, due = lineage_of(regrid_baseline(baseline, run)), lineage_of(run)

    assert {k: [s.losses for s in v] for k, v in laid.steps.items()} == {
        k: [s.losses for s in v] for k, v in due.steps.items()
    }
    ours, theirs = (
        RunTables(h).snapshots.latest_snapshots for h in (run, regrid_baseline(baseline, run))
    )
    entered = {place: seen for place, seen in ours.items() if place[3] == "entered"}
    assert all(theirs[place].components == seen.components for place, seen in entered.items())


def test_steps_that_the_run_has_not_are_of_its_last_epoch() -> None:
    grid = ReportGrid({0: (0, 4, 9)})

    assert (grid.find_end(0, 4), grid.find_head(0, 4)) == ((0, 4), (1, 0))
    assert (grid.find_end(0, 9), grid.find_head(0, 9)) == ((1, 5), (1, 5))
    assert grid.find_end(0, 11) == (1, 7)
    assert grid.find_end(1, 5) == (1, 1)  # a rank that the run has not


def test_an_epoch_without_a_step_is_left_as_soon_as_it_is_entered() -> None:
    grid = ReportGrid({0: (0, 4, 4, 9)})

    assert (grid.find_end(0, 4), grid.find_head(0, 4), grid.find_end(0, 5)) == (
        (0, 4),
        (2, 0),
        (2, 1),
    )


def test_a_right_job_that_reports_elsewhere_than_its_baseline_is_right() -> None:
    verdict = judged(STORY.history(), by_the_clock(STORY, OTHERS))

    assert verdict.status == "pass", verdict.headline
    assert verdict.restarts.resumed == 1
    assert of(verdict, "trajectory").measures["losses_compared"] == 2 * 24
    assert of(verdict, "state").evidence > 0
    assert all(of(verdict, name).evidence == 0 for name in ("metrics", "artifacts", "selection"))


def test_report_by_report_it_would_be_blamed() -> None:
    verdict = judge(STORY.plan(), STORY.history(), by_the_clock(STORY, OTHERS))

    assert verdict.status != "pass"


def without_momentum(history: History) -> History:
    entries = []
    for entry in history:
        what = entry.event
        if isinstance(what, ev.StateSeen) and what.attempt and what.moment == "entered":
            parts = tuple(p for p in what.components if not p.name.endswith("momentum_buffer"))
            what = msgspec.structs.replace(what, components=parts)
        entries.append(msgspec.structs.replace(entry, event=what))
    return changed(
        History(entries),
        ev.StepDone,
        lambda e: (e.attempt, e.epoch, e.step) > (1, 2, 1),
        losses=lambda e: tuple(loss + 0.01 for loss in e.losses),
    )


def test_what_did_not_come_back_is_named_at_a_place_where_the_baseline_never_reported() -> None:
    verdict = judged(without_momentum(STORY.history()), by_the_clock(STORY, OTHERS))

    assert verdict.broken[0].check == "state"
    expect_in_headline(
        verdict,
        "part-not-restored",
        part="optimizer.momentum_buffer",
        standing="not restored",
        expects_own_state=False,
    )


def gone_on(story: Story, due: dict[tuple[int, int], ev.StepDone], by: int) -> History:
    """Tell of a job whose count is off by one at its resume: a step too many, or one too few."""
    end = story.epochs * story.steps
    entries = []
    for entry in story.history():
        what = entry.event
        if not isinstance(what, ev.StepDone) or not what.attempt:
            entries.append(entry)
            continue
        done = what.epoch * story.steps + what.step
        for number in range(done, done + 1 + (by < 0 and done == end)):
            theirs = due.get((what.rank, number + by))
            if theirs is not None:
                fields = {"losses": theirs.losses, "inputs": theirs.inputs}
                step = what.step + number - done
                made = msgspec.structs.replace(what, step=step, **fields)
                entries.append(msgspec.structs.replace(entry, event=made))
    return History(entries)


@pytest.mark.parametrize(("by", "said"), [(-1, "went back"), (1, "went ahead")])
def test_a_counter_that_is_off_by_one_is_told_by_its_inputs(by: int, said: str) -> None:
    baseline = by_the_clock(STORY, OTHERS)
    steps = [step for _, step in baseline.select_events(ev.StepDone)]
    due = {
        (rank, number): step
        for rank in range(STORY.ranks)
        for number, step in enumerate((s for s in steps if s.rank == rank), start=1)
    }

    verdict = judged(gone_on(STORY, due, by), baseline)

    assert verdict.broken[0].check == "cursor", verdict.headline
    assert said in verdict.broken[0].summary


def test_a_part_that_goes_by_reports_is_no_matter() -> None:
    """Told as of a count of saves that the job declares: another at a place in every run."""

    def counted(history: History) -> History:
        saves, entries = 0, []
        for entry in history:
            what = entry.event
            saves += isinstance(what, ev.Committed)
            if isinstance(what, ev.StateSeen):
                part = ev.Component(name="saves", digest=f"{saves}", size=float(saves))
                what = msgspec.structs.replace(what, components=(*what.components, part))
            entries.append(msgspec.structs.replace(entry, event=what))
        return History(entries)

    alike_until_the_fault, other = (
        counted(by_the_clock(STORY, ways)) for ways in ((6, 2, 2, 8, 6), (3, 8, 13))
    )
    story = Story(strikes=(Strike(epoch=1, moment="committed"),))
    run = counted(story.history())

    assert judged(run, Baseline([alike_until_the_fault, other]), story).status == "pass"
    assert judged(run, alike_until_the_fault, story).broken[0].check == "state"


def test_a_restart_may_throw_away_more_steps_than_the_baseline_makes_between_its_reports() -> None:
    verdict = judged(STORY.history(), by_the_clock(STORY, [1] * 24))

    assert of(verdict, "lost-work").status == "pass"
    assert judged(STORY.history(), by_the_clock(STORY, [1] * 24)).status == "pass"


def test_another_number_of_steps_is_told_though_nothing_was_seen_of_inputs() -> None:
    shorter = by_the_clock(STORY, (*OTHERS[:-1], 4))
    blind = changed(shorter, ev.StepDone, inputs=None)

    verdict = judged(changed(STORY.history(), ev.StepDone, inputs=None), blind)

    assert verdict.broken[0].check == "epochs"
    expect_finding(verdict.broken[0], "step-total-differs", steps=24, baseline_steps=23)
