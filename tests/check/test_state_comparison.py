"""The state beneath the numbers: every part that was seen in surviving work, beside the baseline.

The losses and metrics of all these histories are the baseline's.
"""

import random
from typing import Any

import msgspec
import pytest

from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.bounds import Tolerance
from chaos.model.history import Baseline, History
from chaos.model.verdict import CheckResult
from tests.accepted import expect_text
from tests.check.fewer_workers import STORY as SHRUNK
from tests.check.fewer_workers import shrunk
from tests.check.parts import KILLED, TWICE
from tests.check.story import Story, Strike
from tests.check.tamper import changed, differs_in_parts, result_on, verdict_on
from tests.findings import expect_finding, expect_in_headline

LASTING = ("model", "ema")
MEANS = ("optimizer.momentum_buffer", "optimizer.lr", "schedule")
EARLY = Story((Strike(0, 3, 1),))


def trajectory(story: Story, history: History, baseline: History, **expect: Any) -> CheckResult:
    results = judge(story.plan(**expect), history, baseline).results
    return next(result for result in results if result.check == "trajectory")


@pytest.mark.parametrize("name", LASTING)
def test_a_part_that_is_another_when_a_resumed_epoch_is_left_is_found(name: str) -> None:
    history = differs_in_parts(KILLED.history(), name, moment="left")

    verdict = verdict_on(KILLED, history)

    assert [result.check for result in verdict.broken] == ["trajectory"]
    expect_in_headline(
        verdict,
        "state-differs-alone",
        part=name,
        ranks=(0, 1),
        epoch=2,
        moment="left",
        parts=(name,),
    )
    assert verdict.broken[0].measures["parts_differing"] == 4
    assert verdict.headline.startswith("Rank 1 was killed at epoch 2,")


@pytest.mark.parametrize("name", MEANS)
def test_what_differs_and_moves_nothing_that_lasts_is_told_and_no_finding(name: str) -> None:
    verdict = verdict_on(KILLED, differs_in_parts(KILLED.history(), name, moment="left"))

    assert verdict.status == "pass"
    expect_text(verdict.results[-1].summary)


@pytest.mark.parametrize("name", MEANS)
def test_what_differs_is_found_where_nothing_that_lasts_was_looked_at(name: str) -> None:
    def blind(history: History) -> History:
        def kept(seen: ev.StateSeen) -> tuple[ev.Component, ...]:
            return tuple(part for part in seen.components if part.name in MEANS)

        return changed(history, ev.StateSeen, components=kept)

    history = blind(differs_in_parts(KILLED.history(), name, moment="left"))

    assert trajectory(KILLED, history, blind(KILLED.baseline())).status == "fail"


def test_a_part_that_is_another_as_a_later_epoch_is_entered_is_found() -> None:
    history = differs_in_parts(KILLED.history(), "ema", moment="entered", epoch=3, rank=1)

    result = result_on("trajectory", KILLED, history)

    expect_finding(result, "state-differs-alone", part="ema", ranks=(1,), epoch=3, step=0)
    assert len(result.anomalies[0].events) == 1


def test_the_first_of_several_parts_is_named_and_the_others_after_it() -> None:
    history = differs_in_parts(KILLED.history(), "ema", moment="left")
    history = differs_in_parts(history, "model", moment="left", epoch=3)

    assert "(ranks 0 and 1) ema differs" in result_on("trajectory", KILLED, history).summary
    assert ", and so do model; 6 of 80" in result_on("trajectory", KILLED, history).summary


def test_a_generator_that_differs_is_none_of_it() -> None:
    history = differs_in_parts(KILLED.history(), "rng.torch", moment="left")

    assert result_on("trajectory", KILLED, history).status == "pass"


def test_a_loss_that_differs_is_named_before_any_part() -> None:
    history = differs_in_parts(KILLED.history(), "ema", moment="left")
    history = changed(
        history, ev.StepDone, lambda e: e.epoch == 3, losses=lambda e: (e.losses[0] + 1,)
    )

    result = result_on("trajectory", KILLED, history)

    expect_finding(
        result,
        "numbers-differ-later",
        number_type="loss",
        first_pair={"epoch": 3, "step": 1, "rank": 0, "value_name": "loss", "attempt": 1},
    )
    assert len(result.anomalies) == 1


def test_what_differs_before_the_fault_is_left_out() -> None:
    history = differs_in_parts(KILLED.history(), "ema", since=0)

    assert result_on("trajectory", KILLED, history).status == "pass"


def test_what_nothing_shows_to_repeat_is_in_doubt() -> None:
    history = differs_in_parts(EARLY.history(), "ema", moment="left")

    result = result_on("trajectory", EARLY, history)

    assert result.status == "inconclusive"
    assert "ema of the state differ" in result.summary
    assert "whether they repeat" in result.summary


def test_a_second_clean_run_shows_what_repeats_and_what_does_not() -> None:
    history = differs_in_parts(EARLY.history(), "ema", moment="left")
    clean = EARLY.baseline()
    other = differs_in_parts(clean, "ema", since=0, moment="left", digest="another")

    assert trajectory(EARLY, history, Baseline([clean, clean])).status == "fail"
    assert trajectory(EARLY, history, Baseline([clean, other])).status == "pass"


def test_work_that_was_thrown_away_is_not_compared() -> None:
    lost = differs_in_parts(TWICE.history(), "ema", epoch=3, attempt=1)
    kept = differs_in_parts(TWICE.history(), "ema", epoch=2, attempt=1)

    assert result_on("trajectory", TWICE, lost).status == "pass"
    assert result_on("trajectory", TWICE, kept).status == "fail"


def test_attempts_of_another_size_have_no_counterpart() -> None:
    history = History(shrunk(SHRUNK.history()))
    odd = differs_in_parts(history, "model")

    assert result_on("trajectory", SHRUNK, odd).status == "pass"


def test_within_a_tolerance_only_resumes_are_compared() -> None:
    history = differs_in_parts(KILLED.history(), "model", moment="left")

    result = result_on("trajectory", KILLED, history, loss_tolerance=Tolerance(relative=0.01))

    assert result.status == "pass"
    expect_text(result.summary)


def test_a_part_that_is_no_longer_there_is_in_doubt() -> None:
    def less(seen: ev.StateSeen) -> tuple[ev.Component, ...]:
        return tuple(part for part in seen.components if part.name != "ema")

    history = changed(
        KILLED.history(), ev.StateSeen, lambda e: e.attempt and e.moment == "left", components=less
    )

    result = result_on("trajectory", KILLED, history)

    assert result.status == "inconclusive"
    assert result.summary.startswith("ema of the state was seen")


@pytest.mark.parametrize("seed", range(12))
def test_one_digest_of_any_lasting_part_is_enough(seed: int) -> None:
    history = KILLED.history()
    seen = [n for n, e in history.select_events(ev.StateSeen) if e.attempt == 1]
    number = random.Random(seed).choice(seen)
    entries = list(history)
    what = entries[number].event
    assert isinstance(what, ev.StateSeen)
    parts = list(what.components)
    name = random.Random(seed + 100).choice(LASTING)
    index = [part.name for part in parts].index(name)
    parts[index] = msgspec.structs.replace(parts[index], digest="odd")
    odd = msgspec.structs.replace(what, components=tuple(parts))
    entries[number] = msgspec.structs.replace(entries[number], event=odd)

    assert verdict_on(KILLED, History(entries)).status == "fail"
