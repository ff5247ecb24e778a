"""How a run ends."""

import pytest

from chaos.check.judge import judge
from chaos.faults.torn_checkpoint import TornCheckpoint
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.plan import Op
from chaos.model.trigger import AtStep
from chaos.model.verdict import CheckResult
from tests.accepted import expect_text
from tests.check.shorthand import plan_of, told_in
from tests.check.story import Story, Strike
from tests.check.tamper import changed, result_on, told, verdict_on, without
from tests.findings import expect_finding

KILLED = Story((Strike(2, 3, 1),))
GAVE_UP = Story(KILLED.strikes, budget=0)
ENDS = (ev.FitReturned, ev.DriverExited, ev.RunEnded, ev.LeftoversSearched)


def unfinished(story: Story) -> History:
    history = story.history()
    for kind in ENDS:
        history = without(history, kind)
    return history


def hung(history: History) -> History:
    after = told(history, ev.DeadlinePassed(limit_s=240), ev.LeftoversSearched(places=()))
    return told(after, ev.RunEnded(), before=ev.LeftoversSearched)


def test_a_job_that_finishes_is_valid() -> None:
    assert result_on("outcome", KILLED).summary == "the job finished"


OVER = Story((Strike(3, rank=1, moment="committed"),))


def test_a_restart_after_the_end_is_an_outcome_of_its_own() -> None:
    verdict = verdict_on(OVER)

    assert verdict.status == "pass"
    summary = "restarted after the end: nothing was left to do, 0 new steps"
    assert result_on("outcome", OVER).summary == summary
    expect_text(verdict.headline)


def test_a_restart_that_makes_no_step_before_the_end_is_none() -> None:
    """Two epochs are missing: that it had nothing left to do would be false."""
    early = Story((Strike(1, rank=1, moment="committed"),))
    history = without(early.history(), ev.StepDone, lambda e: e.attempt == 1)
    history = without(history, ev.Committed, lambda e: e.attempt == 1)

    verdict = verdict_on(early, history)

    assert verdict.status == "fail"
    assert "nothing was left" not in result_on("outcome", early, history).summary


def test_a_restart_with_steps_to_make_finished() -> None:
    assert (
        result_on("outcome", Story((Strike(2, rank=1, moment="committed"),))).summary
        == "the job finished"
    )


def test_an_error_that_is_expected_is_valid() -> None:
    verdict = verdict_on(GAVE_UP, outcome="error")

    assert verdict.status == "pass"
    expect_text(verdict.headline)


def test_an_error_that_is_not_expected_is_told() -> None:
    verdict = verdict_on(GAVE_UP)

    expect_finding(
        result_on("outcome", GAVE_UP),
        "training-failed",
        error="WorkerGroupError",
        error_text="no retry left",
    )
    assert verdict.status == "fail"


def test_of_a_traceback_the_last_line_is_told() -> None:
    traceback = "Training failed:\n[Rank 0]\nValueError: no data\n"
    history = changed(GAVE_UP.history(), ev.FitRaised, message=traceback)

    result = result_on("outcome", GAVE_UP, history)
    expect_finding(result, "training-failed", error="WorkerGroupError")
    assert result.summary.endswith(": ValueError: no data")
    silent = changed(history, ev.FitRaised, message="")
    assert "it gave no reason" in result_on("outcome", GAVE_UP, silent).summary


def test_a_job_that_finishes_where_an_error_is_expected_is_invalid() -> None:
    assert "was expected to raise" in result_on("outcome", KILLED, outcome="error").summary


def test_a_run_that_was_ended_at_its_limit_says_nothing_of_the_outcome() -> None:
    result = result_on("outcome", KILLED, hung(unfinished(KILLED)))

    assert result.status == "inconclusive"
    expect_text(result.summary)


def test_an_interrupted_run_says_nothing() -> None:
    history = changed(unfinished(KILLED), ev.RunEnded)
    history = told(history, ev.RunEnded(interrupted=True), before=ev.StepDone)

    assert result_on("outcome", KILLED, history).summary == "the run was interrupted"


def test_a_script_that_fails_outside_fit_is_invalid() -> None:
    history = told(unfinished(Story()), ev.ScriptRaised(error="NoFit", message="it never came"))

    assert "failed outside fit(): NoFit" in result_on("outcome", Story(), history).summary


@pytest.mark.parametrize("expected", ["finished", "error"])
def test_a_script_that_dies_before_fit_is_over_is_invalid(expected: str) -> None:
    history = told(unfinished(KILLED), ev.DriverExited(code=-9))

    expect_finding(
        result_on("outcome", KILLED, history, outcome=expected), "ended-early", exit_code=-9
    )


def test_a_script_that_raises_when_it_is_started_once_more_is_invalid() -> None:
    raised = ev.ScriptRaised(error="FileExistsError", message="out")
    history = told(told(KILLED.history(), ev.DriverExited(code=-9)), raised)

    assert result_on("outcome", KILLED, history).status == "fail"


def test_a_run_that_finished_without_a_step_is_not_a_success() -> None:
    history = without(without(Story().history(), ev.StepDone), ev.Committed)

    assert "not one step was trained" in result_on("outcome", Story(), history).summary


def test_a_boosted_tree_is_trained_without_a_step() -> None:
    verdict = verdict_on(Story(), without(Story().history(), ev.StepDone), alone=True)

    expect_text(verdict.headline)


@pytest.mark.parametrize("expected", ["finished", "error"])
def test_an_end_that_was_not_seen_is_unknown(expected: str) -> None:
    history = unfinished(KILLED)

    assert result_on("outcome", KILLED, history, outcome=expected).status == "inconclusive"


def returning(history: History, *, of: int) -> History:
    """Return that fit() returned what rank 0 reported in an epoch."""
    metrics = next(e.metrics[0] for _, e in history.select_events(ev.Committed) if e.epoch == of)
    return changed(history, ev.FitReturned, metrics={**metrics, "added_by_ray": 1})


def judged(run: History, baseline: History) -> CheckResult:
    results = judge(KILLED.plan(), run, baseline).results
    return next(result for result in results if result.check == "outcome")


def test_the_result_is_of_the_last_report_where_the_baselines_is() -> None:
    baseline = returning(KILLED.baseline(), of=3)
    stale = returning(KILLED.history(), of=1)

    assert judged(returning(KILLED.history(), of=3), baseline).status == "pass"
    expect_finding(judged(stale, baseline), "wrong-metrics-returned", epoch=3)
    assert judged(KILLED.history(), baseline).status == "fail"


def test_a_result_that_is_the_jobs_own_choice_is_not_judged() -> None:
    assert judged(returning(KILLED.history(), of=1), returning(KILLED.baseline(), of=2)).status == (
        "pass"
    )
    assert judged(returning(KILLED.history(), of=1), KILLED.baseline()).status == "pass"


def test_the_result_is_rank_0s_report() -> None:
    def by_rank(history: History) -> History:
        return changed(
            history,
            ev.Committed,
            metrics=lambda e: tuple({**m, "of": rank} for rank, m in enumerate(e.metrics)),
        )

    run, baseline = by_rank(KILLED.history()), by_rank(KILLED.baseline())
    of_rank_1 = changed(returning(run, of=3), ev.FitReturned, metrics={"of": 1})

    assert judged(returning(run, of=3), returning(baseline, of=3)).status == "pass"
    assert judged(of_rank_1, returning(baseline, of=3)).status == "fail"


def test_a_baseline_without_any_attempt_lets_no_check_crash() -> None:
    baseline = KILLED.baseline()
    for kind in (ev.WorkerGroupStarted, ev.WorkerStarted, ev.StepDone, ev.Committed, ev.StateSeen):
        baseline = without(baseline, kind)

    verdict = judge(KILLED.plan(), KILLED.history(), baseline)

    assert not [r for r in verdict.results if "crashed" in r.summary or "Error" in r.summary]


def test_the_last_attempt_of_a_job_that_finished_ended_by_itself_whether_seen_or_not() -> None:
    result = result_on("ack", Story(KILLED.strikes, watch=False))

    expect_text(result.summary)


def returned(baseline: str, run: str) -> CheckResult:
    results = judge(plan_of(run), told_in(run), told_in(baseline)).results
    return next(result for result in results if result.check == "outcome")


@pytest.mark.parametrize(
    ("baseline", "end", "words"),
    [
        (".c1", ".c1", None),
        (".c1", ".c0", "fit() returned c0, and the newest checkpoint is c1, of epoch 1"),
        (".c1", ".", "fit() returned no checkpoint, and the baseline's did"),
        (".c0", ".", "fit() returned no checkpoint, and the baseline's did"),
        (".c0", ".c1", None),  # the baseline's is not the newest: the job's own choice
        (".c0", ".c0", None),
        (".", ".c0", None),
    ],
)
def test_the_checkpoint_of_the_result_is_the_newest_where_the_baselines_is(
    baseline: str, end: str, words: str | None
) -> None:
    found = returned(f"g s s r c s s r c {baseline}", f"g s s r c s x g<c0 s s r c {end}")

    assert (found.status == "fail") == (words is not None)
    assert words is None or words in found.summary


def test_a_result_after_a_last_report_without_a_checkpoint_is_the_newest_one() -> None:
    found = returned("g s s r c s s r c- .c0", "g s s r c s x g<c0 s s r c- .c0")

    assert found.status == "pass"


def raising(
    errors: dict[int, str],
    error: str = "WorkerGroupError",
) -> CheckResult:
    """Judge a run that was to end with an error, with what Ray knew of it."""
    history = changed(GAVE_UP.history(), ev.FailureDecided, errors=errors, error=error)
    history = changed(history, ev.FitRaised, error=error, message="it ended")
    return result_on("outcome", GAVE_UP, history, outcome="error")


def test_an_expected_error_that_nothing_we_did_explains_is_unknown() -> None:
    result = raising({0: "KeyError: 'loss'"})

    assert result.status == "inconclusive"
    expect_text(result.summary)


@pytest.mark.parametrize(
    "errors",
    [
        {1: "ValueError: bad batch"},
        {0: "KeyError: 'loss'", 1: "WorkerHealthCheckFailedError: The actor is dead"},
        {0: "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer"},
        {0: "RuntimeError: Timed out waiting 1800000ms for recv operation to complete"},
        {0: "DistBackendError: NCCL error: remote process exited or there was a network error"},
        {0: "XGBoostError: rabit: worker 1 has gone"},
        {0: "LightGBMError: Socket recv error, code: 104"},
        {0: "UnavailableError: Collective ops is aborted"},
        {0: "InjectedError: injected by chaos"},
    ],
)
def test_an_error_of_the_struck_rank_or_of_those_that_it_leaves_is_expected(
    errors: dict[int, str],
) -> None:
    assert raising(errors).status == "pass"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ("PreemptionError", "pass"),
        ("ControllerError: OutOfMemoryError", "pass"),
        ("ActorDiedError", "pass"),
        ("ControllerError: KeyError", "inconclusive"),
    ],
)
def test_where_ray_names_no_rank_its_own_word_is_what_there_is(error: str, status: str) -> None:
    assert raising({}, error).status == status


def test_a_controller_that_is_gone_decides_nothing_and_its_death_is_the_error() -> None:
    history = without(GAVE_UP.history(), ev.FailureDecided)

    def found(error: str) -> str:
        told_so = changed(history, ev.FitRaised, error=error, message="")
        return result_on("outcome", GAVE_UP, told_so, outcome="error").status

    assert (found("ActorDiedError"), found("KeyError")) == ("pass", "inconclusive")


def test_what_storage_has_spoilt_may_come_out_as_any_error() -> None:
    history = changed(GAVE_UP.history(), ev.FailureDecided, errors={0: "UnpicklingError: A load"})
    torn = Op(index=0, at=AtStep(epoch=2, step=3, rank=1), torn_checkpoint=TornCheckpoint())

    def found(*ops: Op) -> str:
        plan = GAVE_UP.plan(outcome="error")
        plan = plan.model_copy(update={"ops": ops or plan.ops})
        results = judge(plan, history, GAVE_UP.baseline()).results
        return next(r for r in results if r.check == "outcome").status

    assert (found(torn), found()) == ("pass", "inconclusive")


def test_a_job_that_fails_by_itself_as_expected_owes_no_cause() -> None:
    history = told(unfinished(Story()), ev.FitRaised(error="KeyError", message="'loss'"))
    history = told(history, ev.DriverExited(code=1))

    assert result_on("outcome", Story(), history, outcome="error").status == "pass"
