"""What a person reads below a failing test."""

from dataclasses import replace

from chaos.model.diagnosis import Part, Resume
from chaos.model.event import StepDone
from chaos.model.history import History
from chaos.model.verdict import Anomaly, CheckResult
from chaos.report.outcome import FinishedRun
from chaos.report.sections import line_of
from chaos.report.terminal import broken_off, explanation, plain_text


def lines(run: FinishedRun) -> list[str]:
    return plain_text(explanation(run, page="p/report.html"), width=80).splitlines()


def words(run: FinishedRun) -> str:
    return " ".join(" ".join(lines(run)).split())


def with_results(run: FinishedRun, headline: str, *results: CheckResult) -> FinishedRun:
    status = results[0].status
    update = {"results": results, "headline": headline, "status": status}
    return replace(run, verdict=run.verdict.model_copy(update=update))


def broken(check: str, *messages: str) -> CheckResult:
    found = tuple(Anomaly(message=message, events=(1, 2)) for message in messages)
    return CheckResult(check=check, status="fail", summary=messages[0], evidence=1, anomalies=found)


def undecided(check: str, why: str) -> CheckResult:
    return CheckResult(check=check, status="inconclusive", summary=why, evidence=0)


def test_it_begins_with_what_was_expected_and_ends_with_the_way_on(
    guilty_run: FinishedRun,
) -> None:
    said = lines(guilty_run)

    assert said[0].startswith("expected pass; got fail")
    assert said[-2] == "  report  p/report.html"
    assert said[-1] == f"  replay  chaos replay {guilty_run.directory}"
    assert max(map(len, said)) <= 80


def test_what_the_headline_says_is_not_said_again(guilty_run: FinishedRun) -> None:
    run = with_results(
        guilty_run,
        "Rank 1 was killed; the model is gone.",
        broken("state", "the model is gone"),
        broken("epochs", "epoch 3 is missing"),
    )

    assert "state as said above epochs epoch 3 is missing" in words(run)


def test_many_anomalies_are_counted_and_not_listed(guilty_run: FinishedRun) -> None:
    run = with_results(
        guilty_run, "h", broken("epochs", *(f"epoch {n} is missing" for n in "12345"))
    )

    assert "epoch 3 is missing and 2 more, in the report" in words(run)
    assert "epoch 4" not in words(run)


def test_checks_that_cannot_tell_for_one_reason_are_one_line(unknown_run: FinishedRun) -> None:
    run = with_results(
        unknown_run,
        "It cannot be told: op 0 never happened.",
        undecided("faults-happened", "op 0 never happened"),
        undecided("state", "no restart was seen"),
        undecided("cursor", "no restart was seen"),
    )

    expected = "inconclusive faults-happened: as said above state, cursor: no restart was seen"
    assert expected in words(run)


def test_what_did_not_come_back_is_named_part_by_part(guilty_run: FinishedRun) -> None:
    part = Part(
        group="optimizer",
        component="optimizer.exp_avg",
        rank=1,
        standing="not restored",
        ours="empty",
        baseline="norm 2",
    )
    resume = Resume(
        attempt=1, epoch=2, step=0, checkpoint=None, sound=False, sentence="", parts=(part,)
    )
    verdict = guilty_run.verdict.model_copy(update={"diagnosis": (resume,)})

    said = words(replace(guilty_run, verdict=verdict))

    assert "not back in attempt 1, at epoch 2" in said
    assert "optimizer.exp_avg not restored (rank 1): empty instead of norm 2" in said


def test_one_line_names_the_check_and_what_it_found(
    valid_run: FinishedRun, guilty_run: FinishedRun, unknown_run: FinishedRun
) -> None:
    surprise = valid_run.verdict.model_copy(update={"as_expected": False})

    assert line_of(valid_run.verdict) == f"pass: {valid_run.verdict.headline}"
    assert line_of(surprise).startswith("pass, against the scenario's expectation: ")
    assert line_of(with_results(guilty_run, "h", broken("state", "m")).verdict) == "fail, state: m"
    doubt = with_results(unknown_run, "h", undecided("watched", "nobody looked"))
    assert line_of(doubt.verdict) == "inconclusive, watched: nobody looked"


def test_a_run_that_was_broken_off_says_how_far_it_had_come(valid_run: FinishedRun) -> None:
    last = [n for n, entry in enumerate(valid_run.history) if isinstance(entry.what, StepDone)][-1]
    cut = replace(valid_run, history=History(valid_run.history[: last + 1]))
    unbegun = replace(valid_run, history=History(()))

    said = plain_text(broken_off(cut, "Timeout", page="p"), width=100)

    step = valid_run.history[last].what
    assert isinstance(step, StepDone)
    assert f"Training stood at epoch {step.epoch}, step {step.step} of attempt 1" in said
    assert "1 fault had been injected" in said
    assert "Training had not begun" in plain_text(broken_off(unbegun, "t", page="p"), width=80)
