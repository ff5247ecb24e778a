"""A question without a market: three known ones side by side, and no answer that one decides."""

from pathlib import Path

import pytest

from chaos.extensions.preflight.answer import Answer, answer_question
from chaos.extensions.preflight.assumed_markets import (
    ASSUMED,
    answer_on_markets,
    list_assumed_markets,
)
from chaos.extensions.preflight.forecast import Effort
from chaos.extensions.preflight.page import render_answer
from chaos.extensions.preflight.question import Question, change_question
from tests.called import chaos
from tests.extensions.preflight.questions import sound_question
from tests.extensions.preflight.shown import in_markdown, shown

FEW = Effort(runs=200, jobs=1)
TASK = "num_nodes: 4\nresources: {use_spot: true}\nrun: torchrun --max-restarts 3 train.py\n"
VALUES = {
    "job.steps": 60_000,
    "job.checkpoint_every_steps": 500,
    "costs.step_s": 1.2,
    "costs.save_s": 20,
    "costs.restart_s": 120,
    "settings.storage_path": "s3://b/r",
}
COSTS = [word for name, value in VALUES.items() for word in ("--set", f"{name}={value}")]


def answered(**values: object) -> Answer:
    """Return the answer to the sound question without a market."""
    places = {name.replace("__", "."): value for name, value in values.items()}
    question = change_question(sound_question(), places)

    def answer(on_market: Question) -> Answer:
        return answer_question(on_market, FEW)

    return answer_on_markets(question, list_assumed_markets(question, {}), answer, FEW)


@pytest.fixture(scope="module")
def divided() -> Answer:
    return answered(goal__deadline_h=12.5)


def test_where_the_market_decides_nothing_can_be_told(divided: Answer) -> None:
    words = [item.word for item in divided.markets]

    assert words[0] == "go"
    assert words[2] != "go"
    assert divided.word == "cannot tell"
    assert divided.exit_code == 2
    assert divided.why.startswith("no market was given")
    assert all(name in divided.why for name in ASSUMED)


def test_the_three_stand_side_by_side_and_no_advice_of_one_among_them(divided: Answer) -> None:
    for text in (shown(divided), in_markdown(divided), render_answer(divided)):
        assert all(name in text for name in ASSUMED)
        assert "goodput" in text
    text = shown(divided)
    head = next(line for line in text.splitlines() if "on the market" in line)
    assert head.split() == ["on", "the", "market", *ASSUMED]
    assert "interval" not in text
    assert "Set together" not in text
    assert divided.changes == {}
    assert [item["market"] for item in divided.dump_values()["markets"]] == [*ASSUMED]


def test_where_all_agree_it_is_that_answer_with_the_assumption_first() -> None:
    easy, hopeless = answered(), answered(goal__deadline_h=5.0)

    assert easy.word == "go" if {a.word for a in easy.markets} == {"go"} else "cannot tell"
    assert hopeless.word == "no-go"
    for answer in (easy, hopeless):
        assert answer.why.startswith("no market was given")
        assert answer.forecast is None  # the figures of one market stand under its name alone


def test_where_each_market_takes_other_changes_that_is_said_and_no_verdict_repeated() -> None:
    question = sound_question()
    markets = list_assumed_markets(question, {})

    def answer(on_market: Question) -> Answer:
        changes = {"goal.deadline_h": 1.0}  # the work alone takes longer
        return Answer(on_market, FEW, "go with changes", "an example", (), changes=changes)

    text = answer_on_markets(question, markets, answer, FEW).why

    assert text.count("go with changes") == 1
    assert "each takes other changes" in text


def test_without_costs_only_what_holds_on_every_market_is_said() -> None:
    question = change_question(
        sound_question(), {"settings.max_failures": 0, "settings.storage_path": None}
    ).model_copy(update={"costs": None})

    answer = answer_on_markets(
        question,
        list_assumed_markets(question, {}),
        lambda on_market: answer_question(on_market, FEW),
        FEW,
    )

    assert answer.word == "cannot tell"
    assert {"no-retry", "no-storage-path"} <= {finding.rule for finding in answer.findings}
    assert "cannot tell" in shown(answer)


def test_a_value_of_the_market_is_that_of_all_three() -> None:
    markets = list_assumed_markets(sound_question(), {"market.notice.seconds": 30.0})

    assert [market.notice.seconds for market in markets] == [30.0] * 3
    assert [market.name for market in markets] == [*ASSUMED]


def test_a_platform_file_alone_is_no_go_for_want_of_a_market(tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text(TASK, encoding="utf-8")
    words = ("preflight", "task.yaml", *COSTS, "--set", "settings.job_retries=-1")
    words += ("--deadline", "22h", "--simulations", "200")

    none, named = (
        chaos(*words, *market, folder=tmp_path) for market in ([], ["--market", "calm-500h"])
    )

    assert none.code == 2
    assert none.out.startswith("? cannot tell: no market was")
    assert named.code == 0
    assert "no market was given" not in named.out
