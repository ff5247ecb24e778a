"""What counts as a regression, and what is left open."""

import pytest

from chaos.extensions.lab.compare.comparison import ScenarioChange, compare_runs
from chaos.extensions.lab.compare.render import list_parts
from chaos.model.summary import RunSummary
from chaos.report.markdown_parts import render_markdown_parts
from tests.accepted import expect_text
from tests.report.past import past_run


def runs(*recoveries: float, standing: str = "expected") -> list[RunSummary]:
    return [
        past_run("killed", standing, recovery_s=s, lost_steps=8, goodput=0.5) for s in recoveries
    ]


def told(row: ScenarioChange) -> dict[str, str]:
    return {change.measure.name: change.result for change in row.changes}


FAST = (1.0, 1.1, 1.2, 0.9, 1.05, 1.15)
SLOW = (9.0, 9.1, 9.2, 8.9, 9.3, 9.4)


def test_a_recovery_that_is_slower_beyond_noise_is_a_regression() -> None:
    found = compare_runs(runs(*FAST), runs(*SLOW))

    assert told(found.scenarios[0]) == {
        "recovery": "worse",
        "lost steps": "same",
        "goodput": "same",
    }
    assert found.exit_code == 1
    assert found.sentence == "1 of 1 scenarios are worse"


def test_a_faster_recovery_is_none() -> None:
    found = compare_runs(runs(*SLOW), runs(*FAST))

    assert told(found.scenarios[0])["recovery"] == "better"
    assert found.exit_code == 0


def test_less_goodput_is_worse_and_more_is_better() -> None:
    lean = [past_run(goodput=share / 100) for share in range(10, 16)]
    rich = [past_run(goodput=share / 100) for share in range(60, 66)]

    assert told(compare_runs(rich, lean).scenarios[0])["goodput"] == "worse"
    assert told(compare_runs(lean, rich).scenarios[0])["goodput"] == "better"


def test_few_repeats_on_one_side_are_enough_beside_many_on_the_other() -> None:
    found = compare_runs(runs(*FAST[:2]), runs(*SLOW, *(value + 10 for value in SLOW)))

    assert told(found.scenarios[0])["recovery"] == "worse"


@pytest.mark.parametrize(("scenarios", "repeats"), [(1, 5), (2, 5), (6, 6), (20, 7), (50, 8)])
def test_how_many_repeats_could_show_a_change_follows_from_the_tests(
    scenarios: int, repeats: int
) -> None:
    def side(each: int, *, off: float, changed: float = 0) -> list[RunSummary]:
        return [
            past_run(
                f"s{n}",
                recovery_s=off + repeat + (changed if n == 0 else 0),
                lost_steps=int(2 * off) + repeat,
                goodput=(off + repeat) / 1000,
            )
            for n in range(scenarios)
            for repeat in range(each)
        ]

    def recovery(each: int) -> str:
        found = compare_runs(side(each, off=1), side(each, off=1.5, changed=1e3))
        assert found.repeats_needed == repeats
        return told(found.scenarios[0])["recovery"]

    assert recovery(repeats) == "worse"
    assert recovery(repeats - 1) == "inconclusive"


def test_a_difference_within_noise_is_not_shown() -> None:
    found = compare_runs(runs(*FAST), runs(*reversed(FAST)))

    assert told(found.scenarios[0])["recovery"] == "not shown"
    assert found.exit_code == 0


def test_what_many_measures_would_show_by_chance_is_corrected() -> None:
    before = [past_run(f"s{n}", recovery_s=float(v)) for n in range(40) for v in (1, 2, 3, 4, 5)]
    after = [
        past_run(f"s{n}", recovery_s=float(v) + (10 if n == 0 else 0))
        for n in range(40)
        for v in (1, 2, 3, 4, 5)
    ]

    assert compare_runs(before[:5], after[:5]).exit_code == 1
    assert compare_runs(before, after).exit_code == 0


@pytest.mark.parametrize(
    ("before", "after", "fate", "code"),
    [
        (["expected"], ["expected"], "same", 0),
        (["expected"], ["unexpected"], "regression", 1),
        (["expected"] * 5, ["expected"] * 4 + ["unexpected"], "regression", 1),
        (["expected"], ["not_run"], "regression", 1),
        (["expected"], ["undecided"], "inconclusive", 2),
        (["unexpected"], ["expected"], "fixed", 0),
        (["unexpected"], ["unexpected"], "still fails", 2),
        (["expected", "unexpected"], ["unexpected", "expected"], "varies", 2),
        (["expected"] * 19 + ["unexpected"], ["unexpected"] * 20, "regression", 1),
        (["expected"], [], "missing", 2),
        (["unexpected"], ["undecided"], "inconclusive", 2),
        ([], ["expected"], "new", 2),
        ([], ["unexpected"], "new, fails", 2),
        ([], ["expected", "unexpected"], "new, fails", 2),
        ([], ["not_run"], "new, fails", 2),
    ],
)
def test_what_becomes_of_a_verdict(
    before: list[str], after: list[str], fate: str, code: int
) -> None:
    found = compare_runs(
        [past_run("killed", kind) for kind in before], [past_run("killed", kind) for kind in after]
    )

    assert found.scenarios[0].outcome == fate
    assert found.exit_code == code


def test_what_fails_on_both_sides_is_named_and_can_be_allowed() -> None:
    side = [past_run("killed"), past_run("sick", "unexpected"), past_run("ill", "not_run")]

    found, allowed = compare_runs(side, side), compare_runs(side, side, allow_failing=True)

    expect_text(found.sentence)
    assert (found.exit_code, allowed.exit_code) == (2, 0)
    assert allowed.sentence == found.sentence
    assert (
        compare_runs(side, [*side, past_run("new", "unexpected")], allow_failing=True).exit_code
        == 2
    )
    assert compare_runs(side[1:2], side[:0], allow_failing=True).exit_code == 2


def test_a_new_scenario_of_which_nothing_is_known_is_not_passed_over() -> None:
    found = compare_runs(
        [past_run("killed")], [past_run("killed"), past_run("frozen", standing="undecided")]
    )

    assert [row.outcome for row in found.scenarios] == ["same", "inconclusive"]
    assert found.exit_code == 2


def test_a_new_scenario_is_no_regression() -> None:
    found = compare_runs(runs(1.0), [*runs(1.0), past_run("another")])

    assert [row.outcome for row in found.scenarios] == ["same", "new"]
    assert found.exit_code == 0


def test_a_new_scenario_that_fails_is_no_word_of_no_regression() -> None:
    before, new = [past_run("killed")], past_run("another", "unexpected")

    found = compare_runs(before, [past_run("killed"), new])
    worse = compare_runs(before, [past_run("killed", "unexpected"), new])

    assert [row.outcome for row in found.scenarios] == ["same", "new, fails"]
    assert found.exit_code == 2
    expect_text(found.sentence, "found sentence")
    assert render_markdown_parts(list_parts(found, before_path="a", after_path="b")).startswith(
        "# ❔ "
    )
    assert worse.exit_code == 1
    expect_text(worse.sentence, "worse sentence")


def test_sides_without_a_scenario_in_common_are_not_compared() -> None:
    found = compare_runs([past_run("a")], [past_run("b")])

    assert found.exit_code == 2
    expect_text(found.sentence)
    assert compare_runs([], []).exit_code == 2


def test_versions_and_backends_that_differ_are_named() -> None:
    before = [past_run(backend="fork", versions={"ray": "2.60.0", "torch": "2.13"})]
    after = [past_run(backend="ray", versions={"ray": "2.60.1", "torch": "2.13"})]

    assert compare_runs(before, after).differences == {
        "backend": ("fork", "ray"),
        "ray": ("2.60.0", "2.60.1"),
    }


def test_what_ran_before_and_is_skipped_now_is_missing_and_no_regression() -> None:
    before, after = [past_run("killed")], [past_run("killed", "skipped")]

    (row,) = compare_runs(before, after).scenarios

    assert row.outcome == "missing"
