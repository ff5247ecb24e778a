"""Results decide: no run with equal results fails, and no run with another result passes."""

import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.check.analysis import RunAnalysis
from chaos.check.judge import CHECKS, judge, judge_analysis
from chaos.check.results import RESULT_CHECKS, is_required
from chaos.harness import load_recorded_history
from chaos.model.history import History
from chaos.model.plan import Confined, Plan
from chaos.model.verdict import CheckResult, Verdict
from chaos.run.directory import RunDirectory
from tests.check.mutations import BROKEN
from tests.check.shorthand import plan_of, told_in
from tests.check.story import Story, Strike
from tests.check.test_judge_properties import HOMES, STRUCK
from tests.recorded.guard import RUNS

PLAIN = "g s s r c s s r c ."
STATE = "g @model=0,opt= s s r c @model=2,opt=2 s s r c ."
KILLED = "g @model=0,opt= s s r c @model=2,opt=2 s x g<c0 @model=2,opt=2 s s r c ."
DRIFTED = "g @model=0,opt= s s r c @model=2,opt=2 s x g<c0 @model=2,opt=2/3 s s r c ."
DRIFTED_AND_LOST = "g @model=0,opt= s s r c @model=2,opt=2 s x g<c0 @model=2,opt=2/3 s s! r c ."
# What breaks a promise and leaves every result as it is, where nothing else follows from it.
WITHOUT_CONSEQUENCE = {
    "resume from what was never committed",
    "ranks disagree",
    "charge the wrong budget",
    "an attempt that nobody caused",
    "fewer workers than were asked for",
    "new work on a node that is to go",
    "a batch is smaller",
    "an attempt comes back",
    "the start takes too long",
}


def result(verdict: Verdict, check: str) -> CheckResult:
    return next(result for result in verdict.results if result.check == check)


def test_every_check_compares_a_result_explains_one_or_judges_the_evidence() -> None:
    known = {check.NAME for check in CHECKS}

    assert {name for checks in RESULT_CHECKS.values() for name in checks} <= known


def test_unequal_copies_without_another_result_are_latent() -> None:
    verdict = judge(plan_of(DRIFTED), told_in(DRIFTED), told_in(STATE))

    replicas = result(verdict, "replicas")
    assert verdict.status == "pass"
    assert [anomaly.severity for anomaly in replicas.latent] == ["latent"]
    assert replicas.anomalies == ()
    assert any(note.startswith("latent: replicas: ") for note in verdict.notes)


def test_unequal_copies_beside_another_loss_explain_it() -> None:
    verdict = judge(plan_of(DRIFTED_AND_LOST), told_in(DRIFTED_AND_LOST), told_in(STATE))

    assert verdict.status == "fail"
    assert {"replicas", "trajectory"} <= {broken.check for broken in verdict.broken}


def test_an_explanation_is_a_doubt_where_results_were_not_compared() -> None:
    mutate, check = BROKEN["charge the wrong budget"]
    story = Story((Strike(2, 3, 1),))

    verdict = judge(story.plan(), mutate(story.history()), None)

    assert verdict.status == "inconclusive"
    assert "whether a result differs is not known" in result(verdict, check).summary


@pytest.mark.parametrize("attempts", [None, 2])
def test_what_the_scenario_asks_for_is_required_in_itself(attempts: int | None) -> None:
    line = "g s s r c s x g<c0 s g<c0 s s r c ."
    verdict = judge(plan_of(line, attempts=attempts), told_in(line), told_in(PLAIN))

    assert (verdict.status == "fail") == (attempts is not None)


def test_what_an_audit_expects_of_its_own_runs_is_asked_by_nobody() -> None:
    line = "g s s r c s x g<c0 s g<c0 s s r c ."
    audited = plan_of(line, attempts=2).model_copy(update={"confined": Confined(folder="/audit")})

    verdict = judge(audited, told_in(line), told_in(PLAIN))

    assert verdict.status != "fail"


def test_a_promise_of_another_package_is_required_in_itself() -> None:
    foreign = CheckResult(check="ours", status="fail", summary="", evidence=1, package="ours")

    assert is_required(plan_of(KILLED), foreign)


def test_a_pass_says_which_results_were_equal() -> None:
    verdict = judge(plan_of(KILLED), told_in(KILLED), told_in(STATE))

    compared = {one.name: one for one in verdict.compared}
    assert compared.keys() == RESULT_CHECKS.keys()
    assert compared["steps"].status == "equal"
    assert "losses" in compared["steps"].detail
    assert compared["files"].status == "not compared"


def test_a_repeated_step_is_another_sample_and_is_not_outvoted() -> None:
    story = Story((Strike(2, 3, 1),), watch=True)
    mutate, check = BROKEN["repeat a step"]
    verdict = judge(story.plan(), mutate(story.history()), story.baseline())

    assert verdict.broken[0].check == check


# -- over many runs --------------------------------------------------------------------------------


def differing_results(plan: Plan, history: History, baseline: History) -> list[str]:
    """Return what differs from the baseline by a comparison that knows nothing of the checks.

    Steps that survive by rank, epoch and step: losses and inputs; metrics of each report; the
    digests of the model. What differs before the first fault does not repeat, and is left out.
    """
    analysis = RunAnalysis(plan, history, baseline)
    assert analysis.reference is not None
    actual, expected = analysis.run.lineage, analysis.reference.lineage
    began = analysis.fault_start
    steps = {(s.rank, s.epoch, s.step): s for s in actual.all_steps()}
    due = {(s.rank, s.epoch, s.step): s for s in expected.all_steps()}
    differing = []
    for name in ("losses", "inputs"):
        pairs = [
            (steps[at].number, getattr(steps[at], name), getattr(due[at], name))
            for at in steps.keys() & due.keys()
        ]
        pairs = [pair for pair in pairs if pair[1] is not None and pair[2] is not None]
        repeats = all(a == b for number, a, b in pairs if number < began)
        if repeats and any(a != b for number, a, b in pairs if number >= began):
            differing.append(name)
    return differing


def recorded_runs() -> Iterator[tuple[str, Plan, History, History]]:
    with tempfile.TemporaryDirectory() as folder, tarfile.open(RUNS) as archive:
        archive.extractall(folder, filter="data")
        for file in sorted(Path(folder).rglob("plan.json")):
            directory = RunDirectory(file.parent)
            baseline = directory.load_baseline()
            if baseline is not None:
                yield (
                    file.parent.name,
                    directory.load_plan(),
                    load_recorded_history(directory),
                    baseline,
                )


def shows_its_grounds(verdict: Verdict, plan: Plan) -> bool:
    """Return whether a failure is of another result, of an early sign, or was asked for."""
    early = {"state", "cursor", "epochs"}
    return any(one.status == "different" for one in verdict.compared) or any(
        broken.check in early or is_required(plan, broken) for broken in verdict.broken
    )


@pytest.mark.timeout(300)
def test_no_recorded_run_fails_by_equal_results_or_passes_by_others() -> None:
    wrong = []
    for name, plan, history, baseline in recorded_runs():
        verdict = judge_analysis(RunAnalysis(plan, history, baseline))
        is_free = plan.expect.is_exact and not plan.expect.accept
        is_free &= plan.expect.sampling == "exactly_once"
        differing = differing_results(plan, history, baseline) if is_free else []
        if verdict.status == "fail" and not shows_its_grounds(verdict, plan):
            wrong.append((name, "fails by equal results"))
        if verdict.status == "pass" and differing:
            wrong.append((name, f"passes by other {differing}"))

    assert wrong == []


@pytest.mark.parametrize("name", BROKEN)
def test_a_mutated_history_fails_only_by_a_result(name: str) -> None:
    mutate, check = BROKEN[name]
    story = HOMES.get(name, STRUCK)

    verdict = judge(story.plan(), mutate(story.history()), story.baseline())

    assert (verdict.status != "fail") == (name in WITHOUT_CONSEQUENCE), verdict.headline
    if name in WITHOUT_CONSEQUENCE and verdict.status == "pass":
        assert [one.check for one in verdict.results if one.latent] == [check]
