"""A sharded state that other numbers of ranks load is compared as the whole that they hold."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import msgspec
import pytest

from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.history import History, JournalEntry
from chaos.model.verdict import CheckResult, Verdict
from chaos.resume.state_snapshots import combine_parts
from tests.accepted import expect_text
from tests.check.story import Story, Strike
from tests.findings import expect_finding

STORY = Story(ranks=3, strikes=(Strike(epoch=2, step=3, rank=1),), least=1)
LEFT = 2  # ranks that go on after the fault
SHARDED = "optimizer.momentum_buffer"
ELEMENTS = 12
Change: TypeAlias = Callable[[ev.StateSeen], ev.StateSeen]


def share(whole: str, rank: int, ranks: int) -> ev.Share:
    """Return one of several ranks' part of a sum; the last one has what is left of it."""
    total, even = int(whole, 16), 7 * rank + 1
    others = sum(7 * r + 1 for r in range(ranks - 1))
    mine = even if rank < ranks - 1 else (total - others) % 2**64
    return ev.Share(
        sum=f"{mine:016x}", squares=1.0 / ranks, elements=ELEMENTS // ranks, whole_elements=ELEMENTS
    )


def sharded(seen: ev.StateSeen, ranks: int) -> ev.StateSeen:
    """Let ranks hold the momentum in shares, each with a digest of its own."""
    parts = (
        msgspec.structs.replace(
            part,
            digest=f"{seen.rank}-{ranks}-{part.digest}",
            share=share(part.digest, seen.rank, ranks),
        )
        if part.name == SHARDED and part.digest
        else part
        for part in seen.components
    )
    return msgspec.structs.replace(seen, components=tuple(parts))


def told(history: History, *, left: int, change: Change = lambda seen: seen) -> list[JournalEntry]:
    """Tell a history again with sharded state, and with fewer ranks after the fault."""
    found = []
    for entry in history:
        what = entry.event
        if getattr(what, "attempt", 0) > 0:
            if getattr(what, "rank", 0) >= left:
                continue
            if isinstance(what, ev.WorkerGroupStarted):
                what = msgspec.structs.replace(what, workers=what.workers[:left])
            elif isinstance(what, ev.Committed):
                what = msgspec.structs.replace(what, metrics=what.metrics[:left])
            elif isinstance(what, ev.StateSeen):
                what = change(sharded(what, left))
        elif isinstance(what, ev.StateSeen):
            what = sharded(what, STORY.ranks)
        found.append(msgspec.structs.replace(entry, event=what))
    return found


def verdict(change: Change = lambda seen: seen, **expect: object) -> Verdict:
    plan = replace(STORY).plan(**expect)
    run = told(STORY.history(), left=LEFT, change=change)
    return judge(plan, History(run), History(told(STORY.baseline(), left=STORY.ranks)))


def result(check: str, of: Verdict) -> CheckResult:
    return next(each for each in of.results if each.check == check)


def of_part(name: str, **changes: object) -> Change:
    """Return a change of one part of the state of rank 1."""

    def change(seen: ev.StateSeen) -> ev.StateSeen:
        parts = tuple(
            msgspec.structs.replace(part, **changes) if part.name == name else part
            for part in seen.components
        )
        return msgspec.structs.replace(seen, components=parts) if seen.rank == 1 else seen

    return change


def test_shares_of_fewer_ranks_that_make_the_same_whole_are_right() -> None:
    found = result("state", verdict())

    assert found.status == "pass", found.summary


@pytest.mark.parametrize("squares", [1.0, 0.25])
def test_shares_of_fewer_ranks_that_make_another_whole_are_a_defect(squares: float) -> None:
    """Rows of a shard that are at other places: the norm is the same, and the sum is not."""
    other = ev.Share(
        sum=f"{5:016x}", squares=squares, elements=ELEMENTS // LEFT, whole_elements=ELEMENTS
    )

    def wrong(seen: ev.StateSeen) -> ev.StateSeen:
        seen = of_part(SHARDED, share=other)(seen)
        return of_part("model", digest="elsewhere")(seen) if seen.moment == "left" else seen

    found = result("state", verdict(wrong))

    assert found.status == "fail"
    assert SHARDED in found.summary
    expect_finding(found, "shards-misplaced", part=SHARDED)


def test_shares_that_are_not_the_whole_prove_nothing() -> None:
    """Ranks without a common mesh hold it twice, or in part."""
    twice = ev.Share(sum=f"{5:016x}", squares=1.0, elements=ELEMENTS, whole_elements=ELEMENTS)

    assert result("state", verdict(of_part(SHARDED, share=twice))).status == "pass"


def test_a_part_that_all_ranks_have_is_judged_on_each() -> None:
    found = result("state", verdict(of_part("model", digest="of-another-moment")))

    assert found.status == "fail"
    expect_finding(
        found,
        "part-changed",
        part="model",
        ranks=(1,),
        standing="different",
        expects_own_state=False,
    )


def test_a_part_that_each_rank_has_of_its_own_has_no_equal() -> None:
    def own(seen: ev.StateSeen) -> ev.StateSeen:
        mine = ev.Component(name="declared.place", digest=f"{seen.rank}")
        return msgspec.structs.replace(seen, components=(*seen.components, mine))

    def every(history: History, left: int, change: Change) -> list[JournalEntry]:
        entries = told(history, left=left, change=change)
        return [
            msgspec.structs.replace(entry, event=own(entry.event))
            if isinstance(entry.event, ev.StateSeen)
            else entry
            for entry in entries
        ]

    # Rank 1 goes on at rank 0's place: with another number of ranks that may be right.
    run = every(STORY.history(), LEFT, of_part("declared.place", digest="0"))
    baseline = every(STORY.baseline(), STORY.ranks, lambda seen: seen)

    found = judge(STORY.plan(), History(run), History(baseline))

    assert result("state", found).status == "pass", result("state", found).summary


def test_ranks_that_draw_the_same_numbers_since_they_are_fewer_are_in_doubt() -> None:
    def alike(seen: ev.StateSeen) -> ev.StateSeen:
        drawn = f"{seen.epoch}-{seen.moment}"
        parts = tuple(
            msgspec.structs.replace(part, digest=drawn) if part.name == "rng.torch" else part
            for part in seen.components
        )
        return msgspec.structs.replace(seen, components=parts)

    found = result("rank-randomness", verdict(alike))

    assert found.status == "inconclusive"
    expect_text(found.summary)
    assert result("rank-randomness", verdict()).status == "pass"


def of_all_ranks(loss: float) -> list[JournalEntry]:
    """Give the ranks that are left the samples of all, and this mean loss at each step."""
    samples: dict[tuple[int, int], str] = {}
    for entry in STORY.baseline():
        what = entry.event
        if isinstance(what, ev.StepDone) and what.inputs is not None:
            at = (what.epoch, what.step)
            samples[at] = samples.get(at, "") + (what.inputs.samples or "")

    def of(what: ev.StepDone) -> ev.StepDone:
        every = samples[what.epoch, what.step]
        half = len(every) // 2
        mine = every[:half] if what.rank == 0 else every[half:]
        inputs = ev.Inputs(count=len(mine) // 8, digest=mine, samples=mine)
        return msgspec.structs.replace(what, inputs=inputs, losses=(loss,))

    return [
        msgspec.structs.replace(entry, event=of(entry.event))
        if isinstance(entry.event, ev.StepDone) and entry.event.attempt
        else entry
        for entry in told(STORY.history(), left=LEFT)
    ]


def test_steps_that_saw_the_same_samples_are_compared_by_their_mean_loss() -> None:
    baseline = History(told(STORY.baseline(), left=STORY.ranks))
    run = History(of_all_ranks(50.0))

    exact = judge(STORY.plan(), run, baseline)
    stated = judge(STORY.plan(loss_tolerance={"relative": 0.5}), run, baseline)

    expect_text(result("trajectory", exact).summary)
    assert result("trajectory", exact).status == "pass"
    assert result("trajectory", stated).status == "fail"
    expect_finding(
        result("trajectory", stated),
        "numbers-differ-at-resume",
        number_type="mean loss",
        first_pair={"epoch": 2, "step": 1, "value_name": "mean loss of all ranks"},
        severity="cosmetic",
    )


def test_ranks_hold_a_part_together_or_each_its_own() -> None:
    def seen(rank: int, *parts: ev.Component) -> ev.StateSeen:
        return ev.StateSeen(
            attempt=0, rank=rank, epoch=0, step=0, moment="entered", components=parts
        )

    both = ev.Component(name="both", digest="a")
    ranks = [
        seen(rank, both, ev.Component(name="own", digest=str(rank))) for rank in range(STORY.ranks)
    ]

    assert combine_parts(ranks) == {"both": both}
    assert combine_parts([]) == {}
