"""An audit whose runs with faults are made elsewhere: places, shared runs, baseline, refusals."""

from collections import Counter
from pathlib import Path

import pytest

from chaos.audit.audit import SiteChoice
from chaos.audit.card import Card
from chaos.errors import UsageError
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.plan import Plan
from chaos.model.scenario import Limits
from tests.audit.backend import Defect, FakeBackend, audit_of, loses_momentum
from tests.check.tamper import changed


def audited(
    folder: Path, *, defect: Defect | None = None, choice: SiteChoice | None = None
) -> tuple[Card, FakeBackend, FakeBackend]:
    """Return the card of an audit on a second backend, whose job has the defect, and both."""
    here = FakeBackend(epochs=6, steps=2)
    there = FakeBackend(epochs=6, steps=2, defect=defect)
    chosen = {} if choice is None else {"choice": choice}
    return audit_of(folder, here, ray=there, count_lanes=lambda _: 4, **chosen).run(), here, there


def test_faults_are_injected_on_the_cluster_alone_and_compared_with_a_run_there(
    tmp_path: Path,
) -> None:
    card, here, there = audited(tmp_path)

    assert card.word == "pass"
    assert card.backend == "ray"
    assert not any(plan.ops for plan in here.plans)
    assert [bool(plan.ops) for plan in there.plans] == [False] * 2 + [True] * card.run_count
    for plan in there.plans:
        assert (plan.backend, plan.confined) == ("ray", None)
        assert plan.limits.run_s >= Limits().run_s + 30 * len(plan.ops)
    assert here.lanes == 1


def test_without_a_limit_a_sample_of_every_group_is_tried_and_shares_runs(tmp_path: Path) -> None:
    card, *_ = audited(tmp_path)

    assert card.ended == "all"
    assert card.is_partial
    assert {row.group for row in card.covered if row.places} == {run.group for run in card.runs}
    assert max(Counter(run.number for run in card.runs).values()) > 2
    assert card.run_count < len(card.runs)


def test_a_job_that_is_wrong_there_has_findings_with_a_reproduction(tmp_path: Path) -> None:
    card, *_ = audited(tmp_path, defect=loses_momentum)

    assert card.word == "fail"
    repro = tmp_path / "reports" / "audits"
    assert all([*repro.glob(f"*/{finding.repro}")] for finding in card.findings)


def test_every_place_is_tried_there_if_it_is_asked_for(tmp_path: Path) -> None:
    card, *_ = audited(tmp_path, choice=SiteChoice(exhaustive=True))

    assert not card.is_partial


def test_a_job_that_writes_elsewhere_is_refused_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.audit.baseline_runs.CleanResult.is_self_contained", False)
    with pytest.raises(UsageError, match="writes outside of its run's folder"):
        audited(tmp_path)


def test_a_job_that_repeats_itself_here_alone_is_refused_there(tmp_path: Path) -> None:
    here, there = FakeBackend(), FakeBackend()
    stories = iter(range(9))

    def another(plan: Plan) -> History:
        number = next(stories)
        return changed(
            FakeBackend().history(plan),
            ev.StepDone,
            losses=lambda e: tuple(float(loss) + number for loss in e.losses),
        )

    there.history = another  # type: ignore[method-assign]
    with pytest.raises(UsageError, match="and not on one"):
        audit_of(tmp_path, here, ray=there).run()
