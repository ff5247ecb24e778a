"""Each rule has an example that triggers it and one that does not."""

from dataclasses import replace

import pytest

from chaos.extensions.preflight.answer import answer_question
from chaos.extensions.preflight.estimate import chance
from chaos.extensions.preflight.forecast import Effort, build_forecast, simulate
from chaos.extensions.preflight.intervals import interval_curve
from chaos.extensions.preflight.question import Question, change_question
from chaos.extensions.preflight.rules import RULES, findings
from chaos.extensions.preflight.rules.rule import Predictions, Rule
from chaos.extensions.preflight.settings import TorchrunSettings
from tests.extensions.preflight.questions import sound_question, sound_torchrun
from tests.extensions.preflight.reads import record_reads
from tests.extensions.preflight.shown import shown

RULE = {rule.id: rule for rule in RULES}
every_rule = pytest.mark.parametrize("rule", RULES, ids=[rule.id for rule in RULES])


def sound_for(rule: Rule) -> Question:
    return sound_torchrun() if rule.of is TorchrunSettings else sound_question()


@pytest.mark.parametrize("sound", [sound_question(), sound_torchrun()], ids=["ray", "torchrun"])
def test_a_sound_question_triggers_nothing(sound: Question) -> None:
    assert findings(sound) == ()
    assert findings(sound, foretold(sound)) == ()


def foretold(question: Question) -> Predictions:
    return Predictions(build_forecast(question, simulate(question, runs=200, seed=0, jobs=1)))


def told_of(rule: Rule, question: Question) -> Predictions | None:
    """Return what is foretold, for the rules that only a forecast can answer."""
    return foretold(question) if rule.simulated is not None and rule.id != "interval" else None


@every_rule
def test_its_bad_example_triggers_it_and_its_good_one_does_not(rule: Rule) -> None:
    bad, good = (change_question(sound_for(rule), values) for values in (rule.bad, rule.good))

    assert rule.find(bad, told_of(rule, bad)) is not None
    assert rule.find(good, told_of(rule, good)) is None


@every_rule
def test_beside_its_good_example_no_other_rule_fires_that_its_bad_one_spares(rule: Rule) -> None:
    bad, good = (
        {found.rule for found in findings(change_question(sound_for(rule), values))}
        for values in (rule.bad, rule.good)
    )

    assert good <= bad | {rule.id}


@every_rule
def test_it_has_a_reason_and_a_source_and_can_be_ignored(rule: Rule) -> None:
    question = change_question(sound_for(rule), rule.bad)

    assert rule.reason.endswith(".")
    assert rule.source
    told = told_of(rule, question)
    assert rule.id in {found.rule for found in findings(question, told)}
    assert rule.id not in {found.rule for found in findings(question, told, ignore=[rule.id])}


@every_rule
def test_without_costs_it_says_only_what_it_can_know(rule: Rule) -> None:
    bare = change_question(sound_for(rule), {**rule.bad, "costs.step_s": 1.0})
    bare = bare.model_copy(update={"costs": None})

    found = rule.find(bare, None)

    assert found is None or "None" not in found


@pytest.fixture(scope="module")
def examples() -> list[Question]:
    return [
        change_question(sound_for(rule), values)
        for rule in RULES
        for values in (rule.bad, rule.good)
    ]


@pytest.fixture(scope="module")
def simulated_values(examples: list[Question]) -> set[str]:
    """Return the values of a question that the figures are computed from."""
    with record_reads() as places:
        for question in examples:
            build_forecast(question, simulate(question, runs=4, seed=0, jobs=1))
    return places


@every_rule
def test_what_a_rule_reads_the_figures_know_or_the_answer_says_that_they_do_not(
    rule: Rule, examples: list[Question], simulated_values: set[str]
) -> None:
    predictions = foretold(change_question(sound_for(rule), rule.bad))
    with record_reads() as places:
        for question in examples:
            rule.find(question, None)
            if rule.id != "interval":
                rule.find(question, predictions)

    unknown = places - simulated_values
    assert places
    assert not (unknown and rule.in_figures), f"the simulation does not read {sorted(unknown)}"
    bad = change_question(sound_for(rule), rule.bad)
    marked = {found.rule for found in findings(bad, foretold(bad)) if not found.in_figures}
    assert (rule.id in marked) is not rule.in_figures


def test_a_finding_that_the_figures_do_not_know_says_so() -> None:
    question = change_question(sound_question(), {"settings.head_on_spot": True})

    text = shown(answer_question(question, Effort(runs=200, jobs=1)))

    assert "average (not in the figures)" in " ".join(text.split())


def test_ids_are_distinct_and_the_gravest_stands_first() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    bad = change_question(
        sound_question(), {"settings.num_to_keep": 1, "settings.workers_on_head": True}
    )
    assert [found.weight for found in findings(bad)] == ["stops", "advice"]


def weights(**values: object) -> dict[str, str]:
    places = {name.replace("__", "."): value for name, value in values.items()}
    return {
        found.rule: found.weight for found in findings(change_question(sound_question(), places))
    }


def test_an_interval_above_losses_costs_and_is_held_against_losses_without_a_save() -> None:
    seldom = {"job__checkpoint_every_steps": 39_000, "market__lifetime__mtbf_h": 50.0}

    assert "interval-above-losses" not in weights(**seldom)  # nine in ten are saved on notice
    for unsaved in (
        {"settings__preemption_watcher": False},
        {"costs__upload_s": 200.0},  # longer than the notice
        {"market__notice__reliability": 0.2},
    ):
        assert weights(**seldom, **unsaved)["interval-above-losses"] == "costs"


def test_a_save_beyond_the_notice_counts_where_survivors_may_commit_it() -> None:
    seldom = {"job__checkpoint_every_steps": 39_000, "market__lifetime__mtbf_h": 100.0}
    late = {
        "costs__upload_s": 200.0,
        "settings__preemption_grace_s": 150.0,
        "market__notice__reliability": 1.0,
    }

    alone = weights(**seldom, **late)
    relaxed = weights(**seldom, **late, settings__relax_collectives_on_preemption=True)
    assert "interval-above-losses" in weights(**seldom, costs__upload_s=10_000.0)
    assert "interval-above-losses" not in relaxed
    assert "grace-alone" in alone


@pytest.mark.parametrize(("confidence", "fires"), [(0.8, False), (0.99, True)])
def test_a_budget_is_held_against_the_confidence_that_was_asked_for(
    confidence: float, *, fires: bool
) -> None:
    places = {
        "settings.max_failures": 2,
        "settings.max_preemption_failures": 2,
        "market.lifetime.mtbf_h": 40.0,
        "market.notice.reliability": 0.5,
        "goal.confidence": confidence,
    }
    question = change_question(sound_question(), places)
    found = {one.rule for one in findings(question, foretold(question))}

    assert ("retry-budget" in found) is fires
    assert ("preemption-budget" in found) is fires


def test_a_budget_is_said_with_the_share_that_the_simulation_shows() -> None:
    question = change_question(sound_question(), dict(RULE["retry-budget"].bad))
    told = foretold(question)
    (text,) = (one.text for one in findings(question, told) if one.rule == "retry-budget")

    assert f"ends {told.forecast.spent.share:.1%} of runs (5% may)" in text


def test_no_retry_is_silent_where_nothing_is_lost_without_notice() -> None:
    told = change_question(
        sound_question(),
        {"settings.max_failures": 0, "market.notice.reliability": 1.0},
    )

    assert "no-retry" not in {found.rule for found in findings(told)}


@pytest.mark.parametrize(("schedule_s", "start_s"), [(59.0, 600.0), (60.0, 0.0)])
def test_the_start_timeout_bounds_the_wait_for_places_alone_and_never_stops(
    schedule_s: float, start_s: float
) -> None:
    costs = {"costs__schedule_s": schedule_s, "costs__start_s": start_s}
    found = weights(**costs, settings__group_start_timeout_s=60)

    assert "timeout-order" not in found
    assert found.get("group-start-timeout") == ("costs" if schedule_s >= 60 else None)


def test_uploads_that_fall_behind_stop_and_those_that_block_do_not() -> None:
    slow = {"costs__upload_s": 1000.0}

    assert weights(**slow)["upload-behind-interval"] == "stops"
    assert "upload-behind-interval" not in weights(**slow, settings__checkpoint_upload_mode="sync")
    # One is done before the next begins: training stands still for the save as well.
    assert "upload-behind-interval" not in weights(costs__upload_s=905.0)


@pytest.mark.parametrize(
    ("limit", "spares", "fires"), [(3, 0, True), (11, 0, True), (12, 0, False), (3, 1, False)]
)
def test_a_limit_on_starts_is_held_against_one_wait(
    limit: int, spares: int, *, fires: bool
) -> None:
    # A try takes 60 s, and a node is away for twelve minutes.
    found = weights(
        settings__controller_failure_limit=limit,
        settings__group_start_timeout_s=60,
        job__spare_nodes=spares,
        job__min_nodes=None,
    )

    assert (found.get("controller-failure-limit") == "stops") is fires


def test_where_starts_were_simulated_their_budget_is_said_with_its_share() -> None:
    asked = change_question(sound_question(), {"settings.controller_failure_limit": 9})
    seen = foretold(asked).forecast
    told = Predictions(
        replace(seen, ends={**seen.ends, "controller_failure_limit": chance(50, 200)})
    )

    text = RULE["controller-failure-limit"].find(asked, told)
    assert text == "controller_failure_limit is 9, and using it up ends 25.0% of runs (5% may)"


def test_a_whole_restart_that_is_longer_than_a_silent_death_may_hold_the_detection() -> None:
    quick, slow = {"costs.restart_s": 40.0}, {"costs.restart_s": 70.0}
    death = {"settings.node_death_s": 63.0}

    found = [
        {one.rule for one in findings(change_question(sound_question(), {**values, **death}))}
        for values in (quick, slow)
    ]
    assert ["detection-below-ray" in one for one in found] == [True, False]


def test_where_intervals_were_simulated_the_rule_says_what_the_simulation_shows() -> None:
    question = change_question(sound_question(), dict(RULE["interval"].bad))
    effort = Effort(runs=200, jobs=1)
    told = Predictions(
        build_forecast(question, effort.simulate(question)),
        interval_curve(question, effort.try_each),
    )
    text = RULE["interval"].find(question, told)

    assert text is not None
    assert "Daly" not in text
    assert f"{told.curve.best.seconds:.0f} s gives" in text  # type: ignore[union-attr]
