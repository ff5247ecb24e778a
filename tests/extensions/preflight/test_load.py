"""What is written is what is asked; every mistake has its line."""

from pathlib import Path

import pytest

from chaos.errors import ScenarioError, UsageError
from chaos.extensions.preflight.load import load_question
from chaos.extensions.preflight.question import change_question
from tests.extensions.preflight.questions import sound_question

WHOLE = """\
preflight: a model on eight nodes
job:
  nodes: 8
  steps: 40000
  checkpoint_every_steps: 500
settings: {max_failures: 3}
costs: {step_s: 1, save_s: 8}
market: hot-4h
goal: {deadline_h: 24}
"""


def loaded(folder: Path, text: str) -> Path:
    path = folder / "a.preflight.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_question_names_its_market_or_spells_it_out(tmp_path: Path) -> None:
    named = load_question(loaded(tmp_path, WHOLE))
    spelled = load_question(
        loaded(tmp_path, WHOLE.replace("hot-4h", "{lifetime: {kind: exponential, mtbf_h: 5}}"))
    )

    assert named.market.name == "hot-4h"
    assert spelled.market.mtbf_h == 5
    assert named.interval_s == 500


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        ("nodes: 8", "nodes: 0", 3, "job.nodes"),
        ("nodes: 8", "nodez: 8", 3, "unknown key 'job.nodez'. Did you mean nodes?"),
        ("  steps: 40000\n", "", 2, "job.steps is missing"),
        ("hot-4h", "hot-4", 8, "there is no market 'hot-4'. Did you mean hot-4h?"),
        ("deadline_h: 24", "deadline_h: -1", 9, "goal.deadline_h"),
        ("step_s: 1", 'step_s: "1"', 7, "costs.step_s"),
        ("nodes: 8", "nodes: 8\n  min_nodes: 9", 2, "job.min_nodes must be below job.nodes"),
        ("nodes: 8", "nodes: 8\n  workers_per_node: 8", 4, "nodes are lost whole"),
        ("market: hot-4h\n", "market: {}\n", 8, "a market needs either lifetime or replay"),
        ("save_s: 8", "save_s: 8, restart_s: 9, detect_s: 1", 7, "either costs.restart_s or its"),
        ("save_s: 8", "save_s: 8, restart_s: -9", 7, "costs.restart_s must be 0 or more, got -9"),
        ("save_s: 8", "save_s: 8, restarts_s: 9", 7, "Did you mean restart_s?"),
        ("max_failures: 3", "max_failures: 3, max_failures: 4", 6, "given twice"),
    ],
)
def test_a_mistake_is_refused_at_its_line(
    tmp_path: Path, old: str, new: str, line: int, problem: str
) -> None:
    path = loaded(tmp_path, WHOLE.replace(old, new))

    with pytest.raises(ScenarioError) as refused:
        load_question(path)

    assert problem in str(refused.value)
    assert refused.value.line == line


def test_a_misspelt_market_does_not_hide_other_mistakes(tmp_path: Path) -> None:
    text = WHOLE.replace("hot-4h", "hot-4").replace("nodes: 8", "nodez: 8")

    with pytest.raises(ScenarioError) as refused:
        load_question(loaded(tmp_path, text.replace("deadline_h: 24", "deadline_h: -1")))

    said = str(refused.value).splitlines()
    assert [line.partition(".yaml:")[2].partition(":")[0] for line in said] == ["3", "8", "9"]
    assert "Did you mean hot-4h?" in said[1]


def test_a_value_set_on_the_command_line_must_exist_and_make_sense() -> None:
    question = sound_question()

    assert change_question(question, {"job.nodes": 64}).job.nodes == 64
    with pytest.raises(UsageError, match="Did you mean nodes"):
        change_question(question, {"job.node": 64})
    with pytest.raises(UsageError, match=r"job\.nodes"):
        change_question(question, {"job.nodes": -1})


def test_one_restart_stands_for_its_parts_and_is_paid_in_full_whatever_is_spared(
    tmp_path: Path,
) -> None:
    asked = load_question(loaded(tmp_path, WHOLE.replace("save_s: 8", "save_s: 8, restart_s: 90")))
    costs = asked.costs

    assert costs is not None
    assert costs.restart_s == costs.begin_s == costs.start_s == 90
    again = change_question(sound_question(), {"costs.restart_s": 60})
    assert again.costs is not None
    assert (again.costs.restart_s, again.costs.detect_s, again.costs.save_s) == (60, 0, 8)


def test_a_question_survives_being_written_and_read() -> None:
    question = sound_question()

    assert type(question).model_validate_json(question.model_dump_json()) == question


def test_changing_what_was_put_before_changes_nothing_of_the_callers() -> None:
    costs = {"step_s": 1.0, "save_s": 8.0}
    found = change_question(sound_question(), {"costs": costs, "costs.save_s": 9.0})

    assert found.costs is not None
    assert found.costs.save_s == 9
    assert costs["save_s"] == 8
