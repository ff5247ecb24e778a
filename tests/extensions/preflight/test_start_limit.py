"""A start that has a time limit, such as Slurm's --time, beside closed forms."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import poisson

from chaos.errors import UsageError
from chaos.extensions.preflight.answer import Answer, answer_question
from chaos.extensions.preflight.forecast import Effort, build_forecast, simulate
from chaos.extensions.preflight.market import find_preset
from chaos.extensions.preflight.platform_files import load_platform_file
from chaos.extensions.preflight.question import Question, change_question, remove_limits
from chaos.extensions.preflight.rules import findings
from chaos.extensions.preflight.start_limit import explain_start_limit, plan_lossless_course
from chaos.extensions.preflight.verdict import explain_impossible
from tests.extensions.preflight.questions import memoryless
from tests.extensions.preflight.shown import shown

SIGMAS = 5  # a false alarm once in two million
NEVER_S = 1e12
TORCHRUN = {"launcher": "torchrun", "max_restarts": -1, "job_retries": -1}


def limited(limit_h: float, requeues: int = 0, **values: Any) -> Question:
    """Return a job of torchrun's whose starts are ended after so many hours."""
    starts = {"settings": TORCHRUN | {"start_limit_h": limit_h, "limit_requeues": requeues}}
    places = {name.replace("__", "."): value for name, value in values.items() if "__" in name}
    shape = {name: value for name, value in values.items() if "__" not in name}
    question = change_question(memoryless(**{"loss_every_s": NEVER_S, **shape}), starts)
    return change_question(question, places)


@settings(max_examples=40, deadline=None)
@given(
    limit_s=st.integers(200, 8000),
    every=st.integers(20, 900),
    save_s=st.integers(0, 60),
    restart_s=st.integers(0, 300),
    requeues=st.integers(0, 12),
)
def test_without_losses_a_training_ends_within_its_starts_or_it_does_not(
    limit_s: int, every: int, save_s: int, restart_s: int, requeues: int
) -> None:
    question = limited(
        limit_s / 3600, requeues, every=every, save_s=save_s, restart_s=restart_s, commits=10
    )
    course = plan_lossless_course(question)

    outcomes = simulate(question, runs=100, seed=0, jobs=1, horizon_s=1e7)

    ends = course is not None and course.starts <= requeues + 1
    assert outcomes.finished.mean() == float(ends)
    assert outcomes.timed_out.mean() == float(not ends)
    if course is not None and ends:
        assert outcomes.end_s == pytest.approx(course.duration_s)
        assert outcomes.requeues.mean() == course.starts - 1


def test_the_starts_of_a_training_are_counted_by_hand() -> None:
    # A restart takes 100 s and a save 50: of 1200 s a start trains 1100, five times 150 and 50.
    values = {"every": 150, "save_s": 50, "commits": 20, "costs__schedule_s": 0.0}
    question = limited(1200 / 3600, -1, **values, costs__start_s=100.0)

    course = plan_lossless_course(question)

    assert course is not None
    assert course.starts == 4  # 20 saves, five of them in each start
    assert course.duration_s == pytest.approx(3 * 1200 + 100 + 5 * 200)


@pytest.mark.parametrize("losses_borne", [0, 1, 3, 6])
def test_with_memoryless_losses_a_start_is_long_enough_as_often_as_poisson_says(
    losses_borne: int,
) -> None:
    # Saved at each step, a loss costs 60 s and no work. It may take 1 s more: the step under way.
    restart_s, work_s, mean_losses = 60, 6000, 3.0
    slack_s = restart_s / 2
    limit_s = work_s + restart_s * (1 + losses_borne) + slack_s
    question = limited(
        limit_s / 3600,
        loss_every_s=work_s / mean_losses,
        every=1,
        save_s=0,
        commits=work_s,
        restart_s=0,
        costs__start_s=float(restart_s),
        job__on_demand_nodes=0,
        job__nodes=1,
        market__lifetime={"kind": "exponential", "mtbf_h": work_s / mean_losses / 3600},
    )

    outcomes = simulate(question, runs=4000, seed=1, jobs=1, spares_starts=True)

    share = float(poisson.cdf(losses_borne, mean_losses))
    error = math.sqrt(share * (1 - share) / 4000)
    assert abs(outcomes.finished.mean() - share) <= SIGMAS * error
    assert (outcomes.finished + outcomes.timed_out == 1).all()


def test_a_start_that_a_loss_used_up_leaves_the_next_one_all_of_its_time() -> None:
    # Each loss ends the command: starts go on until one lives to its limit, e^(t/M) of them.
    trained_s, loss_every_s = 3600, 2400
    question = limited(
        (trained_s + 60) / 3600,
        loss_every_s=loss_every_s,
        nodes=1,
        every=10**6,
        commits=1,
        restart_s=0,
        costs__start_s=60.0,
        settings__agents=False,
    )

    outcomes = simulate(question, runs=4000, seed=1, jobs=1, horizon_s=1e8, spares_starts=True)

    starts = outcomes.restarts + 1
    error = float(starts.std()) / math.sqrt(4000)
    assert outcomes.timed_out.all()
    assert abs(starts.mean() - math.exp(trained_s / loss_every_s)) <= SIGMAS * error


def test_restarts_within_a_start_share_its_time() -> None:
    values = {"loss_every_s": 1800, "commits": 20, "job__on_demand_nodes": 1}

    within, used_up = (
        build_forecast(question, simulate(question, runs=400, seed=0, jobs=1))
        for question in (
            limited(2.5, **values),
            limited(2.5, **values, settings__max_restarts=0),
        )
    )

    # 2.3 h without a loss: with some five, one start is too short, and with starts of their own
    # each has time enough.
    assert within.finishes.share < 0.4
    assert used_up.finishes.share > 0.8


def test_a_save_on_the_signal_goes_on_where_no_interval_fits_into_a_start() -> None:
    values = {"every": 8000, "commits": 2, "settings__limit_signal_s": 60.0}
    deaf, saves = (limited(1.0, 9, **values, job__saves_on_notice=on) for on in (False, True))

    assert plan_lossless_course(deaf) is None
    course = plan_lossless_course(saves)
    assert course is not None
    outcomes = simulate(saves, runs=100, seed=0, jobs=1)
    assert outcomes.finished.all()
    assert outcomes.end_s == pytest.approx(course.duration_s)
    late = change_question(saves, {"settings.limit_signal_s": 5.0})
    assert plan_lossless_course(late) is None


def test_a_limit_of_no_time_is_refused_and_not_simulated_for_ever() -> None:
    with pytest.raises(UsageError, match="more than can be simulated"):
        simulate(limited(1e-4, -1), runs=100, seed=0, jobs=1)


# -- the answer ----------------------------------------------------------------------------------

SBATCH = """#!/bin/bash
#SBATCH --nodes=4 --time=04:00:00
#SBATCH --signal=B:USR1@90
{line}
srun torchrun --nnodes 4 --max-restarts 9 train.py &
wait
"""


def answered(**values: Any) -> Answer:
    """Return the answer on 20 h of work in starts of four hours."""
    long = {"every": 500, "save_s": 10, "commits": 144, "loss_every_s": 400_000}
    return answer_question(limited(4.0, **long, **values), Effort(runs=400, jobs=1))


def test_a_training_longer_than_its_start_is_a_no_go_with_the_way_out() -> None:
    answer = answered()

    text = " ".join(shown(answer).split())
    assert answer.word == "no-go"
    assert "20.4 h without any loss" in answer.why
    assert "is ended after 4.0 h" in answer.why
    assert answer.forecast is not None
    assert answer.forecast.finishes.share == 0
    assert "--time=21:00:00" in answer.would_take
    assert "5 times, 6 starts in all" in answer.would_take
    assert "settings.limit_requeues=5" in answer.would_take
    assert "limit 99.0% 100.0% 100.0%" in text
    assert "deadline below" not in text


def test_with_the_way_out_it_is_a_go() -> None:
    assert answered(settings__limit_requeues=5).word == "go"
    assert answered(settings__start_limit_h=21.0).word == "go"


def test_too_few_starts_are_named() -> None:
    answer = answered(settings__limit_requeues=2)

    assert answer.word == "no-go"
    assert "takes 6 starts of 4.0 h" in answer.why
    assert "is queued again 2 times" in answer.why


@pytest.mark.parametrize(
    ("line", "requeues"),
    [
        ("trap 'scontrol requeue $SLURM_JOB_ID' USR1", -1),
        ("# scontrol requeue $SLURM_JOB_ID", None),
        ("#SBATCH --requeue", None),
        ("scontrol requeue $SLURM_JOB_ID", None),  # no trap: the signal ends the shell
    ],
)
def test_a_script_that_queues_itself_again_is_read_as_one(
    line: str, requeues: int | None, tmp_path: Path
) -> None:
    path = tmp_path / "train.sbatch"
    path.write_text(SBATCH.format(line=line), encoding="utf-8")

    file = load_platform_file(path)

    assert file is not None
    assert file.values.get("settings.limit_requeues") == requeues
    assert file.values["settings.start_limit_h"] == 4.0


def test_a_shorter_interval_is_advised_where_no_save_fits_into_a_start() -> None:
    long = {"every": 20_000, "save_s": 10, "commits": 4, "loss_every_s": 400_000}

    answer = answer_question(limited(4.0, -1, **long), Effort(runs=400, jobs=1))

    assert answer.word == "go with changes"
    assert answer.why.endswith("anything for the next one")
    assert answer.changes["job.checkpoint_every_steps"] < 4 * 3600


def test_a_job_whose_losses_begin_starts_anew_is_no_no_go() -> None:
    # Every loss uses up its start, and thirty hours on a busy market have many.
    busy = find_preset("busy-16h").model_dump(mode="json")
    question = limited(
        24.0,
        nodes=8,
        every=600,
        commits=180,
        market=busy,
        settings__max_restarts=0,
        job__on_demand_nodes=0,
    )
    question = change_question(question, {"market": busy})

    answer = answer_question(question, Effort(runs=400, jobs=1))

    assert explain_start_limit(question) is not None
    assert answer.forecast is not None
    assert answer.forecast.finishes.share == 1
    assert explain_impossible(question) is None
    assert answer.word == "go"
    (finding,) = (found for found in answer.findings if found.rule.startswith("start-limit"))
    assert finding.weight == "advice"
    assert "is ended after 24.0 h" in finding.text


def test_where_no_loss_begins_a_start_anew_too_few_of_them_stop_the_job() -> None:
    question = limited(4.0, every=500, commits=144, settings__job_retries=0)

    assert explain_impossible(question) == explain_start_limit(question) is not None
    assert "start-limit" in {found.rule for found in findings(question) if found.weight == "stops"}


def test_a_deadline_is_not_held_against_starts_that_no_limit_begins() -> None:
    # Twenty hours of the queue at each limit are none of a job that is not queued at it.
    question = limited(4.0, every=500, commits=144, costs__schedule_s=72_000.0)

    assert explain_impossible(change_question(question, {"goal.deadline_h": 60.0})) is None


def test_the_horizon_knows_the_queues_between_starts() -> None:
    question = limited(1.0, -1, every=500, commits=172, costs__schedule_s=72_000.0)
    course = plan_lossless_course(question)

    outcomes = simulate(question, runs=100, seed=0, jobs=1)

    assert course is not None
    assert outcomes.finished.all()
    assert outcomes.end_s == pytest.approx(course.duration_s)


@pytest.mark.parametrize(("signal_s", "is_hinted"), [(60.0, True), (None, False)])
def test_a_signal_on_which_a_job_may_save_is_named_where_no_start_saves(
    signal_s: float | None, *, is_hinted: bool
) -> None:
    question = limited(1.0, 9, every=8000, commits=2, settings__limit_signal_s=signal_s)

    why = explain_impossible(question)

    assert why is not None
    assert ("job.saves_on_notice=true" in why) == is_hinted


@pytest.mark.parametrize("requeues", [0, 3, -1])
def test_unlimited_retries_leave_the_starts_as_they_are(requeues: int) -> None:
    unlimited = remove_limits(limited(4.0, requeues, settings__max_restarts=2))

    assert unlimited.settings.limit_requeues == requeues
    assert unlimited.settings.limits[0] == -1
