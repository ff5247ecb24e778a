"""A comparison as a table, and as JSON."""

import io
import json

import pytest
from rich.console import Console

from chaos.extensions.lab.compare.comparison import ScenarioChange, compare_runs
from chaos.extensions.lab.compare.render import list_parts, render_json
from chaos.model.summary import RunSummary
from chaos.report.markdown_parts import render_markdown_parts
from chaos.report.terminal_parts import print_parts
from tests.report.past import past_run


def runs(*recoveries: float, standing: str = "expected") -> list[RunSummary]:
    return [
        past_run("killed", standing, recovery_s=s, lost_steps=8, goodput=0.5) for s in recoveries
    ]


def told(row: ScenarioChange) -> dict[str, str]:
    return {change.measure.name: change.result for change in row.changes}


FAST = (1.0, 1.1, 1.2, 0.9, 1.05, 1.15)
SLOW = (9.0, 9.1, 9.2, 8.9, 9.3, 9.4)


@pytest.mark.parametrize("repeats", [1, 2, 3])
def test_with_too_few_repeats_for_any_p_how_many_it_takes_is_said(repeats: int) -> None:
    found = compare_runs(runs(*FAST[:repeats]), runs(*SLOW[:repeats]))
    (change, *_) = found.scenarios[0].changes

    assert (change.result, change.p) == ("inconclusive", None)
    assert change.lowest_p == pytest.approx((1, 1 / 3, 0.1)[repeats - 1])
    assert found.exit_code == 0
    text = render_markdown_parts(list_parts(found, before_path="a", after_path="b"))
    assert "5 on each side could show one in any of 3 measures of 1 scenario" in text
    assert "`chaos run --repeat 5`" in text
    assert json.loads(render_json(found, before_path="a", after_path="b"))["repeats_needed"] == 5


def test_the_table_fits_80_columns_and_says_in_words_what_colour_repeats() -> None:
    long = [past_run("a scenario with a rather long name that goes on", recovery_s=s) for s in FAST]
    slow = [run.model_copy(update={"recovery_s": 9 + n}) for n, run in enumerate(long)]
    written = io.StringIO()
    console = Console(file=written, width=80, color_system=None)
    found = compare_runs(long, slow)
    print_parts(list_parts(found, before_path="reports/a", after_path="reports/b"), console)
    text = written.getvalue()

    assert max(map(len, text.splitlines())) <= 80
    assert "worse, d=+1.00" in text
    assert "1 of 1 scenarios are worse" in text
    assert "n=6" in text


def test_json_holds_the_values_themselves() -> None:
    found = json.loads(
        render_json(compare_runs(runs(*FAST), runs(*SLOW)), before_path="a", after_path="b")
    )
    recovery = found["scenarios"][0]["measures"]["recovery"]

    assert recovery["before"] == list(FAST)
    assert recovery["told"] == "worse"
    assert recovery["p_holm"] < 0.05
    assert found["exit_code"] == 1
