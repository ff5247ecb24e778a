"""A value that nobody measured is answered at both ends, and a border is said where one decides."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.errors import UsageError
from chaos.extensions.preflight.answer import Answer, answer_question
from chaos.extensions.preflight.forecast import Effort
from chaos.extensions.preflight.load import load_question
from chaos.extensions.preflight.market import Exponential, Market
from chaos.extensions.preflight.page import render_answer
from chaos.extensions.preflight.question import Question, change_question
from chaos.extensions.preflight.ranges import (
    ValueRange,
    build_held_range,
    cost_ranges,
    find_border,
    list_readings,
)
from tests.called import chaos
from tests.extensions.preflight.questions import memoryless
from tests.extensions.preflight.shown import in_markdown, shown

FEW = Effort(runs=400, jobs=1)


def asked(**values: Any) -> Question:
    """Return a job that takes 23 h without a loss, and is lost once in two hours."""
    settings: dict[str, Any] = {
        "settings__storage_path": "s3://bucket/runs",
        "settings__run_name": "big",
    }
    return memoryless(loss_every_s=7200, goal__deadline_h=28.0, **settings, **values)


@pytest.fixture(scope="module")
def open_() -> Answer:
    return answer_question(asked(costs__restart_s=[30, 3600]), FEW)


def test_where_the_ends_differ_it_cannot_be_told_and_the_border_is_said(open_: Answer) -> None:
    cheap, dear = open_.readings

    assert (open_.word, cheap.word, dear.word) == ("cannot tell", "go", "no-go")
    assert cheap.read_as == "a restart of 30.0 s"
    assert "It is a go if a restart costs " in open_.why
    for text in (shown(open_), render_answer(open_), in_markdown(open_)):
        assert "a restart of 30.0 s: go: " in " ".join(text.split())


def test_what_is_said_of_the_border_holds(open_: Answer) -> None:
    said = float(open_.why.rpartition("a restart costs ")[2].split()[0])  # minutes

    within, beyond = (
        answer_question(asked(costs__restart_s=60.0 * minutes), FEW).word
        for minutes in (said, 1.5 * said)
    )
    assert within == "go"
    assert beyond != "go"


def test_where_the_ends_agree_the_dearer_one_is_shown() -> None:
    found = answer_question(asked(costs__restart_s=[30, 60]), FEW)

    assert found.word == "go"
    assert found.question.required_costs.restart_s == 60
    assert [one.read_as for one in found.readings] == [
        "a restart of 30.0 s",
        "a restart of 60.0 s",
    ]


def test_a_no_go_is_that_of_the_better_end() -> None:
    found = answer_question(asked(costs__restart_s=[3600, 7200]), FEW)

    assert found.word == "no-go"
    assert found.question.required_costs.restart_s == 3600


def test_a_value_replaces_a_range() -> None:
    ranged = asked(costs__restart_s=[30, 60], costs__save_s=[1, 5])

    assert set(ranged.between) == {"restart_s", "save_s"}
    assert ranged.required_costs.save_s == 5
    assert set(change_question(ranged, {"costs.restart_s": 40}).between) == {"save_s"}
    assert set(change_question(ranged, {"costs.start_s": 40}).between) == {"save_s"}
    assert not change_question(
        ranged, {"costs": ranged.required_costs.model_dump(mode="json")}
    ).between


@pytest.mark.parametrize(
    "value", ["[60, 30]", "[60]", "[]", "[1, 2, 3]", "[-5, 30]", '["a", 5]', "[true, 5]"]
)
def test_what_is_no_range_is_refused(tmp_path: Path, value: str) -> None:
    problem = r"costs\.restart_s is one number, or a range with its lower end first: \[60, 900\]"
    file = tmp_path / "a.preflight.yaml"
    file.write_text(
        "preflight: x\njob: {nodes: 2, steps: 9, checkpoint_every_steps: 3}\n"
        f"costs: {{step_s: 1, save_s: 1, restart_s: {value}}}\nmarket: busy-16h\n"
    )

    with pytest.raises(UsageError, match=problem):
        load_question(file)
    bare = file.read_text().replace(f", restart_s: {value}", "")
    file.write_text(bare)
    with pytest.raises(UsageError, match=problem):
        change_question(load_question(file), {"costs.restart_s": json.loads(value)})


def test_of_nodes_that_a_log_does_not_say_both_ends_are_answered() -> None:
    def market(held: int) -> Market:
        return Market(lifetime=Exponential(mtbf_h=held / 10.0))

    held = build_held_range(2, 400, market)
    found = answer_question(asked(), FEW, ranges=[held])

    assert [one.read_as for one in found.readings] == [
        "400 nodes when the log was written",
        "2 nodes when the log was written",
    ]
    assert found.word == "cannot tell"
    assert "nodes at least when the log was written" in found.why


@given(
    good=st.floats(1, 1000),
    factor=st.floats(1.01, 1000),
    at=st.floats(0, 1),
    other=st.booleans(),
)
def test_the_border_is_the_last_value_that_suffices(
    good: float, factor: float, at: float, other: bool
) -> None:
    bad = good * factor
    limit = good * factor**at
    question = asked()
    seen: list[float] = []

    def set_to(asked: Question, value: float) -> Question:
        seen.append(value)
        return change_question(asked, {"costs.step_s": value})

    one = ValueRange(good, bad, set_to, str, lambda value: f"{value!r}")
    rest = [ValueRange(1, 2, lambda asked, _: asked, str, lambda _: "never")] if other else []
    words = find_border(
        [question], [one, *rest], lambda asked: asked.required_costs.step_s <= limit
    )

    assert words is not None
    first = float(words.split(" ")[0].rstrip(","))
    assert good <= first <= limit
    assert first >= limit / factor ** (1 / 32)


def test_ends_and_readings_are_each_a_way() -> None:
    ranged = asked(costs__restart_s=[30, 60])

    ways = list_readings(ranged, cost_ranges(ranged))

    assert [way.name for way in ways] == ["a restart of 30.0 s", "a restart of 60.0 s"]
    assert [way.question.required_costs.restart_s for way in ways] == [30, 60]
    assert all(math.isclose(way.question.required_costs.save_s, 10) for way in ways)


@pytest.mark.parametrize("held", ["0", "a", "9..3", "3..", "1..2..3"])
def test_ends_of_nodes_that_make_no_sense_are_refused(tmp_path: Path, held: str) -> None:
    (tmp_path / "a.preflight.yaml").write_text("preflight: x\n")
    (tmp_path / "a.csv").write_text("0,add,a\n")

    done = chaos(
        "preflight", "a.preflight.yaml", "--trace", "a.csv", "--trace-held", held, folder=tmp_path
    )

    assert done.code == 3
    assert f"--trace-held is N or N..M, got {held}" in done.err


def test_what_is_said_of_a_market_holds_for_every_number_of_nodes() -> None:
    held = build_held_range(
        2, 40, lambda n: Market(lifetime=Exponential(mtbf_h=n)), {"market.price_ratio": 0.9}
    )

    assert {held.apply_value(asked(), n).market.price_ratio for n in (2, 40)} == {0.9}


def test_a_rule_that_stops_the_job_is_within_no_border() -> None:
    question = change_question(
        asked(settings__checkpoint_upload_mode="async"),
        {"costs.upload_s": [5, 3000], "goal.deadline_h": 60.0},
    )

    found = answer_question(question, FEW)

    if "It is a go if an upload costs " in found.why:
        minutes = float(found.why.rpartition("an upload costs ")[2].split()[0])
        within = answer_question(change_question(question, {"costs.upload_s": 59.0 * minutes}), FEW)
        assert within.word == "go"
