"""The order of faults: what can show a defect of resuming comes first, whatever cuts it off."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.audit.job_profile import JobProfile
from chaos.audit.site_category import (
    CATEGORY_ORDERS,
    QUESTIONS,
    SITE_CATEGORIES,
    Question,
    SiteCategory,
)
from chaos.audit.site_groups import FaultSite, SiteSubgroup
from chaos.audit.site_order import (
    count_parts,
    find_last_resume_point,
    find_missing_parts,
    find_part,
    order_places,
)
from chaos.audit.site_queue import SiteQueue, Status
from chaos.audit.site_sample import choose_fault_sites, count_coverage
from chaos.model.places import TrainingPlace
from tests.audit.site_sample import SEEDS, extents
from tests.audit.test_site_sample import extent_of

ASKED = st.sampled_from(QUESTIONS)


def parts_of(places: tuple[FaultSite, ...], profile: JobProfile) -> set[int]:
    return {part for s in places if (part := find_part(s, profile)) is not None}


def applying(places: tuple[FaultSite, ...], profile: JobProfile) -> set[SiteSubgroup]:
    return {s.subgroup for s in places if find_last_resume_point(s, profile) is not None}


@given(extents(), SEEDS, ASKED, st.integers(1, 60))
def test_an_order_is_of_all_places_and_leaves_none_out(
    profile: JobProfile, seed: int, question: Question, limit: int
) -> None:
    places = choose_fault_sites(profile, seed=seed, limit=limit)

    order = order_places(places, profile, question=question, seed=seed)

    assert sorted(order.all_places, key=id) == sorted(places, key=id)


@given(extents(), SEEDS, ASKED, st.data())
def test_any_beginning_as_long_as_there_are_units_that_apply_has_one_of_each(
    profile: JobProfile, seed: int, question: Question, data: st.DataObject
) -> None:
    places = choose_fault_sites(profile, seed=seed, limit=40)
    units = applying(places, profile)
    length = data.draw(st.integers(len(units), max(len(units), len(places))))

    begun = order_places(places, profile, question=question, seed=seed).all_places[:length]

    assert applying(begun, profile) == units


@given(extents(), SEEDS, ASKED)
def test_what_is_needed_has_every_group_and_resumes_from_every_part_of_training(
    profile: JobProfile, seed: int, question: Question
) -> None:
    places = choose_fault_sites(profile, seed=seed, limit=40)

    needed = order_places(places, profile, question=question, seed=seed).needed

    assert {s.subgroup for s in needed} == {s.subgroup for s in places}
    assert applying(needed, profile) == applying(places, profile)
    assert parts_of(needed, profile) == parts_of(places, profile)
    assert find_missing_parts(needed, profile, wanted_parts=parts_of(places, profile)) == ()
    assert len(needed) <= len({s.subgroup for s in places}) + count_parts(profile)


@given(extents(), SEEDS, ASKED)
def test_what_shows_no_resume_comes_after_what_does(
    profile: JobProfile, seed: int, question: Question
) -> None:
    order = order_places(
        choose_fault_sites(profile, seed=seed, limit=40), profile, question=question, seed=seed
    )

    for part in (order.needed, order.later):
        shows = [find_last_resume_point(place, profile) is not None for place in part]
        assert shows == sorted(shows, reverse=True)


@given(extents(), SEEDS, st.integers(1, 40))
def test_a_group_that_the_map_says_can_resume_has_a_place_in_the_sample_that_does(
    profile: JobProfile, seed: int, limit: int
) -> None:
    places = choose_fault_sites(profile, seed=seed, limit=limit)

    can = {row.group for row in count_coverage(profile, places, seed=seed) if row.resumes}

    assert can == {group for group, _, _ in applying(places, profile)}


def test_the_seed_decides_which_place_of_a_group_is_first() -> None:
    profile = extent_of(epochs=6, steps=6)
    firsts = set()
    for seed in range(12):
        order = order_places(choose_fault_sites(profile, seed=0), profile, seed=seed)
        [first, *_] = [s for s in order.all_places if s.group == "mid-epoch"]
        firsts.add(first.epoch)

    assert len(firsts) >= 3


@given(SEEDS)
def test_the_first_places_of_groups_are_in_different_parts_of_training(seed: int) -> None:
    profile = extent_of(epochs=9, steps=6)

    needed = order_places(choose_fault_sites(profile, seed=seed), profile, seed=seed).needed

    assert parts_of(needed[:4], profile) == {0, 1, 2}


@given(extents(), SEEDS, st.booleans())
def test_a_node_is_lost_late_in_training_first_since_what_its_disk_holds_grows(
    profile: JobProfile, seed: int, may_chain: bool
) -> None:
    places = choose_fault_sites(profile, seed=seed, limit=40)
    lost = parts_of(tuple(s for s in places if s.group == "node lost"), profile)

    queue = SiteQueue(profile, lambda _: places, seed=seed, may_chain=may_chain)
    due = queue._list_sites(Status.NEEDED, Status.SHARED)

    first = [find_part(s, profile) for s in due if s.group == "node lost"]
    assert not lost or max(lost) in first, str(queue)


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("spot", ["after report, before commit", "node lost", "notice before the loss"]),
        ("crash", ["after report, before commit", "mid-epoch", "last epoch"]),
    ],
)
def test_a_question_decides_what_comes_first(question: Question, first: list[SiteCategory]) -> None:
    profile = extent_of(epochs=5, steps=6)
    places = choose_fault_sites(profile, seed=0, wanted_groups=CATEGORY_ORDERS[question])

    needed = order_places(places, profile, question=question).needed

    assert [place.group for place in needed[:3]] == first
    assert needed[-1].group == "before the first commit"


def test_spot_asks_of_every_group_and_crash_takes_no_node() -> None:
    assert set(CATEGORY_ORDERS["spot"]) == set(SITE_CATEGORIES)
    assert {"node lost", "notice before the loss", "preempted at once"} == set(
        SITE_CATEGORIES
    ) - set(CATEGORY_ORDERS["crash"]) - {"fewer workers after it"}


@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("epoch 0, step 3, rank 0", None),
        ("epoch 1, step 1, rank 0", (1, 0)),
        ("epoch 2, committed, rank 0", (3, 0)),
        ("epoch 2, reported, rank 0", (2, 0)),
        ("epoch 3, committed, rank 0", None),  # nothing is left to train
    ],
)
def test_a_restart_goes_on_from_the_last_commit_that_has_training_after_it(
    name: str, point: tuple[int, int] | None
) -> None:
    profile = extent_of(epochs=4, steps=6)
    [place] = [s for s in choose_fault_sites(profile, seed=0, exhaustive=True) if s.name == name]

    assert find_last_resume_point(place, profile) == point


def test_files_of_the_jobs_own_are_points_to_resume_from_within_an_epoch() -> None:
    profile = replace(
        extent_of(epochs=1, steps=10),
        saved_epochs=(),
        uploads=(),
        script_saves=(TrainingPlace(0, 4), TrainingPlace(0, 8)),
    )
    by_name = {s.name: s for s in choose_fault_sites(profile, seed=0, exhaustive=True)}

    assert profile.resume_places_before_end == ((0, 4), (0, 8))
    assert find_last_resume_point(by_name["epoch 0, step 4, rank 0"], profile) is None
    assert find_last_resume_point(by_name["epoch 0, step 5, rank 0"], profile) == (0, 4)
    assert by_name["epoch 0, step 4, rank 0"].group == "before the first commit"
    assert by_name["epoch 0, step 5, rank 0"].group == "last epoch"
