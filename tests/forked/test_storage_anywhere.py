"""A job may put its checkpoints where it likes: they are found, and judged like all others."""

import re

import pytest

from chaos.check.judge import judge
from chaos.model.event import (
    Committed,
    FileLoaded,
    FitReturned,
    Leftover,
    PartUploaded,
    Repositioned,
    StorageSeen,
)
from tests.check.tamper import changed
from tests.forked.conftest import ROOT, RunJob, kill

pytestmark = pytest.mark.timeout(120)
JOB = ROOT / "tests/forked/jobs/named_checkpoints.py"
EVERY_WAY = [
    ("named", r"epoch_\d{3}"),
    ("in_place", r"own/epoch_\d{3}/checkpoint"),
    pytest.param("by_hand", r"by-hand/\S+", marks=pytest.mark.nightly),
    pytest.param("later", r"checkpoint_\S+", marks=pytest.mark.nightly),
]


@pytest.mark.parametrize(("how", "name"), EVERY_WAY)
def test_a_right_job_is_right_wherever_its_checkpoints_lie(
    run: RunJob, how: str, name: str
) -> None:
    baseline = run(script=JOB, how=how)

    judged = run(script=JOB, how=how, ops=(kill(epoch=2, step=2),), baseline=baseline.history)

    assert baseline.verdict.status == "pass", baseline.verdict.headline
    assert judged.verdict.status == "pass", judged.verdict.headline
    commits = [event.checkpoint for _, event in judged.history.select_events(Committed)]
    assert len(set(commits)) == 4
    assert all(re.fullmatch(name, str(commit)) for commit in commits)
    assert {e.checkpoint for _, e in judged.history.select_events(PartUploaded)} == set(commits)
    assert [e.checkpoint for _, e in judged.history.select_events(FitReturned)] == commits[-1:]
    assert not judged.history.count(Leftover)
    found = next(r for r in judged.verdict.results if r.check == "checkpoints")
    assert found.evidence


def test_a_checkpoint_that_changed_where_the_job_put_it_is_no_longer_whole(run: RunJob) -> None:
    judged = run(script=JOB, how="in_place", epochs=2)

    def damaged(seen: StorageSeen) -> tuple[object, ...]:
        return tuple(
            type(found)(name=found.name, files=dict.fromkeys(found.files, "another"))
            for found in seen.checkpoints
        )

    history = changed(judged.history, StorageSeen, checkpoints=damaged)
    result = judge(judged.directory.load_plan(), history, None)

    (found,) = (r for r in result.results if r.check == "checkpoints")
    assert found.status == "fail"
    assert "own/epoch_000/checkpoint of epoch 0 was committed, and when the run was over" in (
        found.summary
    )


def test_a_log_of_rank_0_is_no_training_state_before_the_first_commit_or_after_it(
    run: RunJob,
) -> None:
    ops = (kill(epoch=0, step=3, rank=1), kill(epoch=2, step=2, rank=1))
    how = {"script": JOB, "how": "named", "workers": 2, "log": True}
    baseline = run(**how)

    judged = run(**how, ops=ops, baseline=baseline.history)

    assert judged.history.count(FileLoaded) > 2
    assert all(found.evidence != "file" for _, found in judged.history.select_events(Repositioned))
    assert judged.verdict.status == "pass", judged.verdict.headline
