"""Audits of jobs that report by the clock, at other steps in every run."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from chaos.audit.audit import SiteChoice
from chaos.audit.card import Card
from chaos.audit.determinism import compare_clean_runs
from chaos.audit.job_profile import intersect_profiles, measure_job
from chaos.audit.site_groups import build_place_groups
from chaos.model import event as ev
from chaos.model.history import Baseline, History
from chaos.model.plan import Plan
from chaos.model.trigger import AtStep
from chaos.run.directory import RunDirectory
from tests.accepted import expect_text
from tests.audit.backend import FakeBackend, audit_of, loses_momentum
from tests.check.by_the_clock import by_the_clock
from tests.check.story import Story
from tests.check.tamper import changed

STORY = Story()  # two ranks that make 24 steps each
WAYS = ((1, 9, 2, 7, 5), (4, 4, 8, 8), (2, 2, 2, 9, 9), (5, 1, 18))


@dataclass
class ByTheClock(FakeBackend):
    """Left alone, it reports after other steps each time."""

    def history(self, plan: Plan) -> History:
        told = super().history(plan)
        if plan.ops:
            return told
        clean = list(by_the_clock(STORY, WAYS[len(self.plans) % len(WAYS)]))
        fit = next(entry for entry in told if isinstance(entry.event, ev.FitCalled))
        told = History([*clean[:1], fit, *clean[1:]])
        told = changed(told, ev.RunStarted, scenario=plan.scenario, seed=plan.seed)
        return self.retold(told)

    def retold(self, history: History) -> History:
        return history


def audited(folder: Path, backend: FakeBackend, choice: SiteChoice | None = None) -> Card:
    return audit_of(folder, backend, choice=choice or SiteChoice(limit=20)).run()


def test_a_right_job_passes(tmp_path: Path) -> None:
    card = audited(tmp_path, ByTheClock())

    assert (card.word, card.broken) == ("pass", 0), card.sentence
    assert card.resumed == card.resumed_right > 0
    [told] = [note.text for note in card.notes if "by the clock" in note.text]
    expect_text(told)


def test_a_wrong_one_is_found_out(tmp_path: Path) -> None:
    card = audited(tmp_path, ByTheClock(defect=loses_momentum))

    assert card.word == "fail"
    assert {finding.defect.check for finding in card.findings} == {"trajectory"}
    repro = tmp_path.rglob("*.chaos.yaml")
    assert any('align: "steps"' in file.read_text() for file in repro)


def test_the_baseline_is_a_run_that_was_watched_at_every_step(tmp_path: Path) -> None:
    backend = ByTheClock()
    audit = audit_of(tmp_path, backend, choice=SiteChoice(limit=20))
    audit.run()

    watched = [plan.watch.entries for plan in backend.plans]
    assert watched.count("steps") == 1
    assert [plan.expect.align for plan in backend.plans if plan.ops] == ["steps"] * (
        sum(bool(plan.ops) for plan in backend.plans)
    )
    baseline = RunDirectory(audit.folder.path).load_baseline()
    assert isinstance(baseline, Baseline)
    assert len(baseline.runs) == 3


def test_a_third_clean_run_that_goes_another_way_leaves_nothing_to_compare_with(
    tmp_path: Path,
) -> None:
    class Fickle(ByTheClock):
        def retold(self, history: History) -> History:
            if self.plans[-1].watch.entries == "epochs":
                return history
            return changed(history, ev.StepDone, losses=(0.5,))

    card = audited(tmp_path, Fickle())

    assert card.word == "inconclusive"
    assert not card.runs
    expect_text(card.sentence)


def test_a_place_that_a_run_does_not_come_by_is_no_finding(tmp_path: Path) -> None:
    class Quicker(ByTheClock):
        def history(self, plan: Plan) -> History:
            early = [op for op in plan.ops if op.at.epoch < 1]
            if len(early) == len(plan.ops):
                return super().history(plan)
            # What was to happen later never does: the run is over with its first report.
            return super().history(plan.model_copy(update={"ops": tuple(early)}))

    card = audited(tmp_path, Quicker())

    assert card.word == "inconclusive"
    assert card.broken == 0
    assert not any("could not be judged" in reason for reason in card.reasons)


def test_runs_that_report_elsewhere_are_alike_where_losses_and_inputs_are() -> None:
    one, other = (by_the_clock(STORY, ways) for ways in WAYS[:2])

    found = compare_clean_runs(one, other)

    assert (found.differs, found.is_by_steps, found.is_equivalent) == (True, True, True)
    expect_text(str(found))


@pytest.mark.parametrize("fields", [{"losses": (0.5,)}, {"inputs": ev.Inputs(count=1, digest="x")}])
def test_runs_that_report_elsewhere_and_train_otherwise_are_not_alike(
    fields: dict[str, object],
) -> None:
    one, other = (by_the_clock(STORY, ways) for ways in WAYS[:2])

    found = compare_clean_runs(one, changed(other, ev.StepDone, lambda e: e.epoch == 2, **fields))

    assert found.reports_apart is not None
    assert not found.is_equivalent


def test_only_places_are_shared_that_every_run_has() -> None:
    seen = intersect_profiles([measure_job(by_the_clock(STORY, ways)) for ways in WAYS])

    assert (
        seen.epochs == seen.saved_epochs == (0, 1)
    )  # the run with the fewest reports ends with its third
    assert seen.resume_places_before_end == ((1, 0), (2, 0))
    known = [
        place_group
        for place_group in build_place_groups(seen, seed=0)
        for _ in range(place_group.size)
    ]
    groups = {place_group.category for place_group in known}
    assert not groups & {"epoch boundary", "last epoch", "twice in one epoch", "inside a save"}
    ops = [
        op
        for place_group in known
        for n in range(place_group.size)
        for op in place_group.make_ops(n)
    ]
    steps = [op.at.step for op in ops if isinstance(op.at, AtStep)]
    assert set(steps) == {1}
