"""Jobs that keep files of their own, and where they go on in them."""

from chaos.check.analysis import RunTables
from chaos.model import event as ev
from chaos.model.verdict import CheckResult, Verdict
from tests.check.each import judge_each
from tests.check.shorthand import plan_of, told_in
from tests.check.story import Story, Strike
from tests.check.tamper import analysis_of, changed, result_on, rows, told, verdict_on, without
from tests.findings import expect_finding

OWN = Story((Strike(2, 3, 1),), files=True)
BASELINE = "g s w:f_1 s r c- s w:f_2 s r c- s w:f_10 s r c- s w:f_11 s r c- ."


def verdict(run: str, baseline: str = BASELINE) -> Verdict:
    return judge_each(plan_of(run), told_in(run), told_in(baseline))


def result(check: str, run: str, baseline: str = BASELINE) -> CheckResult:
    return next(r for r in verdict(run, baseline).results if r.check == check)


def test_a_rank_that_finds_its_place_in_a_file_goes_on_there() -> None:
    analysis = analysis_of(OWN)
    (restart,) = analysis.restarts

    assert restart.attempt.training_place == (2, 0)
    assert [c.epoch for c in analysis.run.lineage.commits] == [0, 1, 2, 3]
    assert restart.lost_steps_by_rank == {0: 3, 1: 3}
    assert verdict_on(OWN).status == "pass"


def test_a_rank_may_go_on_within_an_epoch() -> None:
    history = changed(OWN.history(), ev.Repositioned, step=2)
    history = without(history, ev.StepDone, lambda e: (e.attempt, e.epoch) == (1, 2) and e.step < 3)

    analysis = analysis_of(OWN, history)

    assert analysis.restarts[0].lost_steps_by_rank == {0: 1, 1: 1}
    assert {s.attempt for s in analysis.run.lineage.select_steps(0, 2)} == {0, 1}
    assert analysis.run.lineage.count_steps(0, 2) == 6
    for check in ("cursor", "watched", "epochs", "samples", "sample-order", "trajectory"):
        assert result_on(check, OWN, history).status == "pass", check


def test_a_file_is_named_as_it_was_renamed() -> None:
    run = "g s w:t_1 m:t_1>f_1 s r c- s w:t_2 m:t_2>f_2 s r c- s x g q:f_1,f_2 l:f_1 s s r c- ."

    found = result("resume-point", run)

    expect_finding(
        found,
        "older-save",
        file={"path": "f_1", "written_at": (0, 1)},
        newest={"path": "f_2", "place": (1, 1)},
        cost=(5, 2),
    )


def test_a_file_that_no_other_node_sees_is_named_where_places_differ() -> None:
    history = changed(OWN.history(), ev.Repositioned, lambda e: e.rank == 1, epoch=1)
    (read,) = (e for _, e in history.select_events(ev.FileLoaded) if (e.attempt, e.rank) == (1, 0))
    history = without(history, ev.FileLoaded, lambda e: (e.attempt, e.rank) == (1, 1))
    for rank, state in ((0, "there"), (1, "elsewhere")):
        file = ev.SeenFile(path=read.path, digest=read.digest, state=state)  # type: ignore[arg-type]
        seen = ev.FilesSeen(attempt=1, rank=rank, files=(file,))
        history = told(history, seen)

    found = result_on("agreement", OWN, history)

    expect_finding(
        found,
        "different-places",
        unreachable_file={"path": read.path, "rank": 1, "reading_rank": 0},
    )


def test_ranks_that_go_on_at_different_places_do_not_agree() -> None:
    history = changed(OWN.history(), ev.Repositioned, lambda e: e.rank == 1, epoch=1)

    assert "resumed at several places" in result_on("agreement", OWN, history).summary


def test_a_file_is_there_when_its_writing_is_over() -> None:
    history = told_in("g s w:f s r c- .")

    assert [save.event_number for save in RunTables(history).files.saves] == rows(
        history, ev.FileSaved
    )


def test_a_job_that_falls_back_to_an_older_file_is_right() -> None:
    base = "g s w:f_1 s r c- s s r c- s w:f_2 s r c- ."
    found = verdict("g s w:f_1 s r c- s s r c- s v:f_2 x g l:f_2! l:f_1 s s r c- .", base)

    assert not {"checkpoints", "start-decision", "resume-point"} & {r.check for r in found.broken}


def test_what_a_job_may_lose_follows_from_its_own_saves() -> None:
    assert result_on("lost-work", OWN).status == "pass"
    early = changed(OWN.history(), ev.Repositioned, epoch=0)
    assert "15 finished steps" in result_on("lost-work", OWN, early).summary


def test_a_file_from_elsewhere_is_not_the_runs_own() -> None:
    files = RunTables(told_in("g s w:f_1 s r c- s x g l:pretrained s s r c- .")).files

    assert files.select_loads(1, 0)
    assert files.find_newest_load(1, 0) is None


def test_of_two_files_of_one_moment_the_one_that_was_read_is_told_by_its_digest() -> None:
    files = RunTables(told_in("g s w:model w:optimizer s r c- s x g l:model s s r c- .")).files
    ((_, load),) = files.select_loads(1, 0)

    origin = files.find_origin(load)

    assert origin is not None
    assert origin.first_path == "model"
