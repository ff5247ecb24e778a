"""The kill map: every place is there, the same seed gives the same map, no group is forgotten."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.audit.job_profile import JobProfile
from chaos.audit.plans import build_fault_plan, choose_retry_budget
from chaos.audit.site_category import (
    INSIDE_LOAD,
    INSIDE_SAVE,
    SITE_CATEGORIES,
    SiteCategory,
    needs_nodes,
)
from chaos.audit.site_groups import build_place_groups
from chaos.audit.site_order import find_last_resume_point
from chaos.audit.site_sample import choose_fault_sites, count_coverage
from chaos.model.places import EpochRank
from chaos.model.plan import Op, Plan
from chaos.model.trigger import SAVE_MOMENTS, AtMoment, AtRecovery, AtStep
from tests.audit.site_sample import SEEDS, extents, groups_of, under_torchrun
from tests.check.story import Story

BASE = Story().plan()


def exists(op: Op, profile: JobProfile) -> bool:
    at = op.at
    if isinstance(at, AtRecovery):
        by_then = {"start": True, "first_step": bool(profile.steps)}
        return by_then.get(at.stage, at.rank in profile.loading_ranks) and at.rank in profile.ranks
    if at.rank not in profile.ranks:
        return False
    if isinstance(at, AtStep):
        return at.step <= profile.steps.get(EpochRank(at.epoch, at.rank), 0)
    assert isinstance(at, AtMoment)
    of_moment: dict[str, Sequence[EpochRank]] = {
        "upload_begin": profile.uploads,
        "upload_end": profile.uploads,
    }
    if op.kind != "fail_save":
        of_moment |= {moment: profile.moments[moment] for moment in SAVE_MOMENTS}
    if at.moment in of_moment:
        return (at.epoch, at.rank) in of_moment[at.moment]
    return at.epoch in profile.epochs


@given(extents(), SEEDS, st.booleans(), st.integers(1, 60))
def test_every_place_that_is_struck_is_a_place_of_the_job(
    profile: JobProfile, seed: int, exhaustive: bool, limit: int
) -> None:
    places = choose_fault_sites(profile, seed=seed, exhaustive=exhaustive, limit=limit)

    assert all(exists(op, profile) for place in places for op in place.ops)


@given(extents(), SEEDS)
def test_a_job_goes_on_with_fewer_workers_only_where_it_is_elastic(
    profile: JobProfile, seed: int
) -> None:
    groups = groups_of(choose_fault_sites(profile, seed=seed, exhaustive=True))

    loses_nodes = "node lost" in groups
    assert ("fewer workers after it" in groups) == (profile.is_elastic and loses_nodes)


@given(extents(), SEEDS, st.integers(1, 40))
def test_the_same_seed_gives_the_same_map(profile: JobProfile, seed: int, limit: int) -> None:
    once, again = (choose_fault_sites(profile, seed=seed, limit=limit) for _ in range(2))

    assert once == again


@given(extents(), SEEDS)
def test_an_exhaustive_map_has_every_step_and_every_moment_once(
    profile: JobProfile, seed: int
) -> None:
    places = choose_fault_sites(profile, seed=seed, exhaustive=True, limit=1)

    kills = [s for s in places if s.ops[0].kind == "kill_worker" or s.group == INSIDE_SAVE]
    single = [s.ops[0].at for s in kills if len(s.ops) == 1]
    steps = {(at.epoch, at.step, at.rank) for at in single if isinstance(at, AtStep)}
    moments = {(at.epoch, at.moment, at.path, at.rank) for at in single if isinstance(at, AtMoment)}
    assert len(steps) + len(moments) == len(single)
    assert len(steps) == profile.step_place_count
    uploads, saves = 2 * len(profile.uploads), sum(len(one.places) for one in profile.operations)
    assert len(moments) == saves + uploads + 2 * len(profile.epochs) * len(profile.ranks)


@given(extents(), SEEDS, st.integers(1, 40))
def test_a_sample_is_part_of_the_whole_and_no_larger_than_asked_for(
    profile: JobProfile, seed: int, limit: int
) -> None:
    whole = choose_fault_sites(profile, seed=seed, exhaustive=True)
    sample = choose_fault_sites(profile, seed=seed, limit=limit)

    assert set(sample) <= set(whole)
    assert len(set(sample)) == len(sample)
    if profile.step_place_count > limit:
        of_loads = sum(place.group == INSIDE_LOAD for place in sample)
        units = {group.subgroup for group in build_place_groups(profile, seed=seed)}
        assert len(sample) - of_loads <= max(limit, len(units))
        assert of_loads <= limit


@given(extents(), SEEDS)
def test_every_strike_makes_a_plan_that_can_be_saved(profile: JobProfile, seed: int) -> None:
    for place in choose_fault_sites(profile, seed=seed, limit=30):
        plan = build_fault_plan(BASE, place, profile)

        assert Plan.model_validate_json(plan.model_dump_json()) == plan
        assert [op.index for op in plan.ops] == list(range(len(plan.ops)))
        assert plan.job.failure is not None
        assert plan.job.failure.max_failures == -1 or plan.job.failure.max_failures >= len(plan.ops)


@pytest.mark.parametrize(("own", "given"), [(0, 1), (1, 1), (4, 4), (-1, -1), (None, -1)])
def test_a_notice_is_given_the_preemptions_that_it_takes(own: int | None, given: int) -> None:
    profile = replace(extent_of(epochs=2, steps=3), settings={"max_preemption_failures": own})
    places = choose_fault_sites(profile, seed=0)
    [notice, *_] = [s for s in places if s.group == "notice before the loss"]
    [kill, *_] = [s for s in places if s.group == "mid-epoch"] or places

    assert choose_retry_budget(notice, profile).max_preemption_failures == given
    assert choose_retry_budget(kill, profile).max_preemption_failures == (
        -1 if own is None else own
    )
    by_itself = replace(profile, most_faults=3)  # the script calls `fit()` again
    assert choose_retry_budget(notice, by_itself).max_preemption_failures == (
        -1 if own is None else own
    )


@given(extents(), SEEDS, st.sets(st.sampled_from(SITE_CATEGORIES)))
def test_only_the_groups_that_were_chosen_are_struck(
    profile: JobProfile, seed: int, choose: set[SiteCategory]
) -> None:
    places = choose_fault_sites(profile, seed=seed, limit=10, wanted_groups=choose)

    assert groups_of(places) <= choose


@given(extents(), SEEDS, st.integers(1, 40))
def test_what_was_left_out_is_known_in_numbers(profile: JobProfile, seed: int, limit: int) -> None:
    whole = choose_fault_sites(profile, seed=seed, exhaustive=True)
    sample = choose_fault_sites(profile, seed=seed, limit=limit)

    rows = count_coverage(profile, sample, seed=seed)

    others = {"before the first save", "preempted at once"}
    assert [row.group for row in rows] == [g for g in SITE_CATEGORIES if g not in others]
    assert sum(row.places for row in rows) == len(whole)
    assert sum(row.chosen for row in rows) == len(sample)
    assert all((row.places == 0) == (row.why_none is not None) for row in rows)


@given(extents(), SEEDS, st.integers(1, 40))
def test_ranks_that_are_seen_to_load_add_places_and_move_none(
    profile: JobProfile, seed: int, limit: int
) -> None:
    before = choose_fault_sites(replace(profile, loading_ranks=()), seed=seed, limit=limit)
    after = choose_fault_sites(profile, seed=seed, limit=limit)

    added = set(after) - set(before)
    assert set(before) <= set(after)
    assert {place.group for place in added} <= {INSIDE_LOAD}
    assert all(place.ops[1].at.rank in profile.loading_ranks for place in added)
    assert all(place.epoch > profile.saved_epochs[0] for place in added)


def test_a_job_whose_steps_are_not_seen_is_struck_where_its_reports_return() -> None:
    profile = replace(extent_of(epochs=4, steps=0), steps={})

    groups = groups_of(choose_fault_sites(profile, seed=0))

    assert {"node lost", "notice before the loss", "several times in a run"} <= groups
    assert {"same place in two attempts", "during the recovery"} <= groups
    assert not {"mid-epoch", "epoch boundary", "twice in one epoch"} & groups


def test_several_ops_strike_one_rank_in_the_order_in_which_it_passes_them() -> None:
    profile = extent_of(epochs=5, steps=20)

    for place in choose_fault_sites(profile, seed=3, exhaustive=True):
        ops = [op for op in place.ops if not isinstance(op.at, AtRecovery)]
        places = [(op.at.epoch, getattr(op.at, "step", 0)) for op in ops]
        assert places == sorted(places)
        assert len({op.at.rank for op in ops}) == 1
        if place.group == "same place in two attempts":
            assert len(places) == 2
            assert len(set(places)) == 1


def test_a_sample_of_a_long_job_is_spread_over_its_epochs_and_ranks() -> None:
    profile = extent_of(epochs=100, steps=1000, ranks=8)

    middle = [s for s in choose_fault_sites(profile, seed=1) if s.group == "mid-epoch"]

    epochs = sorted(place.epoch for place in middle)
    assert len(middle) >= 6
    assert max(b - a for a, b in pairwise(epochs)) < 40
    assert len({place.ops[0].at.rank for place in middle}) >= 4


def extent_of(*, epochs: int, steps: int, ranks: int = 2) -> JobProfile:
    every = tuple(range(epochs))
    return JobProfile(
        ranks=tuple(range(ranks)),
        epochs=every,
        saved_epochs=every,
        uploads=tuple(EpochRank(e, r) for e in every for r in range(ranks)),
        saves=tuple(EpochRank(e, r) for e in every for r in range(ranks)),
        steps={EpochRank(e, r): steps for e in every for r in range(ranks)},
        remaining_s={e: 5.0 * (epochs - e) for e in every},
        seconds=10.0,
        settings={},
        replaced={},
    )


def test_under_torchrun_only_workers_are_killed_and_what_needs_ray_is_named() -> None:
    profile = under_torchrun()
    places = choose_fault_sites(profile, seed=0)

    rows = {row.group: row for row in count_coverage(profile, places, seed=0)}
    assert {op.kind for place in places for op in place.ops} == {"kill_worker"}
    assert {group for group, row in rows.items() if row.why_none == "it needs Ray Train"} == {
        "upload begins",
        "upload ends",
        "after report, before commit",
        "just after commit",
    }
    (reason,) = {row.why_none for group, row in rows.items() if needs_nodes(group)}
    assert "--nodes 2" in str(reason)
    tried = {group for group, row in rows.items() if row.chosen}
    assert tried == set(rows) - {g for g, row in rows.items() if row.why_none}
    assert rows["inside a save"].places == 4


def node_places(profile: JobProfile) -> dict[str, tuple[Op, ...]]:
    """Return the ops of the first place of each group that takes a node."""
    found: dict[str, tuple[Op, ...]] = {}
    for place in choose_fault_sites(profile, seed=0, exhaustive=True):
        if needs_nodes(place.group):
            found.setdefault(place.group, place.ops)
    return found


def test_a_node_that_torchrun_loses_is_not_the_host_and_comes_back() -> None:
    fixed = node_places(under_torchrun(away=(1,)))

    assert {group: [op.kind for op in ops] for group, ops in fixed.items()} == {
        "notice before the loss": ["preempt_node", "return_capacity"],
        "node lost": ["kill_node", "return_capacity"],
    }
    assert {ops[0].at.rank for ops in fixed.values()} == {1}
    assert {ops[1].at.rank for ops in fixed.values()} == {0}


def test_with_fewer_nodes_allowed_torchrun_goes_on_and_grows_once_it_has() -> None:
    elastic = node_places(under_torchrun(away=(1,), least=1))

    assert [op.kind for op in elastic["fewer workers after it"]] == ["kill_node"]
    grows = elastic["node lost"][1]
    assert isinstance(grows.at, AtRecovery)
    assert (grows.at.recovering_from, grows.at.stage) == (0, "first_step")


def test_with_several_nodes_none_is_struck_when_another_may_have_ended() -> None:
    places = choose_fault_sites(under_torchrun(away=(1,)), seed=0, exhaustive=True)

    ops = [op for place in places for op in place.ops if not isinstance(op.at, AtRecovery)]
    assert max((op.at.epoch, op.at.step) for op in ops if isinstance(op.at, AtStep)) == (3, 2)
    assert {op.at.epoch for op in ops if isinstance(op.at, AtMoment)} == {0, 1, 2}
    assert {op.at.epoch for op in ops if op.fault.is_announced} == {0, 1, 2}


def test_a_place_after_an_own_save_resumes_from_it() -> None:
    profile = under_torchrun()
    by_group = {place.group: place for place in choose_fault_sites(profile, seed=0)}

    assert find_last_resume_point(by_group["before the first save"], profile) is None
    assert find_last_resume_point(by_group["last epoch"], profile) == (2, 3)
