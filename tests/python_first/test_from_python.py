"""A scenario that Python wrote is the one that a file would hold."""

from pathlib import Path

import pytest

from chaos.errors import ScenarioError
from chaos.model.expect import Expect
from chaos.scenario_file.faults import kill_worker
from chaos.scenario_file.from_python import build_scenario, train_loop_name
from chaos.scenario_file.load import load_scenario


def test_it_equals_what_the_file_says(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    file = tmp_path / "x.chaos.yaml"
    file.write_text(
        "scenario: s\njob: {script: train.py, args: {epochs: 4}, workers: 2, inputs: [train.py]}\n"
        "faults:\n  - at: {epoch: 2, step: 5, rank: 1}\n    kill_worker: {}\n"
        "expect: {lost_steps: {max: 8}, ignore_metrics: [time]}\n"
    )

    written = build_scenario(
        {
            "script": Path("train.py"),
            "args": {"epochs": 4},
            "workers": 2,
            "inputs": ["train.py"],
            "faults": [kill_worker(rank=1, epoch=2, step=5)],
            "expect": {"lost_steps": {"max": 8}, "ignore_metrics": ("time",)},
            "cluster": None,
        },
        name="s",
        path=tmp_path / "test_x.py",
        line=1,
    )

    assert written == load_scenario(file)


def test_records_may_stand_for_mappings(tmp_path: Path) -> None:
    written = build_scenario(
        {"train_loop": "m:f", "workers": 1, "expect": Expect(verdict="fail", check="state")},
        name="s",
        path=tmp_path / "test_x.py",
        line=1,
    )

    assert written.expect == Expect(verdict="fail", check="state")


def test_all_mistakes_are_told_at_the_line_of_the_test(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        build_scenario(
            {"script": "no.py", "workers": 0}, name="s", path=tmp_path / "test_x.py", line=7
        )

    told = str(caught.value)
    assert told.count(f"{tmp_path}/test_x.py:7: ") == 2
    assert "there is no script 'no.py'" in told
    assert "workers must be a whole number >= 1, got 0" in told


def test_what_no_file_can_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="a scenario holds plain values, not object"):
        build_scenario({"args": {"x": object()}}, name="s", path=Path("t.py"), line=1)


def test_a_train_loop_is_named_so_that_another_process_finds_it() -> None:
    def inner() -> None:
        return

    assert train_loop_name("package.module:loop") == "package.module:loop"
    assert train_loop_name(kill_worker) == "chaos.scenario_file.from_python:kill_worker"
    with pytest.raises(ValueError, match="at the top of its module"):
        train_loop_name(inner)
