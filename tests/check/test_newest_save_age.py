"""A save is as old as the model in it, whatever was written when."""

import pytest

from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.verdict import CheckResult
from tests.check.shorthand import plan_of, told_in
from tests.check.tamper import changed
from tests.findings import expect_finding

# The model after epoch n is n + 1, and so is that in the n-th file, which may be written again.
CLEAN = "g @model=0 s w:f_0 r c- @model=1 s w:f_1 r c- @model=2 s w:f_2{0} r c- @model=3 s r c- ."
FIRST = "g @model=0 s w:f_0 r c- @model=1 s w:f_1 r c- @model=2 s w:f_2{0} r c- @model=3 s{1} x "


def with_models(history: History) -> History:
    """Put into each numbered file the model that was trained by then."""

    def parts(saved: ev.FileSaved) -> tuple[ev.SavedPart, ...]:
        model = str(int(saved.path[-1]) + 1)
        return (ev.SavedPart(name="net", digest=model, kind="numbers", tensors=model),)

    return changed(history, ev.FileSaved, lambda e: e.path.startswith("f_"), parts=parts)


def resume_point(again: str, late: str, then: str, *, models: bool = True) -> CheckResult:
    """Judge a run that wrote files again, at its last save and one step later."""
    line = FIRST.format(again, late) + then
    run, clean = told_in(line), told_in(CLEAN.format(again))
    if models:
        run, clean = with_models(run), with_models(clean)
    found = judge(plan_of(line), run, clean)
    return next(result for result in found.results if result.check == "resume-point")


FROM_FIRST = "g q:f_0,f_1,f_2 l:f_0 @model=1 s r c- s r c- s r c- ."
FROM_LAST = "g q:f_0,f_1,f_2 l:f_2 @model=3 s r c- ."


def test_an_older_file_that_was_written_again_is_no_newer_save() -> None:
    result = resume_point(" w:f_0", "", FROM_FIRST)

    assert result.status == "fail"
    expect_finding(
        result,
        "older-save",
        rank=0,
        file={
            "path": "f_0",
            "written_at": (2, 1),
            "content_place": (0, 1),
            "earlier_resume": (1, 0),
        },
        newest={"path": "f_2", "place": (2, 1)},
        cost={"steps": 3, "steps_from_newest": 1},
    )


@pytest.mark.parametrize("late", ["", " w:f_0"])
def test_a_file_that_was_written_again_later_need_not_be_read(late: str) -> None:
    assert resume_point(" w:f_0", late, FROM_LAST).status == "pass"


def test_where_no_model_is_seen_in_a_file_the_state_shows_how_old_it_was() -> None:
    result = resume_point(" w:f_0", "", FROM_FIRST, models=False)

    assert result.status == "pass"  # written together: nothing says that the other is newer

    result = resume_point("", " w:f_0", FROM_FIRST, models=False)

    assert result.status == "fail"
    expect_finding(
        result,
        "older-save",
        rank=0,
        file={
            "path": "f_0",
            "written_at": (3, 1),
            "content_place": (3, 1),
            "earlier_resume": (1, 0),
        },
    )


def test_a_job_that_reads_every_file_resumed_from_the_one_whose_model_it_trains() -> None:
    every = FROM_FIRST.replace("l:f_0", "l:f_0 l:f_1 l:f_2")

    result = resume_point("", "", every)

    expect_finding(
        result,
        "older-save",
        rank=0,
        file={"path": "f_0", "written_at": (0, 1), "content_place": (0, 1)},
        newest={"path": "f_2", "place": (2, 1)},
    )
    assert resume_point("", "", FROM_LAST.replace("l:", "l:f_0 l:f_1 l:")).status == "pass"


def test_the_best_is_kept_beside_the_last_and_may_be_preferred() -> None:
    line = FIRST.format(" w:best", "") + "g q:f_0,f_1,f_2,best l:f_2 l:best @model=1 s r c- ."
    best = (ev.SavedPart(name="net", digest="1", kind="numbers", tensors="1"),)
    run, clean = (
        changed(with_models(told_in(one)), ev.FileSaved, lambda e: e.path == "best", parts=best)
        for one in (line, CLEAN.format(" w:best"))
    )

    found = judge(plan_of(line), run, clean)

    assert next(r for r in found.results if r.check == "resume-point").status == "pass"


def test_a_model_that_does_not_change_gives_a_file_no_age() -> None:
    line = FIRST.format(" w:f_0", "") + FROM_FIRST.replace("@model=1", "@model=0")
    still = (ev.Component(name="model", digest="0", count=1),)
    part = (ev.SavedPart(name="net", digest="0", kind="numbers", tensors="0"),)
    run, clean = (
        changed(changed(one, ev.StateSeen, components=still), ev.FileSaved, parts=part)
        for one in (told_in(line), told_in(CLEAN.format(" w:f_0")))
    )

    found = judge(plan_of(line), run, clean)

    assert next(r for r in found.results if r.check == "resume-point").status == "pass"


@pytest.mark.parametrize(("last", "status"), [("", "pass"), (" w:o_2", "fail")])
def test_files_of_one_save_count_together_where_the_model_of_one_is_seen(
    last: str, status: str
) -> None:
    """They are written at the head of an epoch; the model is that of the end of the one before."""
    head = (
        "g @model=0 s r c- w:f_0 w:o_0 @model=1 s r c- w:f_1 w:o_1 @model=2 s r c- w:f_2{} @model=3"
    )
    found = ",o_2" if last else ""
    line = f"{head.format(last)} s x g q:f_0,o_0,f_1,o_1,f_2{found} l:f_1 l:o_1 @model=2 s r c- "
    line += "s r c- ."
    clean = f"{head.format(' w:o_2')} s r c- ."

    found_in = judge(plan_of(line), with_models(told_in(line)), with_models(told_in(clean)))

    point = next(each for each in found_in.results if each.check == "resume-point")
    assert point.status == status, point.summary
