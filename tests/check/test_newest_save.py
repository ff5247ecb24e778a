"""The newest whole save from which an attempt could resume."""

import pytest

from chaos.model.trigger import AtMoment
from chaos.model.verdict import CheckResult, Verdict
from tests.check.each import judge_each
from tests.check.shorthand import plan_of, told_in
from tests.findings import expect_finding, expect_in_headline

BASELINE = "g s w:f_1 s r c- s w:f_2 s r c- s w:f_10 s r c- s w:f_11 s r c- ."


def verdict(run: str, baseline: str = BASELINE) -> Verdict:
    return judge_each(plan_of(run), told_in(run), told_in(baseline))


def result(check: str, run: str, baseline: str = BASELINE) -> CheckResult:
    return next(r for r in verdict(run, baseline).results if r.check == check)


def test_the_newest_by_name_is_not_the_newest() -> None:
    found = verdict("g s w:f_1 s r c- s w:f_2 s r c- s w:f_10 s r c- s x g l:f_2 s s r c- .")

    assert found.broken[0].check == "resume-point"
    expect_finding(
        found.broken[0],
        "older-save",
        rank=0,
        file={"path": "f_2", "written_at": (1, 1), "content_place": (1, 1)},
        newest={"path": "f_10", "place": (2, 1)},
    )


@pytest.mark.parametrize(("tries", "is_told"), [("", False), ("l:f_11! ", True)])
def test_half_a_save_is_named_with_an_older_one_only_where_it_was_read(
    tries: str, *, is_told: bool
) -> None:
    run = f"g s w:f_1 s r c- s w:f_2 s r c- s w:f_10 s r c- s v:f_11 x g {tries}l:f_2 s s r c- ."
    plan = plan_of(run)
    inside = AtMoment(epoch=3, moment="saving", rank=0)
    plan = plan.model_copy(update={"ops": (plan.ops[0].model_copy(update={"at": inside}),)})

    found = judge_each(plan, told_in(run), told_in(BASELINE)).broken[0]

    assert "rank 0 resumed from f_2" in found.summary
    assert ("half of f_11 was written" in found.summary) is is_told


def test_a_file_that_may_not_have_been_renamed_need_not_be_read() -> None:
    found = verdict("g s w:f_1 s r c- s w:f_2 x g l:f_1 s s r c- .")

    assert "resume-point" not in [result.check for result in found.broken]


@pytest.mark.parametrize("folder", ["", "sub/tmpijklmnop/"])
def test_a_working_directory_with_a_drawn_name_hides_no_save(folder: str) -> None:
    name = f"/tmp/tmpabcdefgh/{folder}f_2"
    line = f"g s w:/x/f_1 s r c- s w:{name} s r c- s x g q:{name} s s r c- s s r c- ."
    plan = plan_of(line).model_copy(update={"cwd": "/tmp/tmpabcdefgh"})

    found = judge_each(plan, told_in(line), told_in(BASELINE))

    assert (f"although {name} of epoch 1, step 1 was there" in found.headline) is (not folder)


@pytest.mark.parametrize("seen", ["q:f_1", "q:f_1,f_2-", "q:f_1,f_2~"])
def test_an_attempt_resumes_from_the_newest_that_is_still_there(seen: str) -> None:
    run = f"g s w:f_1 s r c- s w:f_2 s r c- s x g {seen} l:f_1 s s r c- ."

    assert result("resume-point", run).status == "pass"
    assert result("lost-work", run).status == "pass"


def test_of_copies_the_newest_that_is_whole_is_the_newest_save() -> None:
    head = "g s w:f_1 s k:f_1>g_1 r c- s w:f_2 s r c- s x g"

    early = result("resume-point", f"{head} q:f_1,f_2,g_1 l:g_1 s s r c- .")
    late = head.replace("s x", "k:f_2>g_2 s x") + " q:f_1,f_2,g_1,g_2 l:g_1 s s r c- ."

    assert early.status == "pass"
    expect_finding(
        result("resume-point", late), "older-save", newest={"path": "g_2", "place": (1, 1)}
    )


def test_a_copy_without_the_mark_that_it_is_whole_need_not_be_read() -> None:
    head = "g s w:f_1 k:f_1>a1/f w:ok_1 k:ok_1>a1/ok s r c- s w:f_2 k:f_2>a2/f s r c- s x g"

    found = result("resume-point", f"{head} q:a1/f,a1/ok,a2/f l:a1/f s s r c- .")

    assert found.status == "pass"


def test_what_is_written_before_the_first_step_is_no_save() -> None:
    base = "g w:cache s s r c- s w:f_2 s r c- ."

    cached = result("resume-point", "g w:cache s s r c- x g q:cache s s r c- .", base)
    assert cached.status == "pass"


def test_a_file_that_was_never_whole_is_no_place_to_go_on_from() -> None:
    found = verdict("g s s r c- s v:f x g l:f s s r c- .")

    assert found.broken[0].check == "committed-only"
    expect_in_headline(found, "unfinished-file-used", attempt=1, path="f", writing_rank=1)
