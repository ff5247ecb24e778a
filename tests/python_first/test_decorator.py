"""The decorator takes every key of a scenario."""

import inspect
from pathlib import Path

import chaos
from chaos.model.scenario import Job, Scenario


def test_the_decorator_takes_every_key_of_a_scenario() -> None:
    keys = {*Job.model_fields, *Scenario.model_fields} - {"scenario", "job", "marks"}

    assert set(inspect.signature(chaos.scenario).parameters) == {*keys, "name"}


def test_a_decorated_function_asks_for_its_run_and_for_its_own_fixtures() -> None:
    def test_x(tmp_path: Path, result: chaos.Result) -> None:
        raise AssertionError

    asking = inspect.signature(chaos.scenario(script="train.py")(test_x))
    assert list(asking.parameters) == ["tmp_path", "chaos_result"]
