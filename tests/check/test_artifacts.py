"""What the job leaves, beside what the baseline leaves."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
import pytest

from chaos.check.analysis import RunTables
from chaos.check.file_contents import find_unequal_files
from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.history import Baseline, History, JournalEntry
from chaos.model.verdict import Verdict
from tests.accepted import expect_text
from tests.check.shorthand import plan_of, told_in
from tests.check.tamper import changed, told, without
from tests.findings import expect_finding, expect_in_headline

EPOCH = "s s w:m.pt u r c"
PLAIN = f"g {EPOCH} {EPOCH} {EPOCH} {EPOCH} L:c0,c1,c2,c3 ."
STRUCK = f"g {EPOCH} {EPOCH} s x g<c1 {EPOCH} {EPOCH} L:c0,c1,c2,c3 ."
EARLY = f"g s x g {EPOCH} {EPOCH} {EPOCH} {EPOCH} L:c0,c1,c2,c3 ."
PARTED = f"g {EPOCH} {EPOCH} s x g<c1 s s! w:m.pt u r c {EPOCH} L:c0,c1,c2,c3 ."
BEST = "g s w:best.pt r c s r c s w:log.pt r c ."
ANOTHER_BEST = "g s w:best.pt r c s x g<c0 s w:best.pt r c s w:log.pt r c ."

Kind = Literal["numbers", "counts", "words", "random"]
Holding = Callable[[ev.FileSaved], Sequence[ev.SavedPart]]


def part(value: object, kind: Kind = "numbers", *, name: str = "ship", count: int = 1) -> Any:
    size = float(value) if isinstance(value, int | float) and kind != "words" else None
    return ev.SavedPart(name=name, kind=kind, digest=repr(value), size=size, count=count)


def holding(history: History, holds: Holding) -> History:
    return changed(history, ev.FileSaved, parts=lambda saved: tuple(holds(saved)))


def right(saved: ev.FileSaved) -> list[ev.SavedPart]:
    return [part(saved.epoch + 1)]


def of(
    ours: Holding, line: str = STRUCK, due: Holding = right, *more: Holding, plain: str = PLAIN
) -> Verdict:
    """Judge a run; `more` hold what other clean runs save."""
    clean = [holding(told_in(plain), holds) for holds in (due, *more)]
    return judge(plan_of(line), holding(told_in(line), ours), Baseline(clean))


def result(verdict: Verdict) -> Any:
    return next(result for result in verdict.results if result.check == "artifacts")


def since_the_fault(value: Callable[[ev.FileSaved], Any], **other: Any) -> Holding:
    """Hold the baseline's before the fault, and another value in the attempt after it."""

    def holds(saved: ev.FileSaved) -> Sequence[ev.SavedPart]:
        return [part(value(saved), **other)] if saved.attempt else due(other)(saved)

    return holds


def due(other: dict[str, Any]) -> Holding:
    return lambda saved: [part(saved.epoch + 1, **other)]


def test_an_entry_that_began_anew_is_named_with_its_file_and_its_place() -> None:
    found = result(of(since_the_fault(lambda saved: saved.epoch - 1)))

    assert found.status == "fail"
    assert found.severity == "wrong result"
    expect_finding(
        found,
        "file-entry-differs",
        file="m.pt",
        entry="ship",
        rank=0,
        written_at=(2, 2),
        value={"size": 1.0},
        expected_value={"size": 3.0},
        is_growing=False,
    )


def test_an_entry_that_comes_back_is_right_on_evidence() -> None:
    found = result(of(right))

    assert (found.status, found.evidence) == ("pass", 4)


def number_of(saved: ev.FileSaved) -> int:
    return int(saved.path.removesuffix(".pt")[-1])


@pytest.mark.parametrize(("last", "status"), [(3, "pass"), (9, "fail")])
def test_of_several_saves_at_one_place_a_restart_may_make_the_last_ones_alone(
    last: int, status: str
) -> None:
    """Training by hand makes no step that is seen: all its saves have one place."""
    plain = "g s s w:m1.pt w:m2.pt w:m3.pt u r c L:c0 ."
    line = "g s s w:m1.pt w:m2.pt x g s s w:m3.pt u r c L:c0 ."

    def hold(content: int, clock: float) -> Sequence[ev.SavedPart]:
        return [part(content), part(clock, name="written")]

    verdict = of(
        lambda saved: hold(last if saved.attempt else number_of(saved), 7.5),
        line,
        lambda saved: hold(number_of(saved), 1.5),
        lambda saved: hold(number_of(saved), 2.5),
        plain=plain,
    )

    assert result(verdict).status == status
    if status == "fail":
        (anomaly,) = result(verdict).anomalies
        assert anomaly.facts["expected_value"]["size"] == 3  # and not that of its first save


@pytest.mark.parametrize("contents", [(2, 1), (1, 1)], ids=["swapped", "the first twice"])
def test_saves_of_one_place_are_the_baselines_in_its_order(contents: tuple[int, int]) -> None:
    plain = "g s s w:m1.pt w:m2.pt u r c L:c0 ."
    line = "g s s x g s s w:m1.pt w:m2.pt u r c L:c0 ."

    verdict = of(
        lambda saved: [part(contents[number_of(saved) - 1])],
        line,
        lambda saved: [part(number_of(saved))],
        lambda saved: [part(number_of(saved))],
        plain=plain,
    )

    assert result(verdict).status == "fail"


@pytest.mark.parametrize("kind", ["counts", "words", "random"])
def test_what_a_right_job_may_write_differently_is_a_note(kind: Kind) -> None:
    verdict = of(since_the_fault(lambda _: 9, kind=kind), STRUCK, due({"kind": kind}))

    assert result(verdict).status == "pass"
    (note,) = verdict.notes
    expect_text(note)


@pytest.mark.parametrize("name", ["elapsed_s", "loop.wall_time", "samples_per_second"])
def test_what_is_named_after_a_clock_is_a_note(name: str) -> None:
    verdict = of(since_the_fault(lambda _: 9, name=name), STRUCK, due({"name": name}))

    assert result(verdict).status == "pass"
    assert verdict.notes


def test_what_stood_at_nought_or_never_moved_in_the_baseline_is_not_blamed() -> None:
    def nought(saved: ev.FileSaved) -> list[ev.SavedPart]:
        return [part(0.0 if saved.epoch < 3 else 1.0)]

    def halves(_: ev.FileSaved) -> list[ev.SavedPart]:
        return [part(0.5)]

    def wrong(due: Holding) -> Holding:
        return lambda saved: [part(7)] if saved.attempt and saved.epoch < 3 else due(saved)

    assert result(of(wrong(nought), STRUCK, nought)).status == "pass"
    assert result(of(wrong(halves), STRUCK, halves)).status == "pass"


def test_what_differs_between_clean_runs_is_not_compared() -> None:
    def clocked(run: int) -> Holding:
        return lambda saved: [part(100 * run + saved.epoch)]

    assert result(of(clocked(1), STRUCK, clocked(1), clocked(2))).status == "pass"
    assert result(of(clocked(3), STRUCK, clocked(1), clocked(2))).status == "pass"


def test_what_nothing_shows_to_repeat_itself_is_not_blamed_and_a_second_clean_run_shows_it() -> (
    None
):
    def wrong(_: ev.FileSaved) -> list[ev.SavedPart]:
        return [part(9)]

    assert result(of(wrong, EARLY)).status == "pass"
    assert result(of(wrong, EARLY, right, right)).status == "fail"


def test_where_losses_part_the_files_follow() -> None:
    verdict = of(since_the_fault(lambda saved: saved.epoch - 1), PARTED)

    assert result(verdict).status == "pass"
    assert "trajectory" in [broken.check for broken in verdict.broken]


def test_a_history_that_lost_its_head_is_cosmetic_and_one_that_repeats_itself_a_note() -> None:
    def listed(count: Callable[[ev.FileSaved], int]) -> Holding:
        return lambda saved: [part(f"{count(saved)}", count=count(saved))]

    def lengths(after: int) -> Holding:
        return listed(lambda saved: saved.epoch + 1 + (after if saved.attempt else 0))

    shorter = result(of(lengths(-2), STRUCK, lengths(0)))
    longer = result(of(lengths(2), STRUCK, lengths(0)))

    assert (shorter.status, shorter.severity) == ("fail", "cosmetic")
    assert "1 entries instead of 3" in shorter.summary
    assert longer.status == "pass"


def test_the_last_version_of_a_file_that_keeps_the_best_is_the_baselines() -> None:
    found = result(of(right, ANOTHER_BEST, right, right, plain=BEST))

    assert found.status == "fail"
    expect_finding(
        found,
        "file-written-elsewhere",
        file="best.pt",
        entry="ship",
        rank=0,
        written_at=(1, 1),
        expected_value={"size": 1.0},
        is_growing=False,
        expected_at=(0, 1),
    )


def test_a_file_that_is_saved_by_the_clock_may_be_of_another_place() -> None:
    line, plain = ANOTHER_BEST.replace("best", "latest"), BEST.replace("best", "latest")

    assert result(of(right, line, right, right, plain=plain)).status == "pass"


def table(history: History, rows: int, *, epoch: int, folder: str = "log") -> History:
    """Tell of a table that the last attempt opened when it began, and left at the end."""
    last = max(saved.attempt for _, saved in history.select_events(ev.FileSaved))
    left = ev.FileWritten(
        attempt=last,
        rank=0,
        epoch=epoch,
        step=0,
        path=f"/x/{folder}/history.csv",
        digest=f"{rows}",
        bytes=rows,
        parts=(part(f"{rows}", name="loss", count=rows),),
    )
    *events, end = history
    return History([*events, msgspec.structs.replace(end, event=left), end])


@pytest.mark.parametrize(
    ("folder", "status"), [("log", "fail"), ("version_1", "pass")], ids=["same", "its own"]
)
def test_a_table_of_which_the_first_lines_are_gone_is_cosmetic_unless_each_start_has_its_own(
    folder: str, status: str
) -> None:
    clean = Baseline([table(holding(told_in(PLAIN), right), 4, epoch=0)] * 2)
    run = table(holding(told_in(STRUCK), right), 2, epoch=2, folder=folder)

    found = result(judge(plan_of(STRUCK), run, clean))

    assert found.status == status
    if status == "fail":
        assert found.severity == "cosmetic"
        assert "`loss` in history.csv" in found.summary
        assert "2 entries instead of 4" in found.summary


def test_a_file_that_every_clean_run_leaves_must_be_left() -> None:
    run = told_in(STRUCK.replace("m.pt", "other.pt"))
    clean = Baseline([holding(told_in(PLAIN), right)] * 2)

    found = result(judge(plan_of(STRUCK), holding(run, right), clean))

    assert found.status == "fail"
    expect_finding(found, "file-never-written", file="m.pt", rank=0)


@pytest.mark.parametrize(("sets_aside", "status"), [("m:m.pt>old.pt", "pass"), ("", "fail")])
def test_a_file_that_an_earlier_attempt_wrote_may_be_set_aside_in_the_next(
    sets_aside: str, status: str
) -> None:
    again = "s s {} w:m.pt u r c L:c0,c1 ."
    clean = Baseline(
        [holding(told_in(f"g {EPOCH} {again.format('m:m.pt>old.pt')}"), right)] * 2,
    )
    line = f"g {EPOCH} s x g<c0 {again.format(sets_aside)}"

    found = result(judge(plan_of(line), holding(told_in(line), right), clean))

    assert found.status == status
    assert ("old.pt was never written" in found.summary) is (status == "fail")


def test_where_no_save_was_seen_nothing_is_known_of_files() -> None:
    run = without(without(told_in(STRUCK), ev.FileSaved), ev.FileSaveBegun)
    clean = Baseline([holding(told_in(PLAIN), right)] * 2)

    assert result(judge(plan_of(STRUCK), run, clean)).status == "inconclusive"


def test_a_file_that_is_there_already_is_not_written_again() -> None:
    """It has a name by its content; the restart finds it, and rightly writes none."""
    whole = holding(told_in(f"g {EPOCH} {EPOCH} s s w:m.pt w:n.pt x g<c1 s s u r c ."), right)
    plain = holding(told_in(f"g {EPOCH} {EPOCH} s s w:m.pt w:n.pt u r c ."), right)
    line = f"g {EPOCH} {EPOCH} s s w:m.pt w:n.pt x g<c1 s s u r c ."
    removed = ev.FileTouched(attempt=0, rank=0, epoch=2, step=2, operation="removing", path="n.pt")

    def status(run: History) -> str:
        return str(result(judge(plan_of(line), run, Baseline([plain] * 2))).status)

    assert status(whole) != "inconclusive"
    assert status(told(whole, removed)) == "inconclusive"
    assert status(without(whole, ev.FileSaved, lambda e: e.path == "n.pt")) == "inconclusive"


def renamed(history: History, name: str) -> History:
    """Return that each file was written under a name of its own, then put into its place."""
    found: list[JournalEntry] = []
    for entry in changed(history, ev.FileSaved, path=f"/x/{name}"):
        found.append(entry)
        if isinstance(entry.event, ev.FileSaved):
            who = {"attempt": entry.event.attempt, "rank": entry.event.rank}
            where = {"epoch": entry.event.epoch, "step": entry.event.step}
            moved = ev.FileRenamed(**who, **where, path=f"/x/{name}", to="/x/m.pt")
            found.append(msgspec.structs.replace(entry, event=moved))
    return History(found)


def test_a_file_counts_under_the_name_that_it_is_given_in_the_end() -> None:
    clean = renamed(holding(told_in(PLAIN), right), "tmpabxycd_q")
    wrong = renamed(
        holding(told_in(STRUCK), since_the_fault(lambda saved: saved.epoch - 1)), "other.new"
    )

    assert "`ship` in m.pt differs" in result(judge(plan_of(STRUCK), wrong, clean)).summary


def test_with_a_band_or_a_tolerance_files_need_not_be_equal() -> None:
    line = STRUCK
    run = holding(told_in(line), since_the_fault(lambda saved: saved.epoch - 1))
    verdict = judge(
        plan_of(line, loss_tolerance={"relative": 0.1}), run, holding(told_in(PLAIN), right)
    )

    expect_text(result(verdict).summary)


def test_a_file_outside_storage_that_a_restart_went_on_from_is_a_note() -> None:
    line = "g s w:/s/.session/a/f_1 r c- s x g l:/s/.session/a/f_1 s r c- ."
    called = ev.FitCalled(
        trainer="T", workers=2, run_name="r", storage_path="/s", settings={}, original_settings={}
    )
    within = told_in(line.replace("/.session", ""))

    history = told(told_in(line), called, before=ev.WorkerStarted)
    (note,) = judge(plan_of(line), history).notes
    none = judge(plan_of(line), told(within, called, before=ev.WorkerStarted)).notes

    expect_text(note)
    assert none == ()


def test_an_entry_whose_names_alone_differ_is_told_by_them() -> None:
    def names(first: str, saved: ev.FileSaved) -> list[ev.SavedPart]:
        value = part(1, name="model")
        digest = f"{saved.epoch}{first}"  # the weights move, and their norm stays
        return [msgspec.structs.replace(value, digest=digest, first=first)]

    def renamed(saved: ev.FileSaved) -> list[ev.SavedPart]:
        return names("_orig_mod.0.weight" if saved.attempt else "0.weight", saved)

    found = of(renamed, due=lambda saved: names("0.weight", saved))

    assert result(found).status == "fail"
    expect_in_headline(
        found,
        "file-entry-differs",
        rank=0,
        value={"first_name": "_orig_mod.0.weight"},
        expected_value={"first_name": "0.weight"},
        is_growing=False,
    )


def test_files_that_two_clean_runs_left_otherwise_are_named_with_their_entries() -> None:
    def holds(*values: object) -> History:
        parts = [part(value, name=name) for name, value in zip("abc", values, strict=False)]
        return holding(told_in(PLAIN), lambda _: parts)

    def unequal(first: History, other: History) -> dict[str, list[str]]:
        found = find_unequal_files(RunTables(first), RunTables(other))
        return {name: list(entries) for name, entries in found.items()}

    assert unequal(holds(1, 2), holds(1, 2)) == {}
    assert unequal(holds(1, 2), holds(1, 3)) == {"m.pt": ["b"]}
    assert unequal(holds(1, 2), holds(0, 3)) == {"m.pt": []}
