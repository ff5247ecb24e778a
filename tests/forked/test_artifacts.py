"""What a job leaves is looked at, wherever and however it keeps what it resumes from."""

import pytest

from chaos.model.event import Committed, FileLoaded, FileSaved, ProbeFailed, WorkerStarted
from tests.forked.conftest import ROOT, RunJob, kill

pytestmark = pytest.mark.timeout(120)
JOB = ROOT / "tests/forked/jobs/leaves.py"


@pytest.mark.parametrize(
    ("forgets", "words", "severity"),
    [
        ("ship", "from epoch 2, step 4 on `ship` in state.pt differs (rank 0)", "wrong result"),
        ("best", "in best.pt was written last at epoch 2, step 4, in the baseline", "wrong result"),
        ("history", "`history` in state.pt differs (rank 0): 1 entries instead of 3", "cosmetic"),
    ],
)
def test_what_no_metric_shows_is_found_in_the_files(
    run: RunJob, forgets: str, words: str, severity: str
) -> None:
    baseline = run(script=JOB, forgets=forgets)

    judged = run(
        script=JOB, forgets=forgets, ops=(kill(epoch=2, step=2),), baseline=baseline.history
    )

    assert baseline.verdict.status == "pass", baseline.verdict.headline
    assert [result.check for result in judged.verdict.broken] == ["artifacts"]
    assert words in judged.verdict.broken[0].summary
    assert judged.verdict.severity == severity


@pytest.mark.parametrize("keeps", ["ray", "pickle", "late"])
def test_a_right_job_is_right_however_it_keeps_what_it_resumes_from(
    run: RunJob, keeps: str
) -> None:
    baseline = run(script=JOB, keeps=keeps)

    judged = run(script=JOB, keeps=keeps, ops=(kill(epoch=2, step=2),), baseline=baseline.history)

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert judged.history.count(FileLoaded)
    assert not judged.history.count(ProbeFailed)
    assert not any("`resumed`" in r.summary for r in judged.verdict.broken)
    notes = " ".join(judged.verdict.notes)
    assert "`starts`" in notes
    assert ("outside the run's storage" in notes) == (keeps == "pickle")


def test_a_checkpoint_that_is_handed_over_late_is_of_where_it_was_saved(run: RunJob) -> None:
    history = run(script=JOB, keeps="late", ops=(kill(epoch=2, step=2),)).history

    carried = [e for _, e in history.select_events(Committed) if e.checkpoint]
    assert [(e.epoch, e.goes_on) for e in carried] == [(1, (1, 0)), (2, (2, 0)), (3, (3, 0))]
    assert [(e.epoch, e.step) for _, e in history.select_events(WorkerStarted)] == [(0, 0), (1, 0)]
    assert {e.step for _, e in history.select_events(FileSaved)} == {4}
