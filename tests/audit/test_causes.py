"""What giving values back shows of several findings of one audit."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from chaos.audit.cause_search import CauseOutcome, CauseSearch, Paths
from chaos.audit.causes import CauseTrials
from chaos.audit.finding import group_findings
from chaos.audit.folder import AuditFolder
from chaos.audit.run_row import Defect
from chaos.check.analysis import RunAnalysis
from chaos.check.census import CensusDifference
from chaos.model.history import Baseline
from tests.audit.backend import FakeBackend, Ticking
from tests.audit.cards import PARTED, run_of
from tests.check.story import Story, Strike
from tests.check.tamper import analysis_of

SIGNS = CensusDifference("aug.signs", "0.0", "350.0", is_initial=True)
PROVEN = CauseOutcome((SIGNS,), (SIGNS,))


def build_trials(
    monkeypatch: pytest.MonkeyPatch, earlier: Sequence[CauseOutcome], *, mends: bool
) -> tuple[CauseTrials, list[Paths]]:
    """Return trials with the outcomes of earlier findings, and a list of what they try."""
    tried: list[Paths] = []

    def find_idle_parts(_: CauseSearch, __: RunAnalysis, paths: Paths) -> tuple[str, ...] | None:
        tried.append(paths)
        return ("rng.torch",) if mends else None

    analysis = analysis_of(Story((Strike(2, 3, 1),)))
    monkeypatch.setattr(CauseSearch, "find_idle_parts", find_idle_parts)
    monkeypatch.setattr(CauseTrials, "_load_analysis", lambda *_: analysis)
    folder, baseline = AuditFolder(Path(), {}), Baseline([Story().baseline()])
    trials = CauseTrials(FakeBackend(), Ticking(), folder, baseline, (), 1e18, 2)
    trials._outcome_by_finding = {str(n): outcome for n, outcome in enumerate(earlier)}
    return trials, tried


def search_again(
    monkeypatch: pytest.MonkeyPatch, earlier: Sequence[CauseOutcome], *, mends: bool
) -> tuple[CauseOutcome | None, list[Paths]]:
    """Return what a second finding is told by the outcomes of earlier ones, and what it tried."""
    trials, tried = build_trials(monkeypatch, earlier, mends=mends)
    return trials._repeat_cause(5, "trajectory"), tried


def test_a_cause_that_was_shown_is_tried_first_for_another_finding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcome, tried = search_again(monkeypatch, [PROVEN, PROVEN], mends=True)

    assert tried == [("aug.signs",)]
    assert outcome is not None
    assert outcome.cause == (SIGNS._replace(baseline_text=""),)
    assert outcome.idle == ("rng.torch",)


@pytest.mark.parametrize("mends", [True, False])
def test_a_sign_without_a_consequence_is_no_second_cause(
    monkeypatch: pytest.MonkeyPatch, *, mends: bool
) -> None:
    """Ranks that read files of different ages, in a job that had lost a queue besides."""
    ages = Defect(check="agreement", kind="ranks-disagree", sentence="files of different ages")
    (finding,) = group_findings([run_of(5, ages, PARTED)])
    trials, _ = build_trials(monkeypatch, [PROVEN], mends=mends)
    checks = list[str]()
    create_search = trials._create_search

    def note_check(number: int, check: str, name: str) -> CauseSearch:
        checks.append(check)
        return create_search(number, check, name)

    monkeypatch.setattr(trials, "_create_search", note_check)

    trials.minimum_runs = 0  # the search for the known cause took all

    found = trials._try_known_causes(finding)

    assert trials.minimum_runs == 2
    assert checks == ["agreement"]  # which is to pass: some signs are results themselves
    assert found.cause == (("aug.signs",) if mends else ())
    assert found.defect == (PARTED.key if mends else ages.key)


def test_a_generator_that_mends_is_no_cause_of_another_sign(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = CensusDifference("rng.torch", "", "", is_initial=True)
    drawn = CauseOutcome((rng,), (rng,), generators=("rng.torch",))
    ages = Defect(check="agreement", kind="ranks-disagree", sentence="files of different ages")
    (finding,) = group_findings([run_of(5, ages, PARTED)])
    trials, _ = build_trials(monkeypatch, [drawn], mends=True)

    assert trials._try_known_causes(finding) == finding


def test_a_cause_that_does_not_mend_is_not_that_of_the_other_finding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert search_again(monkeypatch, [PROVEN], mends=False) == (None, [("aug.signs",)])


@pytest.mark.parametrize(
    "outcome",
    [
        CauseOutcome((SIGNS,), None),
        CauseOutcome((SIGNS,), (SIGNS,), are_files=True),
        CauseOutcome((SIGNS,), (SIGNS,), is_cut_short=True),
    ],
    ids=["it was not shown", "it is a file", "it may be more than the cause"],
)
def test_what_is_no_known_cause_is_not_tried(
    monkeypatch: pytest.MonkeyPatch, outcome: CauseOutcome
) -> None:
    assert search_again(monkeypatch, [outcome], mends=True) == (None, [])
