"""A run's folder holds what the run rests on before anything is done."""

import os
from pathlib import Path

import pytest

from chaos.errors import HistoryError, UsageError
from chaos.model.plan import Plan, Shape
from chaos.model.scenario import Expect, Job, Limits
from chaos.run.directory import RunDirectory, create


def plan_of(file: Path) -> Plan:
    return Plan(
        scenario="s",
        slug="s",
        file=str(file),
        seed=3,
        cwd="/",
        job=Job(script="/job.py", workers=2),
        shape=Shape(nodes=3, cpus_per_node=1),
        ops=(),
        expect=Expect(),
        limits=Limits(),
    )


def test_plan_environment_and_scenario_are_saved_first(tmp_path: Path) -> None:
    scenario = tmp_path / "s.chaos.yaml"
    scenario.write_text("scenario: s\n")
    plan = plan_of(scenario)

    directory = create(tmp_path / "reports", "3-now", plan, {"versions": {"ray": "2.60.0"}})

    assert directory.load_plan() == plan
    assert directory.load_env() == {"versions": {"ray": "2.60.0"}}
    assert (directory.path / "scenario.yaml").read_text() == "scenario: s\n"


def test_a_name_that_is_taken_gets_a_suffix(tmp_path: Path) -> None:
    plan = plan_of(tmp_path / "s.chaos.yaml")

    names = [create(tmp_path, "run", plan, {}).path.name for _ in range(3)]

    assert names == ["run", "run-2", "run-3"]


def test_reports_that_cannot_be_written_are_the_callers_to_put_right(tmp_path: Path) -> None:
    (tmp_path / "reports").write_text("a file where a folder should be")

    with pytest.raises(UsageError, match="--reports"):
        create(tmp_path / "reports", "run", plan_of(tmp_path / "s.chaos.yaml"), {})


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 2}', '{"version": 1, "seed": "x"}'])
def test_a_corrupt_plan_names_its_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)

    with pytest.raises(HistoryError, match=r"plan\.json: not a plan"):
        RunDirectory(tmp_path).load_plan()


def test_a_folder_that_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="Give the directory of a run"):
        RunDirectory(tmp_path).load_plan()


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    RunDirectory(tmp_path).write("verdict.json", "{}")

    assert os.listdir(tmp_path) == ["verdict.json"]  # noqa: PTH208 - names are the claim
