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


def test_no_retry_is_silent_where_nothing_is_lost_without_notice() -> None:
    told = changed(
        sound_question(),
        {"settings.max_failures": 0, "market.notice.reliability": 1.0},
    )

    assert "no-retry" not in {found.rule for found in findings(told)}
