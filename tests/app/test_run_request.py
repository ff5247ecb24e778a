"""A request of a run: one scenario, with options of `chaos run`."""

import inspect
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer

import chaos
from chaos.app.option_names import describe_option
from chaos.app.run import RunOptions, RunRequest, find_open_backend
from chaos.cli.commands import app
from chaos.errors import RequestError
from tests.needs import needs_extension

NAMES = [item.name for item in fields(RunRequest) if item.name != "scenario"]
JOB = "scenario: x\njob: {script: train.py, workers: 1}\n"


def test_each_keyword_is_an_option_of_the_command_with_its_default() -> None:
    command: Any = typer.main.get_command(app)
    options = {each.name: each for each in command.commands["run"].loaded.params}
    request = RunRequest(scenario=Path("x"))

    assert list(RunOptions.__annotations__) == NAMES
    assert list(inspect.signature(chaos.run).parameters) == ["scenario", "quiet", *NAMES]
    assert {name: options[name].default for name in NAMES} == {
        name: getattr(request, name) for name in NAMES
    }


@needs_extension("slurm")
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"backend": "spark"}, "backend: it is fork, ray, torchrun, python, slurm; got 'spark'"),
        ({"seed": -1}, "seed: it is a whole number from 0; got -1"),
        ({"keep_storage": "yes"}, "keep_storage: it is True or False; got 'yes'"),
    ],
)
def test_a_value_that_no_run_has_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(RequestError) as refused:
        chaos.run("x.chaos.yaml", **options)

    assert str(refused.value) == problem


def test_a_backend_that_cannot_start_the_job_is_named_as_who_asked_names_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "x.chaos.yaml"
    file.write_text(JOB)
    (tmp_path / "train.py").touch()

    with pytest.raises(RequestError) as refused:
        find_open_backend([file], "torchrun")

    assert "Leave backend out: jobs" in str(refused.value)
    assert "--backend: " in str(refused.value.rename_fields(describe_option))
