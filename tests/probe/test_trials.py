"""Trials of Ray Tune: numbered, wrapped without losing what Tune noted, and summed up."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ray import cloudpickle, tune

from chaos.errors import UsageError
from chaos.launch.ray.trials import (
    TrialContext,
    _isolate_storage,
    _wrap_trainable,
    intercept_tuner,
    trial_number,
)
from chaos.model.event import ExperimentEnded
from chaos.model.scenario import Scenario
from chaos.probe.address import RunAddress
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.journal import open_driver_journal, read_history
from tests.check.story import Story

CARD = TrialContext(RunAddress(Path("/run"), "f00d", "ray:chaos-f00d"), {})


def drives(config: dict[str, Any]) -> None:
    del config


def test_a_trial_is_numbered_by_its_id_and_without_a_number_it_is_refused() -> None:
    assert trial_number("1d6d2_00003") == 3
    with pytest.raises(UsageError, match="grid or random search"):
        trial_number("8f0c11aa")


def test_a_wrapped_trainable_travels_and_keeps_its_name_and_resources() -> None:
    given = tune.with_resources(drives, {"CPU": 2})

    watched = _wrap_trainable(given, CARD)

    assert (watched.__name__, vars(watched)["_resources"]) == ("drives", given._resources)
    assert callable(cloudpickle.loads(cloudpickle.dumps(watched)))


def test_what_tune_keeps_is_of_this_run_alone_and_the_scripts_settings_stay_theirs(
    tmp_path: Path,
) -> None:
    theirs = tune.RunConfig(name="mine", storage_path="s3://bucket/runs?scheme=http")
    directory = RunDirectory(tmp_path)

    assert _isolate_storage(None, directory, CARD).storage_path == str(tmp_path / "storage/.tune")
    ours = _isolate_storage(theirs, directory, CARD)
    assert (ours.name, ours.storage_path) == ("mine", "s3://bucket/runs/chaos-f00d?scheme=http")
    assert theirs.storage_path == "s3://bucket/runs?scheme=http"


def test_ray_tunes_own_count_of_its_trials_is_recorded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tune.Tuner, "__init__", lambda *_, **__: None)
    monkeypatch.setattr(tune.Tuner, "fit", lambda _: ["one result", "and another"])
    directory, plan = RunDirectory(tmp_path), Story().plan()
    for name, value in RunAddress(tmp_path, "f00d", "none:").build_variables().items():
        monkeypatch.setenv(name, value)
    directory.journals.mkdir()
    with closing(open_driver_journal(directory.journals, SystemClock())) as journal:
        experiment = intercept_tuner(plan, directory, journal)
        tuner: Any = tune.Tuner(drives)
        assert tuner.fit() == ["one result", "and another"]

    assert experiment.began
    ended = read_history(directory.journals).select_events(ExperimentEnded)
    assert [event.trials for _, event in ended] == [2]


@pytest.mark.parametrize(
    ("cluster", "fault", "words"),
    [
        ({"address": "h:1"}, {"kill_worker": {}}, "leave cluster.address"),
        ({}, {"kill_driver": {}}, "ends an experiment with all its trials"),
        ({}, {"start_second_driver": {}}, "one fault of its scenario, without job.trial"),
    ],
)
def test_what_would_strike_more_than_the_trial_is_refused(
    cluster: dict[str, Any], fault: dict[str, Any], words: str
) -> None:
    written = {
        "scenario": "s",
        "job": {"script": "x.py", "workers": 1, "trial": 0},
        "cluster": cluster,
        "faults": ({"at": {"epoch": 1, "step": 1}, **fault},),
    }

    with pytest.raises(ValueError, match=words):
        Scenario.model_validate(written)
