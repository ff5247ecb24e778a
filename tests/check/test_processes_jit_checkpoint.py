"""What counts as saved once a notice has come: drain, with `expect.jit_checkpoint`."""

import pytest

from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.verdict import CheckResult
from tests.check.shorthand import plan_of, told_in
from tests.check.tamper import changed


def noticed(after: str, resumed: str, baseline: str) -> CheckResult:
    """Judge a run whose node goes 1.6 s after a notice, by what was done after it."""
    run = f"g w:m_0.pt s s r c- s n +0.5 {after} s +0.6 X {resumed} ."
    plan = plan_of(run, jit_checkpoint=True)
    results = judge(plan, told_in(run), told_in(baseline)).results
    return next(result for result in results if result.check == "drain")


OWN = "g w:m_0.pt s s r c- w:m_1.pt s s r c- ."
READ = "g l:m_0.pt s s r c-"


@pytest.mark.parametrize(
    ("after", "resumed", "status"),
    [
        ("w:m_7.pt", READ, "pass"),  # like the one that is read
        ("w:jit.pt", "g l:jit.pt s s r c-", "pass"),  # the very one
        ("w:notes.pt", READ, "fail"),
        ("w:notes.pt", "g s s r c-", "fail"),  # nothing is read: like the baseline's, or not
        ("w:m_7.pt", "g s s r c-", "pass"),
        ("w:m_7.pt", "g l:m_7.pt! s s r c-", "pass"),  # saved it was; that it is torn is another's
        ("", READ, "fail"),
    ],
)
def test_a_file_is_a_save_where_the_job_resumes_from_its_like(
    after: str, resumed: str, status: str
) -> None:
    assert noticed(after, resumed, OWN).status == status


def test_what_the_baseline_writes_beside_its_checkpoints_is_no_save() -> None:
    both = "g w:m_0.pt w:notes.pt s s r c- w:m_1.pt w:notes.pt s s r c- ."

    assert noticed("w:notes.pt", READ, both).status == "fail"


def of_rays(after: str, *, uploaded: str = "") -> CheckResult:
    """Judge a job that reads its file out of the checkpoint that Ray hands it."""
    baseline = "g s s w:{0} r c s s w:{0} r c ."
    run = f"g s s w:{{0}} u r c s n +0.5 {after} s +0.6 X g<c0 l:{{0}} s s r c ."
    path = "staged/model.pt" if uploaded else "c0/model.pt"
    history = told_in(run.format(path))
    if uploaded:
        history = changed(history, ev.PartUploaded, files={"model.pt": uploaded})
        history = changed(history, ev.FileLoaded, digest=uploaded)
    plan = plan_of(run.format(path), jit_checkpoint=True)
    results = judge(plan, history, told_in(baseline.format(path))).results
    return next(result for result in results if result.check == "drain")


@pytest.mark.parametrize("after", ["w:notes.pt", "w:c0/model.pt", "r", ""])
def test_a_job_with_rays_checkpoints_must_have_them_committed(after: str) -> None:
    assert of_rays(after).status == "fail"


def test_a_file_that_was_written_for_an_upload_is_no_save_of_its_own() -> None:
    assert of_rays("w:staged/model.pt", uploaded="aa").status == "fail"


def test_a_job_with_rays_checkpoints_may_save_a_file_of_its_own_in_time() -> None:
    baseline = "g s s r c s s r c ."
    run = "g s s r c s n +0.5 w:jit.pt s +0.6 X g<c0 l:jit.pt s s r c ."

    results = judge(plan_of(run, jit_checkpoint=True), told_in(run), told_in(baseline)).results

    assert next(r for r in results if r.check == "drain").status == "pass"
