"""Places that share a run: they are apart, and an audit finds what it finds one by one."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.audit.audit import SiteChoice
from chaos.audit.budget import AuditProgress, Budget
from chaos.audit.card import Card
from chaos.audit.chains import LONGEST, build_chain, join_places, longest_chain, order_chains
from chaos.audit.job_profile import JobProfile
from chaos.audit.page import render_card
from chaos.audit.sections import describe_finding
from chaos.audit.site_groups import find_resume_point, find_training_place
from chaos.audit.site_order import find_part, order_places
from chaos.audit.site_queue import SiteQueue
from chaos.audit.site_sample import choose_fault_sites
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.trigger import AtRecovery
from tests.accepted import expect_text
from tests.audit.backend import Defect, FakeBackend, audit_of, loses_momentum
from tests.audit.site_sample import SEEDS, extents
from tests.check.story import Story
from tests.check.tamper import changed

EVERY = SiteChoice(exhaustive=True)


@given(extents(), SEEDS, st.integers(1, 8), st.data())
def test_places_that_share_a_run_are_a_checkpoint_apart(
    profile: JobProfile, seed: int, longest: int, data: st.DataObject
) -> None:
    places = choose_fault_sites(profile, seed=seed)
    if not places:
        return
    first = data.draw(st.sampled_from(places))
    others = [place for place in places if place != first]

    found = build_chain(first, others, profile, longest=longest)

    assert first in found
    assert len(set(found)) == len(found) <= longest
    assert sum(any(op.fault.lost_node_count for op in place.ops) for place in found) <= 1
    if len(found) > 1:
        assert not any(op.fault.is_announced for place in found for op in place.ops)
    for one, other in pairwise(found):
        point = find_resume_point(other.ops[0], profile)
        assert point is not None
        ended = (op for op in one.ops if not isinstance(op.at, AtRecovery))
        assert point > max(find_training_place(op, profile) for op in ended)


@given(extents(), SEEDS)
def test_an_answer_takes_as_many_runs_as_foretold_one_alone_from_each_part_of_training(
    profile: JobProfile, seed: int
) -> None:
    places = choose_fault_sites(profile, seed=seed)
    queue = SiteQueue(profile, lambda _: places, seed=seed, may_chain=True)
    due = order_places(places, profile, seed=seed).needed

    runs = [queue.next_run().sites for _ in range(queue.needed_run_count)]

    assert not queue.has_needed_runs, str(queue)
    tried = [place for run in runs for place in run]
    assert len({*tried}) == len(tried)
    assert Counter(place.group for place in tried) == Counter(place.group for place in due)
    for mine in (tried, due):
        resuming = {place.group for place in mine if find_part(place, profile) is not None}
        assert resuming == {place.group for place in due if find_part(place, profile) is not None}
    alone = {find_part(run[0], profile) for run in runs if len(run) == 1}
    assert {find_part(place, profile) for place in due} - {None} <= alone


@given(extents(), SEEDS)
def test_a_place_that_fits_into_no_run_gives_way_to_one_of_its_group(
    profile: JobProfile, seed: int
) -> None:
    due = [*order_places(choose_fault_sites(profile, seed=seed), profile, seed=seed).needed]
    spare = [*order_places(choose_fault_sites(profile, seed=seed), profile, seed=seed).later]

    found = order_chains(due, spare, profile)

    assert Counter(place.group for place in found) == Counter(place.group for place in due)
    assert {*found} <= {*due, *spare}


@given(extents(), SEEDS)
def test_ops_of_places_that_share_a_run_are_numbered_in_order(
    profile: JobProfile, seed: int
) -> None:
    places = choose_fault_sites(profile, seed=seed)
    if not places:
        return
    found = build_chain(places[0], places[1:], profile, longest=LONGEST)

    ops = join_places(found).ops

    assert [op.index for op in ops] == list(range(len(ops)))
    first = 0
    for place in found:
        for own, op in zip(place.ops, ops[first:], strict=False):
            assert op.kind == own.kind
            if isinstance(own.at, AtRecovery):
                assert isinstance(op.at, AtRecovery)
                assert op.at.recovering_from == first + own.at.recovering_from
            else:
                assert op.at == own.at
        first += len(place.ops)


@given(st.integers(0, 200), st.integers(0, 200))
def test_the_more_places_are_wrong_the_fewer_share_a_run(wrong: int, right: int) -> None:
    longest = longest_chain(wrong=wrong, tried=wrong + right)

    assert 1 <= longest <= LONGEST
    assert longest <= longest_chain(wrong=max(wrong - 1, 0), tried=wrong + right)
    assert (longest == 1) <= (wrong > 0)


def loses_after(resumes: int) -> Defect:
    """Return a defect that shows only once the job has resumed so many times in a row."""

    def defect(_: Story, history: History) -> History:
        resumed = [
            e.attempt
            for _, e in history.select_events(ev.WorkerStarted)
            if e.checkpoint is not None
        ]
        late = sorted(set(resumed))[resumes - 1 :]
        return changed(
            history,
            ev.StepDone,
            lambda e: e.attempt in late,
            losses=lambda e: tuple(float(loss) + 0.01 for loss in e.losses),
        )

    return defect


def at_first(defect: Defect) -> Defect:
    """Return a defect that changes a single history, and none after it."""
    changed_ones: list[History] = []

    def only_one(story: Story, history: History) -> History:
        found = defect(story, history)
        if changed_ones or found.entries == history.entries:
            return history
        changed_ones.append(found)
        return found

    return only_one


def loses_in_epoch(epoch: int) -> Defect:
    """Return a defect of resuming into one epoch alone."""

    def defect(_: Story, history: History) -> History:
        begun: dict[int, int] = {}
        for _number, done in history.select_events(ev.StepDone):
            begun.setdefault(done.attempt, done.epoch)
        return changed(
            history,
            ev.StepDone,
            lambda e: e.attempt > 0 and begun[e.attempt] == epoch,
            losses=lambda e: tuple(float(loss) + 0.01 for loss in e.losses),
        )

    return defect


def audited(folder: Path, defect: Defect | None, *, one_by_one: bool, lanes: int = 1) -> Card:
    folder.mkdir()
    backend = FakeBackend(epochs=6, steps=1, workers=1, defect=defect)
    choice = replace(EVERY, one_by_one=one_by_one)
    return audit_of(folder, backend, choice=choice, count_lanes=lambda _: lanes).run()


def facts(card: Card) -> object:
    """Return what an audit says of a job, and of each of its places."""
    places = {
        (r.group, r.name): (r.status, r.defects, r.parts, r.resumed, r.from_scratch, r.lost_steps)
        for r in card.runs
        if not r.is_combined
    }
    named = {(f.name, f.severity, f.places, f.smallest.ops) for f in card.findings}
    return card.word, places, named, [(row.group, row.tried) for row in card.covered]


@pytest.mark.parametrize(
    ("defect", "lanes"),
    [
        pytest.param(None, 3, marks=pytest.mark.nightly),
        (loses_momentum, 1),
        pytest.param(loses_in_epoch(3), 3, marks=pytest.mark.nightly),
    ],
    ids=["right", "momentum", "one epoch"],
)
def test_an_audit_finds_the_same_together_and_one_by_one(
    tmp_path: Path, defect: Defect | None, lanes: int
) -> None:
    alone = audited(tmp_path / "alone", defect, one_by_one=True)
    together = audited(tmp_path / "together", defect, one_by_one=False, lanes=lanes)

    assert facts(together) == facts(alone)
    assert alone.run_count == len(alone.runs)


def test_a_right_job_is_answered_by_far_fewer_runs(tmp_path: Path) -> None:
    card = audited(tmp_path / "right", None, one_by_one=False)

    assert card.word == "pass"
    assert card.run_count < len(card.runs) / 2
    of_run = Counter(run.number for run in card.runs)
    assert len(of_run) == card.run_count
    assert card.shared == sum(of_run[run.number] > 1 for run in card.runs) > 0
    assert {run.attempts for run in card.runs if of_run[run.number] > 1} <= {2, 3, 4}
    assert "Each place was tried in a run of its own" not in render_card(card)


def test_an_answer_of_a_job_of_ten_epochs_takes_five_runs(tmp_path: Path) -> None:
    backend = FakeBackend(epochs=10, steps=12, loads=(0, 1))
    card = audit_of(tmp_path, backend, budget=Budget(runs=16)).run()

    assert card.word == "pass"
    assert (len(card.runs), card.run_count) == (16, 5)


def test_what_only_several_resumes_show_is_a_finding_of_its_own(tmp_path: Path) -> None:
    alone = audited(tmp_path / "alone", loses_after(4), one_by_one=True)
    card = audited(tmp_path / "together", loses_after(4), one_by_one=False)

    assert alone.word == "pass"
    assert card.word == "fail"
    combined = [run for run in card.runs if run.is_combined]
    assert {run.number for run in combined} == set(card.findings[0].runs)
    assert all(len(run.ops) >= 4 for run in combined)
    assert all(run.is_right for run in card.runs if not run.is_combined)
    assert card.places[0] == alone.places[0]


@pytest.mark.parametrize(
    "budget",
    [pytest.param(Budget(), marks=pytest.mark.nightly), Budget(runs=20), Budget(seconds=1.0)],
)
def test_progress_counts_places_and_never_more_than_there_are(
    tmp_path: Path, budget: Budget
) -> None:
    seen: list[AuditProgress] = []
    backend = FakeBackend(epochs=6, steps=1, workers=1, defect=loses_after(4))

    card = audit_of(tmp_path, backend, choice=EVERY, budget=budget, show=seen.append).run()

    faults = [progress for progress in seen if progress.stage == "faults"]
    assert all(p.total is None or p.done <= p.total for p in faults)
    totals = [p.total for p in faults if p.total is not None]
    assert totals == sorted(totals)
    assert faults[-1].done == sum(not run.is_combined for run in card.runs)


@pytest.mark.nightly
def test_a_run_of_several_places_that_is_wrong_only_once_is_inconclusive(tmp_path: Path) -> None:
    lasting = audited(tmp_path / "lasting", loses_after(4), one_by_one=False)
    card = audited(tmp_path / "once", at_first(loses_after(4)), one_by_one=False)

    assert card.word == "inconclusive"
    assert not card.findings
    assert card.run_count < lasting.run_count  # further places share runs
    (doubted,) = (run for run in card.runs if run.is_combined)
    assert "not when the run was repeated" in doubted.headline
    (junit,) = (tmp_path / "once").rglob("junit.xml")
    assert 'failures="0"' in junit.read_text()
    of_places = f"0 of {card.places[0]} places and 1 run of several places could not be judged"
    assert of_places in card.sentence
    assert f"0 of {card.places[0]} places and 1 run of several places: one" in lasting.sentence
    (finding,) = lasting.findings
    assert describe_finding(finding).startswith("wrong result at 1 run of ")
    expect_text(finding.smallest.headline)
    assert len(finding.smallest.headline) < 300


def test_a_run_that_was_wrong_before_all_of_its_faults_is_no_pass_either(tmp_path: Path) -> None:
    def ends_early(story: Story, history: History) -> History:
        found = loses_after(4)(story, history)
        if found.entries == history.entries:
            return history
        last = max(ended.op for _, ended in found.select_events(ev.FaultEnded))
        return changed(found, ev.FaultEnded, lambda e: e.op == last, status="info")

    card = audited(tmp_path / "once", at_first(ends_early), one_by_one=False)

    (doubted,) = (run for run in card.runs if run.is_combined)
    assert doubted.landed < len(doubted.ops)
    assert card.word == "inconclusive"


def test_a_doubted_run_is_repeated_although_no_place_is_left_to_try(tmp_path: Path) -> None:
    whole = audited(tmp_path / "whole", at_first(loses_after(4)), one_by_one=False)
    (tmp_path / "cut").mkdir()
    backend = FakeBackend(epochs=6, steps=1, workers=1, defect=at_first(loses_after(4)))

    cut = audit_of(
        tmp_path / "cut", backend, choice=EVERY, budget=Budget(runs=whole.places[0])
    ).run()

    assert facts(cut) == facts(whole)


def test_a_run_of_several_places_that_was_not_resolved_is_no_pass(tmp_path: Path) -> None:
    def backend(**fields: Any) -> FakeBackend:
        return FakeBackend(epochs=6, steps=1, workers=1, defect=loses_after(4), **fields)

    whole = backend()
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    audit_of(tmp_path / "whole", whole, choice=EVERY).run()
    doubted = next(n for n, plan in enumerate(whole.plans, 1) if len(plan.ops) >= 4)

    with pytest.raises(KeyboardInterrupt):
        audit_of(tmp_path / "cut", backend(breaks_at=doubted + 1), choice=EVERY).run()

    (file,) = (tmp_path / "cut").rglob("audit.json")
    card = Card.from_json(file.read_bytes())
    assert card.word == "fail"
    assert any(run.is_combined for run in card.runs)
