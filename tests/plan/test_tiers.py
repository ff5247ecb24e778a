"""Where a file lies follows from its path, and from the folders that the plan names."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.model.plan import Plan
from chaos.model.scenario import Scenario, Tier
from chaos.model.tiers import Tiers
from chaos.plan.make import make_plan

NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map("/".join)
TIERS = st.sampled_from(["node", "shared"])


def plan_in(cwd: str, storage: dict[str, Tier] | None = None, **job: str) -> Plan:
    told = {
        "scenario": "s",
        "job": {"script": "train.py", "workers": 1, **job},
        "storage": storage or {},
    }
    file = Path(cwd, "s.chaos.yaml")
    return make_plan(Scenario.model_validate(told), file=file, seed=0, cwd=Path(cwd))


@pytest.mark.parametrize(
    ("path", "tier"),
    [
        ("/home/me/job/last.pt", "shared"),
        ("/mnt/share/last.pt", "shared"),
        ("/tmp/last.pt", "node"),
        ("/dev/shm/last.pt", "node"),
        ("/tmpfs/last.pt", "shared"),
        ("/home/me/reports/runs/1/nodes/node-0/tmp/last.pt", "node"),
        ("/tmp/chaos-0123abcd.held/node-1/last.pt", "node"),
    ],
)
def test_a_hosts_temporary_folders_are_its_own_and_all_else_is_shared(
    path: str, tier: Tier
) -> None:
    assert Tiers.from_plan(plan_in("/home/me/job")).find_tier(path) == tier


def test_the_folder_of_the_job_is_shared_wherever_it_lies() -> None:
    tiers = Tiers.from_plan(plan_in("/tmp/project"), "/tmp/reports")

    assert tiers.find_tier("/tmp/project/last.pt") == "shared"
    assert tiers.find_tier("/tmp/reports/runs/0/storage/last.pt") == "shared"
    assert tiers.find_tier("/tmp/reports/runs/0/nodes/node-0/tmp/last.pt") == "node"
    assert tiers.find_tier("/tmp/projects/last.pt") == "node"


def test_the_temporary_folder_is_shared_where_a_command_is_started_in_it() -> None:
    plans = (
        plan_in("/tmp"),
        plan_in("/tmp", launcher="python"),
        plan_in("/tmp", launcher="torchrun"),
        plan_in("/tmp", launcher="torchrun", restart="command"),
    )

    found = [Tiers.from_plan(plan).find_tier("/tmp/a.pt") for plan in plans]
    assert found == ["node", "shared", "node", "shared"]


@given(folders=st.dictionaries(NAMES, TIERS, max_size=4), path=NAMES)
def test_the_innermost_named_folder_decides(folders: dict[str, Tier], path: str) -> None:
    parts = path.split("/")
    holding = ["/".join(parts[:n]) for n in range(len(parts), 0, -1)]
    due = next((folders[name] for name in holding if name in folders), "shared")

    tiers = Tiers.from_plan(plan_in("/home/me", folders))

    assert tiers.find_tier(f"/home/me/{path}") == due


def test_a_named_folder_may_be_absolute_and_has_no_part_in_its_namesakes() -> None:
    tiers = Tiers.from_plan(plan_in("/home/me", {"/local/ckpt/": "node"}))

    assert tiers.find_tier("/local/ckpt/1/a.pt") == "node"
    assert tiers.find_tier("/local/ckpts/a.pt") == "shared"
