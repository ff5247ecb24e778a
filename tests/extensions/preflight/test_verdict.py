"""No false no-go, no finding against the figures; and what is said of both."""

from dataclasses import replace

import pytest

from chaos.extensions.preflight.advice import Advice, SettingsAdvice, ladder
from chaos.extensions.preflight.answer import Answer, answer_question
from chaos.extensions.preflight.estimate import Estimate, chance
from chaos.extensions.preflight.forecast import Effort, build_forecast
from chaos.extensions.preflight.market import find_preset
from chaos.extensions.preflight.page import render_answer
from chaos.extensions.preflight.question import Question, change_question
from chaos.extensions.preflight.verdict import find_verdict
from tests.extensions.preflight.questions import memoryless, sound_question
from tests.extensions.preflight.shown import shown

FEW = Effort(runs=200, jobs=1)
STORAGE = ("no-storage-path", "run-name-changes", "health-check-timeout", "collective-timeout")


def on(market: str, **values: object) -> Question:
    places = {name.replace("__", "."): value for name, value in values.items()}
    named = {"market": find_preset(market).model_dump(mode="json")}
    return change_question(sound_question(), {**named, **places})


def test_an_interval_above_the_losses_does_not_stand_against_the_figures() -> None:
    # A commit 410 s after training began, a loss every 400 s: a third lives to see it.
    asked = memoryless(loss_every_s=400, every=400, restart_s=30, commits=5)
    found = answer_question(asked, FEW, ignore=STORAGE)

    assert "36% of attempts" in next(f.text for f in found.findings if "above" in f.rule)
    assert found.forecast is not None
    assert found.forecast.finishes.share == 1
    assert (found.word, found.exit_code) == ("go", 0)


@pytest.mark.parametrize(
    ("nodes", "spares", "tried"),
    [
        (2, 0, (1, 2)),
        (8, 1, (0, 2)),
        (64, 0, (1, 2, 4, 8, 16)),
        (2048, 0, (2, 8, 32, 128, 512)),
    ],
)
def test_spares_are_tried_up_to_a_quarter_of_the_nodes(
    nodes: int, spares: int, tried: tuple[int, ...]
) -> None:
    asked = on("hot-4h", job__min_nodes=None, job__nodes=nodes, job__spare_nodes=spares)

    assert ladder(asked) == tried


def test_where_nodes_are_replaced_at_once_only_fewer_spares_are_tried() -> None:
    assert ladder(memoryless(loss_every_s=400)) == ()
    assert ladder(memoryless(loss_every_s=400, job__spare_nodes=3)) == (0,)


def test_a_number_of_spares_that_meets_the_budget_is_found() -> None:
    # One spare waits too long, sixteen cost too much: neither meets the budget.
    asked = on(
        "unannounced-16h",
        job__nodes=64,
        job__min_nodes=None,
        job__spare_nodes=0,
        job__steps=8_000,
        settings__max_failures=-1,
        goal__deadline_h=None,
        goal__budget=0.6,
    )
    found = answer_question(asked, FEW)

    assert (found.word, found.exit_code) == ("go with changes", 5)
    assert 1 < found.changes["job.spare_nodes"] < 16
    assert found.meets_changed
    assert found.counsel is not None
    assert [one.values["job.spare_nodes"] for one in found.counsel.spares] == [1, 2, 4, 8, 16]


@pytest.mark.parametrize(
    ("values", "why", "change"),
    [
        (
            {"job__spare_nodes": 4, "job__min_nodes": None, "goal__budget": 0.55},
            "even without any loss it costs 61% of on-demand",
            ("job.spare_nodes", 0, 2),
        ),
        (
            {"job__checkpoint_every_steps": 10, "goal__deadline_h": 4.0},
            "h without any loss; the deadline is 4 h",
            ("job.checkpoint_every_steps", 100, 10_000),
        ),
    ],
)
def test_what_is_impossible_as_it_is_set_may_be_possible_with_changes(
    values: dict[str, object], why: str, change: tuple[str, int, int]
) -> None:
    found = answer_question(on("calm-500h", **{"job__steps": 10_000, **values}), FEW)

    place, least, most = change
    assert (found.word, found.exit_code) == ("go with changes", 5)
    assert why in found.why
    assert least <= found.changes[place] <= most


def test_a_no_go_needs_that_the_best_changes_miss_as_well() -> None:
    asked = on("calm-500h")
    seen = build_forecast(asked, FEW.simulate(asked))
    missed, near, better = (
        replace(seen, meets={"finish": chance(hits, 200)}) for hits in (20, 190, 120)
    )

    assert find_verdict(asked, missed, (), near)[0] == "cannot tell"
    word, why = find_verdict(asked, missed, (), better)
    assert word == "no-go"
    assert why.endswith("with the best changes that were tried finish: 60.0%")


def test_a_no_go_names_the_goal_that_the_best_changes_miss_too() -> None:
    asked = on("calm-500h")
    seen = build_forecast(asked, FEW.simulate(asked))
    never, ever = chance(0, 200), chance(200, 200)
    as_set = replace(seen, meets={"finish": never, "deadline": never})
    at_best = replace(seen, meets={"finish": ever, "deadline": never})
    traded = replace(seen, meets={"finish": never, "deadline": ever})

    assert find_verdict(asked, as_set, (), at_best)[1].startswith("deadline: 0.0%")
    word, why = find_verdict(asked, at_best, (), traded)
    assert (word, why.partition(":")[0]) == ("no-go", "deadline")


@pytest.mark.parametrize(
    ("need", "said"), [(0.95, "95% needed"), (0.999999, "99.9999% needed: 200 runs do not tell")]
)
def test_what_is_needed_is_said_with_all_its_digits(need: float, said: str) -> None:
    asked = change_question(on("calm-500h"), {"goal.confidence": need})

    assert said in find_verdict(asked, build_forecast(asked, FEW.simulate(asked)), (), None)[1]


@pytest.fixture(scope="module")
def struck() -> Answer:
    return answer_question(on("hot-4h", settings__max_failures=0, job__steps=10_000), FEW)


def test_a_cost_that_nobody_knows_is_not_called_nothing(struck: Answer) -> None:
    gain = Estimate(0.1, 0.05, 0.15)
    row = Advice("a change", {"job.spare_nodes": 1}, gain, gain, None)
    found = replace(struck, counsel=SettingsAdvice((row,), ()))

    assert not row.is_dearer
    assert "not known" in shown(found)
    assert "not known" in render_answer(found)


def test_no_run_that_did_any_work_makes_a_cost_unknown() -> None:
    # One save in ten hours, a loss every ten minutes, and no retry.
    asked = memoryless(loss_every_s=600, every=36_000, commits=1, settings__max_failures=0)

    counsel = answer_question(asked, FEW).counsel

    assert counsel is not None
    assert {one.cost for one in counsel.levers} == {None}


def test_terminal_and_page_say_which_changes_and_with_how_many_retries(struck: Answer) -> None:
    text, page = shown(struck), render_answer(struck)

    assert "with retries without limit" in text
    assert "retries without limit" in page
    row = next(line for line in text.splitlines() if line.startswith("retries run out"))
    assert row.split()[-1] == "0.0%"
    assert ("Set together, these meet every goal" in page) is struck.meets_changed
    missed = replace(struck, after=struck.forecast)
    assert "come nearest to the goals" in render_answer(missed)
    assert "All that is worth it" not in page


def test_where_no_goal_is_ever_met_the_best_that_was_tried_has_the_highest_goodput() -> None:
    asked = on(
        "unannounced-16h",
        job__nodes=64,
        job__min_nodes=None,
        job__spare_nodes=0,
        job__steps=8_000,
        settings__max_failures=0,
        goal__deadline_h=2.5,
    )
    found = answer_question(asked, FEW)

    assert found.word == "no-go"
    assert found.forecast is not None
    assert found.after is not None
    assert found.after.mean_goodput > 1.3 * found.forecast.mean_goodput
    assert "job.spare_nodes" in found.changes
