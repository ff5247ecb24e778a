"""Whether two clean runs are one and the same, and if not, in what they differ."""

from chaos.audit.determinism import compare_clean_runs
from chaos.audit.job_profile import measure_job
from chaos.model.event import AnyEvent, EpochEnded, FileSaveBegun, StepDone, WroteOutside
from chaos.model.history import History
from tests.accepted import expect_text
from tests.check.scribe import history_of
from tests.check.shorthand import told_in


def test_two_runs_that_are_alike_are_alike() -> None:
    found = compare_clean_runs(told_in("g s s r c s s r c ."), told_in("g s s r c s s r c ."))

    assert (found.differs, found.is_deterministic, found.reports_apart) == (False, True, None)


def test_a_job_that_reports_by_the_clock_is_told_by_its_reports_and_not_by_its_losses() -> None:
    one = told_in("g s s r c s s r c .")
    more, elsewhere = told_in("g s r c s r c s s r c ."), told_in("g s r c s s s r c .")

    expect_text(compare_clean_runs(one, more).reports_apart, "one more reports_apart")
    expect_text(compare_clean_runs(one, elsewhere).reports_apart, "one elsewhere reports_apart")
    assert compare_clean_runs(one, more).differs
    expect_text(str(compare_clean_runs(one, more)), "compare_clean_runs one more")


def test_a_run_that_makes_other_steps_does_not_report_by_the_clock() -> None:
    shorter = compare_clean_runs(told_in("g s s r c s s r c ."), told_in("g s s r c s r c ."))

    assert shorter.reports_apart is None


def saves_after(*places: int, once: int | None = None, left: bool = False) -> History:
    """Return a run without reports of one epoch of four steps, with a save after some of them.

    `once`: a file of another name is saved after this one; `left`: it is there in the next run.
    """
    whats: list[AnyEvent] = []
    for step in range(5):
        if step:
            whats.append(StepDone(attempt=0, rank=0, epoch=0, step=step, losses=(0.5,)))
        whats += [
            FileSaveBegun(attempt=0, rank=0, epoch=0, step=step, path=path, saver="torch")
            for path in ["a"] * (step in places) + ["/d/cache"] * (step == once)
        ]
    if left:
        whats.append(
            WroteOutside(path="/d/cache", operation="created", removed=False, after_fit=False)
        )
    whats.append(EpochEnded(attempt=0, rank=0, epoch=0))
    return history_of(*whats)


def test_where_steps_end_the_epochs_a_job_by_the_clock_is_told_by_its_saves() -> None:
    same, apart = (compare_clean_runs(saves_after(2), saves_after(at)) for at in (2, 3))

    assert same.reports_apart is None
    expect_text(apart.reports_apart)
    assert apart.is_by_steps


def test_a_file_of_before_the_first_step_is_data_whichever_run_makes_it() -> None:
    first, second = saves_after(2, once=0), saves_after(2)

    assert compare_clean_runs(first, second).is_exact
    assert measure_job(first).script_saves == measure_job(second).script_saves == ((0, 2),)


def test_a_file_that_the_next_run_finds_is_compared_with_none() -> None:
    assert compare_clean_runs(saves_after(2, once=3, left=True), saves_after(2)).is_exact


def test_a_file_that_one_run_alone_saves_makes_no_job_one_that_saves_by_the_clock() -> None:
    once, moved = (
        compare_clean_runs(saves_after(2), other)
        for other in (
            saves_after(2, once=3),
            saves_after(4, once=3),
        )
    )

    expect_text(once.reports_apart)
    assert (once.is_of_one_run, once.is_settled) == (True, False)
    assert (moved.is_of_one_run, moved.is_settled) == (False, True)
