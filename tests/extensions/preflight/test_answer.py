"""The verdict follows from goals, findings and figures; advice buys what it says."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from chaos.errors import UsageError
from chaos.extensions.preflight.advice import build_counsel
from chaos.extensions.preflight.answer import answer_question
from chaos.extensions.preflight.estimate import chance
from chaos.extensions.preflight.forecast import (
    Effort,
    Outcomes,
    build_forecast,
    simulate,
    simulate_each,
)
from chaos.extensions.preflight.intervals import interval_curve
from chaos.extensions.preflight.market import find_preset
from chaos.extensions.preflight.page import render_answer
from chaos.extensions.preflight.question import Question, change_question, find_value
from chaos.extensions.preflight.rules import findings
from chaos.extensions.preflight.saving import notice_sweep
from chaos.extensions.preflight.verdict import EXIT, find_verdict
from tests.extensions.preflight.questions import memoryless, sound_question
from tests.extensions.preflight.shown import shown

FEW = Effort(runs=400, jobs=1)


def on(market: str, **values: object) -> Question:
    places = {name.replace("__", "."): value for name, value in values.items()}
    named = {"market": find_preset(market).model_dump(mode="json")}
    return change_question(sound_question(), {**named, **places})


def test_sound_settings_on_a_calm_market_are_a_go() -> None:
    found = answer_question(on("calm-500h"), FEW)

    assert (found.word, found.exit_code) == ("go", 0)
    assert found.findings == ()


def test_no_retries_on_a_hot_market_is_a_go_with_them() -> None:
    found = answer_question(on("hot-4h", settings__max_failures=0), FEW)

    assert (found.word, found.exit_code) == ("go with changes", 5)
    assert "use up their retries" in found.why
    assert found.changes["settings.max_failures"] > 5
    assert found.after is not None
    assert found.after.finishes.low > 0.95


def test_what_no_setting_mends_is_a_no_go_that_names_the_waste() -> None:
    # A tenth of the training: what 64 nodes lose per hour is what it fails at, not its length.
    short = {"job__steps": 4_000, "goal__deadline_h": 4.0}
    question = on("hot-4h", goal__goodput=0.9, job__min_nodes=None, job__nodes=64, **short)

    found = answer_question(question, Effort(runs=200, jobs=1))

    assert (found.word, found.exit_code) == ("no-go", 1)
    assert "goes into" in found.why
    assert found.after is not None
    assert found.after.meets["goodput"].high < 0.95


def test_without_costs_the_answer_cannot_be_told_and_never_green() -> None:
    bare = on("calm-500h").model_copy(update={"costs": None})

    found = answer_question(bare, FEW)

    assert (found.word, found.exit_code) == ("cannot tell", 2)
    assert "calibrate" in found.why
    assert found.forecast is None


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        ("goal.deadline_h", 5.0, "without any loss; the deadline is 5 h"),
        ("goal.budget", 0.1, "the budget is 10%"),
        ("goal.goodput", 0.999, "the goal is 99.9%"),
    ],
)
def test_an_impossible_goal_is_named_as_such(place: str, value: float, reason: str) -> None:
    found = answer_question(change_question(on("calm-500h"), {place: value}), FEW)

    assert found.word == "no-go"
    assert reason in found.why


def test_too_near_to_tell_cannot_be_told() -> None:
    question = on("calm-500h")
    seen = build_forecast(question, simulate(question, runs=200, seed=0))
    near = replace(seen, meets={"finish": chance(190, 200)})

    assert find_verdict(question, near, (), None)[0] == "cannot tell"
    assert (
        find_verdict(question, replace(near, meets={"finish": chance(20, 200)}), (), None)[0]
        == "no-go"
    )


def test_a_go_on_a_fitted_market_cannot_be_told_where_its_worse_end_misses() -> None:
    sure = on("calm-500h", goal__deadline_h=13.0)
    doubtful = change_question(sure, {"market.doubt": {"losses": 40.0, "away": 10.0}})
    slightly = change_question(sure, {"market.doubt": {"losses": 1.05}})

    assert [answer_question(asked, FEW).word for asked in (sure, slightly)] == ["go", "go"]
    found = answer_question(doubtful, FEW)
    assert (found.word, found.exit_code) == ("cannot tell", 2)
    assert "worse end of what the trace allows (12 h per node) deadline" in found.why


def test_a_go_without_a_goal_says_what_it_does_not_promise() -> None:
    asked = on("calm-500h", goal__deadline_h=None)

    assert "no goal was given but to finish, in 1." in answer_question(asked, FEW).why


def test_saving_too_often_does_not_look_cheap() -> None:
    often, seldom = (
        build_forecast(asked, simulate(asked, runs=50, seed=0)).cost.middle
        for every in (10, 900)
        for asked in [on("calm-500h", job__checkpoint_every_steps=every)]
    )

    assert often > 1.7 * seldom  # 8 s for each 10 s of training


def test_where_a_trace_is_repeated_spares_are_tried_too() -> None:
    replay = {"at_s": [0.0, 3600.0], "up": [1.0, 0.8], "span_s": 7200.0}
    market = {"name": "half of the time", "replay": replay}
    asked = change_question(
        sound_question(), {"market": market, "job.min_nodes": None, "job.spare_nodes": 0}
    )
    found = answer_question(asked, FEW)

    assert "no-spare" in {finding.rule for finding in found.findings}
    assert found.counsel is not None
    assert any("job.spare_nodes" in one.values for one in found.counsel.settings)


def test_a_setting_that_stops_training_is_no_go_as_it_is_even_with_good_figures() -> None:
    found = answer_question(on("calm-500h", settings__storage_path=None), FEW)

    assert found.word == "go with changes"
    assert "no-storage-path" in found.why
    assert (
        answer_question(
            on("calm-500h", settings__storage_path=None), FEW, ignore=["no-storage-path"]
        ).word
        == "go"
    )


SLOW_UPLOAD = {"costs__save_s": 2, "costs__upload_s": 300, "job__checkpoint_every_steps": 2_000}


def test_what_is_advised_brings_no_stop_of_a_rule() -> None:
    # Without the upload a checkpoint every 84 steps would be best; one upload takes 300 s.
    asked = on("hot-4h", job__saves_on_notice=False, goal__goodput=0.95, **SLOW_UPLOAD)

    found = answer_question(asked, FEW)

    assert found.counsel is not None
    for one in ({}, found.changes, *(one.values for one in found.counsel.settings)):
        stops = [f.rule for f in findings(change_question(asked, one)) if f.weight == "stops"]
        assert stops == []


def test_advice_that_a_rule_stops_is_not_given_and_named() -> None:
    asked = on("hot-4h", job__min_nodes=None, job__spare_nodes=0, job__nodes_max=8)

    found = answer_question(asked, FEW)

    assert found.counsel is not None
    assert not any("job.spare_nodes" in one.values for one in found.counsel.settings)
    assert "job.spare_nodes" not in found.changes
    assert any("not advised: 1 spare node" in note for note in found.notes)
    assert "nodes-above-maximum" in shown(found)


def test_places_that_take_longer_than_a_try_do_not_stop_a_sound_job() -> None:
    found = answer_question(
        on("calm-500h", costs__schedule_s=60, settings__group_start_timeout_s=60.0), FEW
    )

    assert (found.word, found.exit_code) == ("go", 0)
    assert "group-start-timeout" in {one.rule for one in found.findings}


def test_every_word_has_a_code_of_its_own_that_means_nothing_else() -> None:
    assert EXIT == {"go": 0, "no-go": 1, "cannot tell": 2, "go with changes": 5}


def test_where_every_goal_is_met_no_change_is_asked_for() -> None:
    found = answer_question(on("calm-500h", job__checkpoint_every_steps=300), FEW)

    assert (found.word, found.changes, found.after) == ("go", {}, None)
    assert "--set" not in shown(found)


def test_what_no_change_mends_is_to_be_mended_by_hand() -> None:
    found = answer_question(
        on("hot-4h", settings__max_failures=0, settings__storage_path=None), FEW
    )

    assert [one.rule for one in found.by_hand] == ["no-storage-path"]
    assert "to mend by hand: no-storage-path" in shown(found)
    assert "To mend by hand" in render_answer(found)


def test_what_the_changes_bring_with_them_is_shown() -> None:
    asked = on(
        "hot-4h", job__min_nodes=None, job__spare_nodes=0, job__rescales_batch=False,
        settings__max_failures=-1, goal__deadline_h=None, goal__goodput=0.6,
    )  # fmt: skip
    found = answer_question(asked, FEW)

    assert "job.min_nodes" in found.changes
    assert "elastic-batch" not in {one.rule for one in found.findings}
    assert "elastic-batch" in {one.rule for one in found.new_findings}
    assert "elastic-batch" in shown(found)


def test_the_line_to_paste_holds_nothing_that_is_set_already() -> None:
    found = answer_question(on("hot-4h", settings__max_failures=0, job__saves_on_notice=False), FEW)
    plain = found.question.model_dump(mode="json")

    assert found.changes
    assert all(find_value(plain, place) != value for place, value in found.changes.items())
    assert "preemption_watcher" not in shown(found)


def test_a_go_says_which_goals_would_be_missed() -> None:
    asked = on("calm-500h")
    found = answer_question(asked, FEW)
    assert found.forecast is not None
    borders = found.forecast.borders

    missed = {
        "goal.deadline_h": borders["deadline"] * 0.98,
        "goal.goodput": borders["goodput"] + 0.005,
    }
    for place, value in missed.items():
        assert answer_question(change_question(asked, {place: value}), FEW).word != "go"
    met = {"goal.deadline_h": borders["deadline"] * 1.05, "goal.goodput": borders["goodput"] - 0.02}
    assert answer_question(change_question(asked, met), FEW).word == "go"
    assert f"a deadline below {borders['deadline']:.1f} h" in shown(found)
    assert "a deadline below" in render_answer(found)


def test_advice_names_the_lever() -> None:
    # Restarts of 180 s with a loss every four minutes: the interval is not the lever.
    question = memoryless(loss_every_s=236, every=69, nodes=64, commits=60)

    def again(others: Sequence[Question]) -> list[Outcomes]:
        return simulate_each(others, runs=300, seed=0)

    curve = interval_curve(question, again)
    found = build_counsel(question, curve, again)

    assert found.levers[0].what.startswith("half the restart")
    assert found.levers[0].goodput.low > 0.1
    assert all(not one.is_worth_it or one.goodput.value < 0.02 for one in found.settings)


def test_the_curve_is_highest_where_theory_puts_it_and_flat_around() -> None:
    question = memoryless(loss_every_s=5000, every=2000, restart_s=60, commits=100)

    curve = interval_curve(question, lambda others: simulate_each(others, runs=1000, seed=0))

    exact = next(one for one in curve.theory if one.name == "exact")
    low, high = curve.flat_s
    assert low <= exact.seconds <= high
    assert low < curve.best.seconds < high
    for point in curve.points:
        assert point.simulated == pytest.approx(point.theory, abs=0.02)


def test_longer_notices_and_shorter_uploads_never_commit_less() -> None:
    cells = {(c.notice_s, c.upload_s): c for c in notice_sweep(sound_question())}
    notices, uploads = sorted({n for n, _ in cells}), sorted({u for _, u in cells})

    for upload in uploads:
        row = [cells[n, upload].commits for n in notices]
        assert row == sorted(row)
    for notice in notices:
        column = [cells[notice, u].commits for u in uploads]
        assert column == sorted(column, reverse=True)
    assert cells[0, uploads[0]].commits == 0
    assert cells[120, uploads[0]].commits == pytest.approx(0.9)


@pytest.mark.parametrize(("every", "notice_s"), [(150, 120.0), (400, 120.0), (400, 30.0)])
def test_what_a_save_on_notice_spares_is_what_the_simulation_spares(
    every: int, notice_s: float
) -> None:
    market = {"seconds": notice_s, "reliability": 1.0}
    asked = memoryless(
        loss_every_s=20_000,
        every=every,
        commits=4000,
        save_s=3,
        restart_s=50,
        costs__upload_s=4,
        market__notice=market,
        job__saves_on_notice=True,
    )
    both = [
        simulate(change_question(asked, {"job.saves_on_notice": saves}), runs=300, seed=1, jobs=1)
        for saves in (False, True)
    ]
    without, with_ = (seen.lost_steps.sum() / seen.restarts.sum() for seen in both)
    cell = next(c for c in notice_sweep(asked) if (c.notice_s, c.upload_s) == (notice_s, 4.0))

    assert cell.steps_saved == pytest.approx(without - with_, rel=0.05, abs=1)


@pytest.mark.parametrize("market", ["calm-500h", "hot-4h", "bathtub-24h-cap"])
def test_terminal_page_and_json_say_the_same(market: str) -> None:
    found = answer_question(on(market, settings__max_failures=0), FEW, notes=["a <note>"])

    text, page = shown(found), render_answer(found)
    plain = json.loads(json.dumps(found.dump_values()))

    assert max(len(line) for line in text.splitlines()) <= 80
    assert found.word in text
    assert found.word.capitalize() in page
    assert plain["word"] == found.word
    assert plain["forecast"]["goodput"]["middle"] == found.forecast.goodput.middle  # type: ignore[union-attr]
    assert "a &lt;note&gt;" in page
    written = page.partition("<script")[0].replace("http://www.w3.org", "")
    assert "http://" not in written
    assert "https://" not in written


def test_an_answer_without_figures_has_a_page_as_well() -> None:
    bare = on("calm-500h").model_copy(update={"costs": None})
    found = answer_question(bare, FEW)

    assert "Cannot tell" in render_answer(found)
    assert "cannot tell" in shown(found)


def test_a_market_that_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="Did you mean busy-16h"):
        find_preset("busy-16")


UPLOADS = {
    "costs__save_s": 2.0,
    "costs__upload_s": 300.0,
    "costs__step_s": 1.0,
    "market__lifetime": {"kind": "exponential", "mtbf_h": 4.0},
    "market__away_h": 0.0,
    "job__min_nodes": None,
    "job__checkpoint_every_steps": 4000,
    "settings__max_failures": -1,
    "goal__deadline_h": None,
    "goal__goodput": 0.5,
}


@pytest.mark.parametrize("mode", [pytest.param("sync", marks=pytest.mark.nightly), "async"])
def test_no_interval_is_advised_at_which_uploads_fall_behind(mode: str) -> None:
    asked = on("unannounced-16h", **UPLOADS, settings__checkpoint_upload_mode=mode)

    found = answer_question(asked, FEW)

    every = found.changes["job.checkpoint_every_steps"]
    assert found.curve is not None
    assert found.after is not None
    assert every >= change_question(asked, found.changes).shortest_steps
    assert found.curve.best_steps >= 298
    # At 84 steps, which saves and losses alone would suggest, it comes to 0.23.
    assert found.after.mean_goodput > 0.6


def test_what_is_advised_together_is_neither_a_default_nor_more_than_it_takes() -> None:
    tight = {"job__spare_nodes": 0, "job__min_nodes": None, "job__saves_on_notice": False}
    asked = on("busy-16h", **tight, goal__deadline_h=14.5)

    found = answer_question(asked, FEW)

    changes = {one: value for one, value in found.changes.items() if "failures" not in one}
    assert (found.word, len(changes) > 0) == ("go with changes", True)
    for place, value in changes.items():
        assert change_question(asked, {place: value}) != asked
        rest = {one: other for one, other in changes.items() if one != place}
        both = [change_question(asked, values) for values in (changes, rest)]
        with_, without = (build_forecast(one, simulate(one, runs=400, seed=0)) for one in both)
        assert without.meets["deadline"].high < 0.95 or without.cost.middle > with_.cost.middle
