"""A job of torchrun's: its restarts, its host, and nodes that are on demand."""

import re
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import UsageError
from chaos.extensions.preflight.answer import answer_question
from chaos.extensions.preflight.forecast import Effort, Forecast, build_forecast, simulate
from chaos.extensions.preflight.load import load_question
from chaos.extensions.preflight.question import Question, change_question
from chaos.extensions.preflight.rules import findings
from chaos.extensions.preflight.settings import RaySettings, TorchrunSettings
from tests.extensions.preflight.questions import memoryless, sound_torchrun

TORCHRUN = {"launcher": "torchrun", "max_restarts": -1, "job_retries": -1}


def asked(**values: Any) -> Question:
    """Return a job of four nodes that is lost once in two hours, and takes 23 hours."""
    places = {name.replace("__", "."): value for name, value in values.items()}
    return change_question(
        change_question(memoryless(loss_every_s=7200), {"settings": TORCHRUN}), places
    )


def seen(question: Question) -> Forecast:
    return build_forecast(question, simulate(question, runs=600, seed=0, jobs=1))


def test_with_restarts_enough_it_is_forecast_as_a_job_of_rays() -> None:
    rays, torchruns = seen(memoryless(loss_every_s=7200)), seen(asked(job__on_demand_nodes=0))

    assert torchruns.restarts.middle == rays.restarts.middle
    assert torchruns.mean_goodput == pytest.approx(rays.mean_goodput)


def test_nodes_on_demand_are_not_lost_and_cost_their_price() -> None:
    plain, kept = seen(asked()), seen(asked(job__on_demand_nodes=2))

    assert kept.restarts.middle == pytest.approx(plain.restarts.middle / 2, rel=0.3)
    cheap = {"market__price_ratio": 0.3}
    paid = [seen(asked(**cheap, job__on_demand_nodes=n)).cost.middle for n in (0, 2)]
    assert paid[1] == pytest.approx(0.65 / 0.3 * paid[0], rel=0.15)


def test_one_lost_host_ends_a_start_of_the_command() -> None:
    few = asked(settings__max_restarts=1000, settings__job_retries=0)

    alone, hosted = seen(few), seen(change_question(few, {"job.on_demand_nodes": 1}))

    # Of some eleven losses one in four takes the host.
    assert alone.finishes.share < 0.15
    assert alone.ends["job_retries"].share > 0.8
    assert hosted.finishes.share == 1.0


def test_each_start_has_all_restarts_again() -> None:
    settings = TorchrunSettings(max_restarts=3, job_retries=2)

    assert settings.limits == (11, 2, 2)
    assert TorchrunSettings(max_restarts=3, job_retries=-1).limits[0] == -1
    assert TorchrunSettings().limits == (0, 0, 0)


def test_a_start_that_lost_its_host_is_used_up_as_one_that_lost_too_many_is() -> None:
    values = {"settings__max_restarts": 4, "settings__job_retries": 3}

    apart = [seen(asked(**values, job__on_demand_nodes=n)).finishes.share for n in (1, 0)]

    # Some eleven losses: 19 are borne where none takes the host, and four starts where they do.
    assert apart[0] > 0.9
    assert apart[1] < 0.6


def test_a_wait_longer_than_the_time_out_ends_a_start() -> None:
    waits = {"market__away_h": 0.5, "settings__join_timeout_s": 60.0, "job__on_demand_nodes": 1}

    none, again = (seen(asked(**waits, settings__job_retries=n)) for n in (0, -1))

    assert none.ends["join_timeout_s"].share > 0.9
    assert again.finishes.share == 1.0


def test_an_elastic_job_goes_on_after_the_last_call() -> None:
    elastic = {"job__min_nodes": 2, "market__away_h": 1.0, "job__on_demand_nodes": 1}

    slow, fast = (
        seen(asked(**elastic, settings__last_call_s=last_call)) for last_call in (900.0, 0.0)
    )

    assert fast.mean_goodput > slow.mean_goodput
    assert fast.finishes.share == 1.0


def test_what_is_advised_are_settings_that_torchrun_has() -> None:
    few = change_question(
        sound_torchrun(), {"settings.max_restarts": 0, "market.lifetime.mtbf_h": 10.0}
    )

    found = answer_question(few, Effort(runs=400, jobs=1))

    places = (
        {*found.changes} | {place for one in found.counsel.settings for place in one.values}
        if found.counsel
        else set()
    )
    names = {place.removeprefix("settings.") for place in places if place.startswith("settings.")}
    assert names <= set(TorchrunSettings.model_fields)
    assert not any("Ray" in one.reason for one in found.findings)


def test_a_setting_of_rays_is_unknown_to_it() -> None:
    with pytest.raises(UsageError, match=r"there is no value settings\.max_failures"):
        change_question(sound_torchrun(), {"settings.max_failures": 3})
    with pytest.raises(UsageError, match=r"settings\.ray|settings"):
        change_question(sound_torchrun(), {"settings": {"launcher": "slurm"}})
    assert isinstance(change_question(sound_torchrun(), {"settings": {}}).settings, RaySettings)


def test_to_go_on_with_fewer_is_no_wait_in_vain() -> None:
    elastic = asked(
        job__min_nodes=1,
        job__on_demand_nodes=1,
        settings__max_restarts=1000,
        settings__job_retries=0,
        market__away_h=0.1,
    )

    assert seen(elastic).finishes.share == 1.0


def test_an_elastic_job_below_its_least_waits_no_longer_than_the_time_out() -> None:
    elastic = {"job__min_nodes": 3, "job__on_demand_nodes": 1, "market__away_h": 3.0}

    few = seen(asked(**elastic, settings__job_retries=5, settings__max_restarts=1000))

    assert few.ends["join_timeout_s"].share > 0.5


def test_starts_are_one_budget_whatever_uses_them_up() -> None:
    question = asked(settings__max_restarts=0, settings__job_retries=30, market__away_h=0.3)
    outcomes = simulate(question, runs=400, seed=0, jobs=1)

    done = outcomes.finished > 0
    assert (outcomes.preemptions + outcomes.failures)[done].max() <= 30


def test_without_agents_no_node_is_the_host() -> None:
    plain = asked(settings__agents=False, settings__job_retries=40)

    outcomes = simulate(plain, runs=200, seed=0, jobs=1)

    assert outcomes.preemptions.max() == 0
    assert not any(
        one.rule in {"rendezvous-on-spot", "lost-while-meeting"}
        for one in findings(change_question(plain, {"settings.job_retries": 0}))
    )


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            "{launcher: torchrun, max_restart: 3}",
            "'settings.max_restart'. Did you mean max_restarts",
        ),
        ("{launcher: slurm}", "settings.launcher is one of ray, torchrun"),
        ("{launcher: torchrun, max_failures: 3}", "unknown key 'settings.max_failures'"),
        ("{max_failure: 3}", "'settings.max_failure'. Did you mean max_failures"),
    ],
)
def test_a_key_of_settings_that_is_wrong_is_named(
    tmp_path: Path, settings: str, problem: str
) -> None:
    file = tmp_path / "a.preflight.yaml"
    file.write_text(
        "preflight: x\njob: {nodes: 2, steps: 9, checkpoint_every_steps: 3}\n"
        f"settings: {settings}\ncosts: {{step_s: 1, save_s: 1}}\nmarket: busy-16h\n"
    )

    with pytest.raises(UsageError, match=f":3: .*{re.escape(problem)}"):
        load_question(file)
