"""The audit of a script for sbatch: its faults are Slurm's own, and none that ends the job."""

from dataclasses import replace
from pathlib import Path

import pytest

from chaos.audit.job_profile import JobProfile
from chaos.audit.notes import build_notes, note_missing_grace
from chaos.audit.plans import NodeRange, build_base_plan, build_fault_plan, set_launcher
from chaos.audit.site_category import (
    PREEMPTED_AT_ONCE,
    list_kinds,
    needs_nodes,
)
from chaos.audit.site_groups import FaultSite
from chaos.audit.site_sample import choose_fault_sites, count_coverage
from chaos.model.launcher import LAUNCHER_FACTS
from chaos.model.places import EpochRank
from chaos.model.plan import Plan
from tests.accepted import expect_text
from tests.audit.site_sample import under_torchrun
from tests.called import chaos as called
from tests.needs import needs_extension

pytestmark = needs_extension("slurm")

HEADER = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --requeue\nsrun python train.py\n"


def under_slurm(*, away: tuple[int, ...] = (1,), grace_s: float = 0.0) -> JobProfile:
    places = tuple(EpochRank(epoch, 0) for epoch in range(4))
    return replace(
        under_torchrun(away=away),
        background_saves=places,
        loaders=dict.fromkeys(places, 1),
        launcher="slurm",
        grace_s=grace_s,
    )


def every_place(profile: JobProfile) -> tuple[FaultSite, ...]:
    return choose_fault_sites(profile, seed=0, exhaustive=True)


def of_group(profile: JobProfile, group: str) -> set[tuple[str, ...]]:
    found = (place for place in every_place(profile) if place.group == group)
    return {tuple(map(str, (op.fault for op in place.ops))) for place in found}


def test_a_job_is_requeued_where_others_have_a_worker_killed() -> None:
    kinds = {op.kind for place in every_place(under_slurm()) for op in place.ops}

    assert kinds == {"requeue_job", "preempt_node", "kill_node", "return_capacity"}
    assert of_group(under_slurm(), "mid-epoch") == {("requeue_job",)}
    assert of_group(under_slurm(), "inside a save") == {("requeue_job",)}
    assert of_group(under_slurm(), PREEMPTED_AT_ONCE) == {("preempt_node (0 s notice)",)}


def test_what_ends_a_job_that_slurm_starts_no_more_is_not_tried_and_said() -> None:
    profile = under_slurm()
    rows = {row.group: row for row in count_coverage(profile, every_place(profile), seed=0)}

    unrestarted = LAUNCHER_FACTS["slurm"].sites.unrestarted
    (reason,) = {row.why_none for group, row in rows.items() if group in unrestarted}
    assert reason is not None
    expect_text(reason)
    assert any("starts no failed job" in note.text for note in build_notes(profile, names=[]))
    assert all(
        {"killed", "failed"}.isdisjoint(kind.split())
        for kind in list_kinds(LAUNCHER_FACTS["slurm"])
    )


def test_a_grace_is_tried_only_where_production_has_one() -> None:
    group = "notice before the loss"

    assert not of_group(under_slurm(), group)
    assert of_group(under_slurm(grace_s=30.0), group) == {("preempt_node (30 s notice)",)}
    [told] = note_missing_grace(under_slurm())
    assert "--grace" in told.text
    assert not note_missing_grace(under_slurm(grace_s=30.0))


def test_a_job_of_one_node_is_preempted_and_loses_none() -> None:
    profile = under_slurm(away=())
    rows = {row.group: row for row in count_coverage(profile, every_place(profile), seed=0)}

    assert rows[PREEMPTED_AT_ONCE].places == 4
    assert rows["node lost"].why_none == "the script asks for one node"
    assert not [place for place in every_place(profile) if needs_nodes(place.group)]


def test_the_last_step_has_a_place_as_the_whole_job_begins_again() -> None:
    at_end = [p for p in every_place(under_slurm()) if "epoch 3, step 3" in p.name]

    assert {place.group for place in at_end} >= {"epoch boundary"}


def script_in(folder: Path, text: str = HEADER) -> Path:
    file = folder / "train.sbatch"
    file.write_text(text, encoding="utf-8")
    return file


def test_each_of_its_plans_can_be_read_back(tmp_path: Path) -> None:
    file, profile = script_in(tmp_path), under_slurm(grace_s=30.0)
    base = build_base_plan(file, ["--epochs", "4"], cwd=tmp_path, seed=0, workers=2)
    base = set_launcher(base, "slurm", ["--epochs", "4"], backend="slurm", nodes=NodeRange(2, 2))

    for place in every_place(replace(profile, seconds=10.0)):
        plan = build_fault_plan(base, place, profile)
        assert plan.job.failure is None
        assert Plan.model_validate_json(plan.model_dump_json()) == plan


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("audit", "--retries", "2"), "started again by Slurm"),
        (("audit", "--restart", "command"), "started again by Slurm"),
        (("audit", "--launcher", "torchrun"), "is for sbatch, and --launcher is torchrun"),
        (("audit", "--nodes", "2"), "a script for sbatch says how many it has"),
        pytest.param(
            ("search",), "this command takes Python scripts", marks=needs_extension("lab")
        ),
    ],
)
def test_what_a_script_for_sbatch_does_not_have_is_refused(
    tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    command, *options = words
    script_in(tmp_path)

    done = called(command, "train.sbatch", *options, folder=tmp_path)

    assert done.code not in (0, 1), done.out
    assert told in " ".join(done.err.split())


def test_a_grace_is_of_scripts_for_sbatch_alone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n", encoding="utf-8")

    done = called("audit", "train.py", "--grace", "30s", folder=tmp_path)

    assert "--grace is for scripts that slurm starts" in " ".join(done.err.split())
