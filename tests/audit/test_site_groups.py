"""Every group of places that the job has."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.audit.job_profile import JobProfile
from chaos.audit.site_groups import build_place_groups
from chaos.audit.site_sample import choose_fault_sites
from chaos.model.launcher_facts import Restart
from tests.audit.site_sample import SEEDS, extents, groups_of, under_torchrun


@given(extents(), SEEDS, st.integers(1, 40))
def test_every_group_that_the_job_has_is_struck(profile: JobProfile, seed: int, limit: int) -> None:
    places = choose_fault_sites(profile, seed=seed, limit=limit)

    assert groups_of(places) == {
        place_group.category for place_group in build_place_groups(profile, seed=seed)
    }


@pytest.mark.parametrize(
    ("restart", "away", "kinds"),
    [
        (None, (), {"kill_worker"}),
        ("command", (), {"kill_node"}),
        (None, (0,), {"kill_node", "return_capacity"}),
    ],
    ids=["one node", "its command begins again", "another node's"],
)
def test_the_node_is_lost_where_what_is_written_outlives_it(
    restart: Restart | None, away: tuple[int, ...], kinds: set[str]
) -> None:
    profile = replace(under_torchrun(away=away), restart=restart)
    outliving = tuple(replace(one, outlives_node=True) for one in profile.operations)
    profile = replace(profile, operations=outliving)

    def kinds_in(of: JobProfile) -> set[str]:
        groups = [
            group for group in build_place_groups(of, seed=0) if group.category == "inside a save"
        ]
        return {op.kind for group in groups for op in group.make_ops(0)}

    names = [
        g.make_site(0).name
        for g in build_place_groups(profile, seed=0)
        if g.category == "inside a save"
    ]
    assert {name.endswith(", its node is lost") for name in names} == {"kill_node" in kinds}
    assert kinds_in(profile) == kinds
    assert kinds_in(profile.exclude_node_losses()) == {"kill_worker"}
