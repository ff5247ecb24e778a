"""Each rule has an example that triggers it and one that does not."""

import pytest

from chaos.errors import UsageError
from chaos.preflight.change import changed
from chaos.preflight.rules.every import RULES, findings
from chaos.preflight.rules.rule import Rule
from chaos.preflight.rules.sound import sound_question

every_rule = pytest.mark.parametrize("rule", RULES, ids=[rule.id for rule in RULES])


def test_a_sound_question_triggers_nothing() -> None:
    assert findings(sound_question()) == ()


@every_rule
def test_its_bad_example_triggers_it_and_its_good_one_does_not(rule: Rule) -> None:
    assert rule.look(changed(sound_question(), rule.bad)) is not None
    assert rule.look(changed(sound_question(), rule.good)) is None


@every_rule
def test_it_has_a_reason_and_a_source_and_can_be_ignored(rule: Rule) -> None:
    question = changed(sound_question(), rule.bad)

    assert rule.reason.endswith(".")
    assert rule.source
    assert rule.id in {found.rule for found in findings(question)}
    assert rule.id not in {found.rule for found in findings(question, ignore=[rule.id])}


@every_rule
def test_without_costs_it_says_only_what_it_can_know(rule: Rule) -> None:
    bare = changed(sound_question(), {**rule.bad, "costs.step_s": 1.0})
    bare = bare.model_copy(update={"costs": None})

    found = rule.look(bare)

    assert found is None or "None" not in found


def test_ids_are_distinct_and_the_gravest_stands_first() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    bad = changed(sound_question(), {"settings.num_to_keep": 1, "settings.workers_on_head": True})
    assert [found.weight for found in findings(bad)] == ["stops", "advice"]


def test_an_unknown_id_is_named_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="Did you mean no-retry"):
        findings(sound_question(), ignore=["no-retries"])


def weights(**values: object) -> dict[str, str]:
    places = {name.replace("__", "."): value for name, value in values.items()}
    return {found.rule: found.weight for found in findings(changed(sound_question(), places))}


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


@pytest.mark.parametrize(("confidence", "fires"), [(0.95, False), (0.99, True)])
def test_a_budget_is_held_against_the_confidence_that_was_asked_for(
    confidence: float, *, fires: bool
) -> None:
    # 1.1 unannounced losses are expected: 3 % of runs have four or more.
    found = weights(
        settings__max_failures=3,
        settings__max_preemption_failures=3,
        market__lifetime__mtbf_h=40.0,
        market__notice__reliability=0.5,
        goal__confidence=confidence,
    )
    assert ("retry-budget" in found) is fires
    assert ("preemption-budget" in found) is fires


def test_no_retry_is_silent_where_nothing_is_lost_without_notice() -> None:
    told = changed(
        sound_question(),
        {"settings.max_failures": 0, "market.notice.reliability": 1.0},
    )

    assert "no-retry" not in {found.rule for found in findings(told)}
