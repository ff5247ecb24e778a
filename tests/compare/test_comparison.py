"""What counts as a regression, and what is left open."""

import io
import json

import pytest
from rich.console import Console

from chaos.compare.comparison import ScenarioChange, compare
from chaos.compare.words import in_json, in_markdown, in_terminal
from chaos.model.summary import RunSummary
from tests.report.past import past_run


def runs(*recoveries: float, standing: str = "expected") -> list[RunSummary]:
    return [
        past_run("killed", standing, recovery_s=s, lost_steps=8, goodput=0.5) for s in recoveries
    ]


def told(row: ScenarioChange) -> dict[str, str]:
    return {change.measure.name: change.told for change in row.changes}


FAST = (1.0, 1.1, 1.2, 0.9, 1.05, 1.15)
SLOW = (9.0, 9.1, 9.2, 8.9, 9.3, 9.4)


def test_a_recovery_that_is_slower_beyond_noise_is_a_regression() -> None:
    found = compare(runs(*FAST), runs(*SLOW))

    assert told(found.scenarios[0]) == {
        "recovery": "worse",
        "lost steps": "same",
        "goodput": "same",
    }
    assert found.exit_code == 1
    assert found.sentence == "1 of 1 scenarios are worse"


def test_a_faster_recovery_is_none() -> None:
    found = compare(runs(*SLOW), runs(*FAST))

    assert told(found.scenarios[0])["recovery"] == "better"
    assert found.exit_code == 0


def test_less_goodput_is_worse_and_more_is_better() -> None:
    lean = [past_run(goodput=share / 100) for share in range(10, 16)]
    rich = [past_run(goodput=share / 100) for share in range(60, 66)]

    assert told(compare(rich, lean).scenarios[0])["goodput"] == "worse"
    assert told(compare(lean, rich).scenarios[0])["goodput"] == "better"


def test_with_fewer_than_three_repeats_noise_cannot_be_told() -> None:
    found = compare(runs(*FAST[:2]), runs(*SLOW))
    (change, *_) = found.scenarios[0].changes

    assert (change.told, change.p) == ("cannot be told", None)
    assert found.exit_code == 0
    assert "fewer than 3 repeats" in in_markdown(found, before="a", after="b")


def test_repeats_that_are_too_few_for_any_p_say_so() -> None:
    found = compare(runs(*FAST[:3]), runs(*SLOW[:3]))

    assert told(found.scenarios[0])["recovery"] == "cannot be told"
    assert "p could not have been below" in in_markdown(found, before="a", after="b")


def test_a_difference_within_noise_is_not_shown() -> None:
    found = compare(runs(*FAST), runs(*reversed(FAST)))

    assert told(found.scenarios[0])["recovery"] == "not shown"
    assert found.exit_code == 0


def test_what_many_measures_would_show_by_chance_is_corrected() -> None:
    before = [past_run(f"s{n}", recovery_s=float(v)) for n in range(40) for v in (1, 2, 3, 4, 5)]
    after = [
        past_run(f"s{n}", recovery_s=float(v) + (10 if n == 0 else 0))
        for n in range(40)
        for v in (1, 2, 3, 4, 5)
    ]

    assert compare(before[:5], after[:5]).exit_code == 1
    assert compare(before, after).exit_code == 0


@pytest.mark.parametrize(
    ("before", "after", "fate", "code"),
    [
        (["expected"], ["expected"], "same", 0),
        (["expected"], ["unexpected"], "regression", 1),
        (["expected"] * 5, ["expected"] * 4 + ["unexpected"], "regression", 1),
        (["expected"], ["not_run"], "regression", 1),
        (["expected"], ["undecided"], "unknown", 2),
        (["unexpected"], ["expected"], "fixed", 0),
        (["unexpected"], ["unexpected"], "same", 0),
        (["expected", "unexpected"], ["unexpected", "expected"], "varies", 0),
        (["expected"] * 19 + ["unexpected"], ["unexpected"] * 20, "regression", 1),
        (["expected"], [], "missing", 2),
        (["unexpected"], ["undecided"], "unknown", 2),
    ],
)
def test_what_becomes_of_a_verdict(
    before: list[str], after: list[str], fate: str, code: int
) -> None:
    found = compare(
        [past_run("killed", kind) for kind in before], [past_run("killed", kind) for kind in after]
    )

    assert found.scenarios[0].fate == fate
    assert found.exit_code == code


def test_a_new_scenario_of_which_nothing_is_known_is_not_passed_over() -> None:
    found = compare(
        [past_run("killed")], [past_run("killed"), past_run("frozen", standing="undecided")]
    )

    assert [row.fate for row in found.scenarios] == ["same", "unknown"]
    assert found.exit_code == 2


def test_a_new_scenario_is_no_regression() -> None:
    found = compare(runs(1.0), [*runs(1.0), past_run("another")])

    assert [row.fate for row in found.scenarios] == ["same", "new"]
    assert found.exit_code == 0


def test_sides_without_a_scenario_in_common_are_not_compared() -> None:
    found = compare([past_run("a")], [past_run("b")])

    assert found.exit_code == 2
    assert found.sentence == "the two sides have no scenario in common"
    assert compare([], []).exit_code == 2


def test_versions_and_backends_that_differ_are_named() -> None:
    before = [past_run(backend="fork", versions={"ray": "2.60.0", "torch": "2.13"})]
    after = [past_run(backend="ray", versions={"ray": "2.60.1", "torch": "2.13"})]

    assert compare(before, after).differences == {
        "backend": ("fork", "ray"),
        "ray": ("2.60.0", "2.60.1"),
    }


def test_the_table_fits_80_columns_and_says_in_words_what_colour_repeats() -> None:
    long = [past_run("a scenario with a rather long name that goes on", recovery_s=s) for s in FAST]
    slow = [run.model_copy(update={"recovery_s": 9 + n}) for n, run in enumerate(long)]
    written = io.StringIO()
    console = Console(file=written, width=80, color_system=None)
    console.print(in_terminal(compare(long, slow), before="reports/a", after="reports/b"))
    text = written.getvalue()

    assert max(map(len, text.splitlines())) <= 80
    assert "worse, d=+1.00" in text
    assert "1 of 1 scenarios are worse" in text
    assert "n=6" in text


def test_json_holds_the_values_themselves() -> None:
    found = json.loads(in_json(compare(runs(*FAST), runs(*SLOW)), before="a", after="b"))
    recovery = found["scenarios"][0]["measures"]["recovery"]

    assert recovery["before"] == list(FAST)
    assert recovery["told"] == "worse"
    assert recovery["p_holm"] < 0.05
    assert found["exit_code"] == 1
