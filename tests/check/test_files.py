"""Jobs that keep files of their own, and what storage holds."""

from functools import partial
from itertools import starmap
from typing import Any

import msgspec
import pytest

from chaos.check.analysis import RunTables
from chaos.model import event as ev
from chaos.model.history import History, JournalEntry
from chaos.model.scenario import Retention
from chaos.model.trigger import AtMoment
from chaos.model.verdict import CheckResult, Verdict
from tests.check.each import judge_each
from tests.check.shorthand import plan_of, told_in
from tests.check.story import Story, Strike
from tests.check.tamper import analysis_of, changed, result_on, rows, told, verdict_on, without
from tests.findings import expect_finding, expect_in_headline

OWN = Story((Strike(2, 3, 1),), files=True)
KEPT = Story((Strike(2, 3, 1),), keep=1)
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


def test_a_job_that_reads_none_of_its_files_started_from_scratch() -> None:
    found = verdict("g s w:f_1 s r c- s w:f_2 s r c- s x g s s r c- s s r c- .")

    assert found.broken[0].check == "resume-point"
    expect_in_headline(found, "saves-ignored", attempt=1, newest={"path": "f_2", "place": (1, 1)})


def with_parts(history: History, **parts: dict[str, float]) -> History:
    """Tell what is in files, of which the model is the numbers 3 and 4: its norm is 5."""
    model = ev.Component(name="model", digest="m", size=5.000001, count=2)
    at: dict[str, Any] = {"attempt": 0, "rank": 0, "epoch": 0, "step": 0}
    seen = ev.StateSeen(**at, moment="entered", components=(model,))
    for name, sizes in parts.items():
        mine = partial(_begins_with, name)
        history = changed(history, ev.FileSaved, mine, parts=tuple(starmap(_part, sizes.items())))
    first = rows(history, ev.StepDone)[0]
    entry = msgspec.structs.replace(history[first], event=seen)
    return History([*history.entries[:first], entry, *history.entries[first:]])


def _begins_with(name: str, saved: ev.FileSaved) -> bool:
    return saved.path.startswith(name)


def _part(name: str, size: float) -> ev.SavedPart:
    return ev.SavedPart(name=name, digest=name, kind="numbers", size=size)


ANEW = "g s w:{0} s r c- s w:{0} s r c- s x g q:{0} s s r c- s s r c- ."


@pytest.mark.parametrize(
    ("held", "is_blamed"),
    [
        ({"net/0.weight": 3.0, "net/0.bias": 4.0, "adam/0/exp_avg": 2.0}, True),
        ({"net": 5.000001, "adam": 2.0}, True),
        ({"net.weight": 3.0, "adam.exp_avg": 4.1}, False),
    ],
)
def test_a_save_of_no_known_saver_is_known_by_the_model_in_it(
    held: dict[str, float], is_blamed: bool
) -> None:
    line = ANEW.format("a")
    run, clean = (
        changed(with_parts(told_in(one), a=held), ev.FileSaveBegun, saver="npz")
        for one in (line, "g s w:a s r c- s w:a s r c- s s r c- s s r c- .")
    )

    found = judge_each(plan_of(line), run, clean)

    assert ("scratch, although a of" in found.headline) is is_blamed
    if is_blamed:
        expect_in_headline(found, "saves-ignored", newest={"path": "a"})


@pytest.mark.parametrize(
    ("whole", "is_blamed"), [({"net": 5.000001, "adam": 2.0}, False), ({}, True)]
)
def test_a_model_alone_is_no_checkpoint_where_it_is_kept_with_more(
    whole: dict[str, float], is_blamed: bool
) -> None:
    """The restart finds an export of the model; the first checkpoint was not due yet."""
    line = "g s w:export_1 s r c- s x g q:export_1 s s r c- s w:ckpt_2 s r c- ."
    clean = "g s w:export_1 s r c- s w:ckpt_2 s r c- ."
    parts = {"export": {"w": 3.0, "b": 4.0}, "ckpt": whole}

    found = judge_each(
        plan_of(line), with_parts(told_in(line), **parts), with_parts(told_in(clean), **parts)
    )

    assert ("although export_1 of" in found.headline) is is_blamed
    if is_blamed:
        expect_in_headline(
            found, "saves-ignored", attempt=1, newest={"path": "export_1"}, severity="work lost"
        )


@pytest.mark.parametrize("folder", ["", "sub/tmpijklmnop/"])
def test_a_working_directory_with_a_drawn_name_hides_no_save(folder: str) -> None:
    name = f"/tmp/tmpabcdefgh/{folder}f_2"
    line = f"g s w:/x/f_1 s r c- s w:{name} s r c- s x g q:{name} s s r c- s s r c- ."
    plan = plan_of(line).model_copy(update={"cwd": "/tmp/tmpabcdefgh"})

    found = judge_each(plan, told_in(line), told_in(BASELINE))

    assert (f"although {name} of epoch 1, step 1 was there" in found.headline) is (not folder)


def test_a_save_that_was_set_aside_was_in_use_and_is_lost_by_beginning_anew() -> None:
    first = "g s w:t_1 m:t_1>f s r c- s m:f>g w:t_2 x "
    anew = "g q:g s w:t_1 m:t_1>f s r c- s x g q:f l:f s s r c- ."

    found = verdict(first + anew)

    expect_in_headline(found, "saves-ignored", attempt=1, newest={"path": "g", "place": (0, 1)})


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


def test_what_only_waits_to_be_copied_is_no_save() -> None:
    base = "g s w:f_1 s k:f_1>g_1 r c- s w:f_2 s k:f_2>g_2 r c- ."

    found = result("resume-point", "g s w:f_1 s r c- s x g q:f_1 s s r c- s s r c- .", base)

    assert found.status == "pass"


@pytest.mark.parametrize(
    ("named", "status"),
    [(("p_1>g_1", "p_2>g_2"), "pass"), (("p_1>old_1",), "fail")],
    ids=["each copy gets another name", "the last keeps it"],
)
def test_a_copy_that_has_no_name_of_a_save_yet_is_none(named: tuple[str, ...], status: str) -> None:
    first, second = (*(f"m:{each}" for each in named), "")[:2]
    base = f"g s w:f_1 s k:f_1>p_1 {first} r c- s w:f_2 s k:f_2>p_2 {second} r c- ."
    run = "g s w:f_1 s k:f_1>p_1 r c- s x g q:f_1,p_1 s s r c- s s r c- ."

    assert result("resume-point", run, base).status == status


@pytest.mark.parametrize(
    ("copy", "status"),
    [("k:f_1>/g_1", "pass"), ("k:f_1>/tmp/g_1", "fail"), ("", "fail")],
    ids=["copied later", "copied on its node", "never copied"],
)
def test_what_waited_to_be_copied_is_lost_with_its_node_by_the_jobs_own_choice(
    copy: str, status: str
) -> None:
    base = f"g s w:f_1 s {copy} r c- s w:f_2 s r c- ."
    run = f"g s w:f_1 s x g q:f_1~ s w:f_1 s {copy} r c- s w:f_2 s x g q:f_1,f_2 l:f_2 s r c- ."

    found = result("resume-point", run, base)

    assert found.status == status, found.summary


@pytest.mark.parametrize(
    ("copy", "found", "said"),
    [
        ("k:/tmp/f_2>/store/f_2", "/store/f_2", "although /store/f_2 of epoch 1, step 1 was there"),
        ("h:/tmp/f_2>/store/f_2", "/store/f_2", "although /store/f_2 of epoch 1, step 1 was there"),
        ("h:/tmp/f_2>/store/f_2", "", "/store/f_2 of epoch 1, step 1 was not there any more"),
        ("", "", ""),
    ],
    ids=["is there", "written as a save", "removed again", "not made yet"],
)
def test_a_copy_counts_also_where_an_earlier_restart_has_read_the_original(
    copy: str, found: str, said: str
) -> None:
    first = "g s w:/tmp/f_1 {} s x g q:/tmp/f_1{} l:/tmp/f_1 r c- "
    run = (
        first.format("", "") + f"s w:/tmp/f_2 {copy} s X g q:/tmp/f_1-,/tmp/f_2-,{found} s s r c- ."
    )
    base = "g s w:/tmp/f_1 h:/tmp/f_1>/store/f_1 s r c- s w:/tmp/f_2 s r c- ."

    summary = result("resume-point", run, base).summary

    assert said in summary if said else result("resume-point", run, base).status == "pass", summary


def test_a_copy_that_has_no_name_of_a_save_yet_is_none_after_the_original_was_read() -> None:
    one = "ranks1 g s w:/tmp/f_1 h:/tmp/f_1>/store/p_1 "
    base = one + "m:/store/p_1>/store/f_1 s r c- s s r c- ."
    read = "s x0 g q:/tmp/f_1,/store/p_1 l:/tmp/f_1 s r c- "
    run = one + read + "s x0 g q:/tmp/f_1-,/store/p_1 s s r c- s s r c- ."

    assert "/store/p_1" not in result("resume-point", run, base).summary


@pytest.mark.parametrize(
    ("path", "epochs", "status"),
    [("/store/f_9", 1, "pass"), ("/store/g_9", 1, "fail"), ("/store/f_9", 3, "fail")],
    ids=["at the first save", "another file", "later"],
)
def test_of_another_programs_copies_only_the_first_may_still_be_under_way(
    path: str, epochs: int, status: str
) -> None:
    made = "".join(f"s w:/near/f_{n} s r c- " for n in range(epochs))
    left = "".join(f"/near/f_{n}~," for n in range(epochs)).rstrip(",")
    base = told_in(f"g {made}s s r c- .")
    outside = ev.WroteOutside(path=path, operation="created", removed=True, after_fit=False)
    base = History([*base, JournalEntry(time_ns=0, source="harness", seq=0, event=outside)])
    again = "s s r c- " * (epochs + 1)
    line = f"g {made}s x g q:{left} {again}x g q:/near/f_0 l:/near/f_0 s s r c- ."

    found = judge_each(plan_of(line), told_in(line), base)

    assert next(r.status for r in found.results if r.check == "resume-point") == status


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ("q:f_1,f_2-", "although f_1 of epoch 0, step 1 was there: no rank read it"),
        ("q:f_1-,f_2~", "f_2 of epoch 1, step 1 lay in the temporary folder of another node"),
        ("q", "f_2 of epoch 1, step 1 was not there any more, and nothing else was"),
    ],
)
def test_an_attempt_that_began_anew_says_what_became_of_the_saves(seen: str, words: str) -> None:
    run = f"g s w:f_1 s r c- s w:f_2 s r c- s x g {seen} s s r c- s s r c- ."

    assert words in result("resume-point", run).summary


def test_a_save_that_went_with_its_node_is_said_to_have_lain_there() -> None:
    run = "g s w:f_1 s r c- s n X g q:f_1- s s r c- s s r c- ."

    expect_finding(
        result("resume-point", run, "g s w:f_1 s r c- s s r c- ."),
        "saves-gone",
        attempt=1,
        newest={"path": "f_1", "place": (0, 1)},
        loss="on a lost node's disk",
        severity="work lost",
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


def test_a_file_whose_writing_was_cut_off_is_named_with_its_path() -> None:
    found = verdict("g s w:f s r c- s s r c- s v:f x g l:f! g l:f! L")

    assert found.broken[0].check == "checkpoints"
    expect_finding(
        found.broken[0],
        "file-cut-short",
        rank=0,
        attempt=1,
        path="f",
        error="EOFError: ran out of input",
        writing_rank=1,
    )
    assert len(found.broken[0].anomalies) == 1


@pytest.mark.parametrize(
    "run",
    [
        "g l:pretrained s w:f s r c- s s r c- s v:f x g l:f! g l:f! L",
        "g l:pretrained! s w:f s r c- s s r c- s v:f x g l:other! l:f! g l:f! L",
        "g s w:f s r c- s s r c- s v:f x g l:f! x g l:f! L",
    ],
)
def test_a_read_that_failed_is_found_after_others_that_are_no_matter(run: str) -> None:
    results = verdict(run).results

    checkpoints = next(r for r in results if r.check == "checkpoints")
    expect_finding(checkpoints, "file-cut-short", path="f", writing_rank=1)


def test_a_file_that_another_rank_wrote_too_is_torn_by_the_one_that_was_cut_off() -> None:
    line = "g s w:f s r c- s s r c- s w:f x g l:f! g l:f! L"
    *_, (_, last) = told_in(line).select_events(ev.FileSaved)
    history = without(
        told_in(line),
        ev.FileSaved,
        lambda e: (e.rank, e.epoch, e.step) == (0, last.epoch, last.step),
    )

    results = judge_each(plan_of(line), history, told_in(BASELINE)).results

    checkpoints = next(r for r in results if r.check == "checkpoints")
    expect_finding(checkpoints, "file-cut-short", path="f", writing_rank=0)


def test_a_file_is_there_when_its_writing_is_over() -> None:
    history = told_in("g s w:f s r c- .")

    assert [save.event_number for save in RunTables(history).files.saves] == rows(
        history, ev.FileSaved
    )


def test_a_job_that_falls_back_to_an_older_file_is_right() -> None:
    base = "g s w:f_1 s r c- s s r c- s w:f_2 s r c- ."
    found = verdict("g s w:f_1 s r c- s s r c- s v:f_2 x g l:f_2! l:f_1 s s r c- .", base)

    assert not {"checkpoints", "start-decision", "resume-point"} & {r.check for r in found.broken}


def test_a_file_that_was_never_whole_is_no_place_to_go_on_from() -> None:
    found = verdict("g s s r c- s v:f x g l:f s s r c- .")

    assert found.broken[0].check == "committed-only"
    expect_in_headline(found, "unfinished-file-used", attempt=1, path="f", writing_rank=1)


def test_a_failed_load_is_named_before_all_that_follows_from_it() -> None:
    found = verdict("g s s r c s x g<c0 l:m.pt! s s r c s s r c .", "g s s r c s s r c .")

    assert found.broken[0].check == "start-decision"


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


# -- storage -----------------------------------------------------------------------------------


@pytest.mark.parametrize("story", [KEPT, Story(KEPT.strikes), Story(KEPT.strikes, keep=2)])
def test_what_ray_keeps_is_whole_and_enough(story: Story) -> None:
    for check in ("checkpoints", "retention", "ack"):
        assert result_on(check, story).status == "pass"
        assert result_on(check, story).evidence


def test_a_checkpoint_that_is_gone_is_missed() -> None:
    story = Story(KEPT.strikes)
    history = changed(
        story.history(), ev.StorageSeen, lambda e: e.op is None, checkpoints=lambda e: ()
    )

    found = result_on("checkpoints", story, history)

    expect_finding(found, "checkpoint-gone", op=None, is_another_whole=False)


def test_every_checkpoint_that_is_damaged_is_named_once() -> None:
    story = Story(KEPT.strikes)

    def gone(seen: ev.StorageSeen) -> tuple[ev.StoredCheckpoint, ...]:
        damaged = {"checkpoint_0_0"} | ({"checkpoint_1_2"} if seen.op is None else set())
        return tuple(found for found in seen.checkpoints if found.name not in damaged)

    history = changed(story.history(), ev.StorageSeen, checkpoints=gone)

    found = result_on("checkpoints", story, history).anomalies
    assert [a.message.partition(" was committed")[0] for a in found] == [
        "checkpoint_0_0 of epoch 0",
        "checkpoint_1_2 of epoch 2",
    ]


@pytest.mark.parametrize(("began_ns", "status"), [(0, "pass"), (2**62, "fail")])
def test_what_was_committed_while_storage_was_looked_at_may_have_been_missed(
    began_ns: int, status: str
) -> None:
    story = Story(KEPT.strikes)

    def lacking(seen: ev.StorageSeen) -> tuple[ev.StoredCheckpoint, ...]:
        return tuple(
            ev.StoredCheckpoint(name=c.name, files={} if seen.op is not None else c.files)
            for c in seen.checkpoints
        )

    history = changed(story.history(), ev.StorageSeen, checkpoints=lacking, began_ns=began_ns)

    assert result_on("checkpoints", story, history).status == status


def test_files_of_another_attempt_in_one_checkpoint_are_a_mixture() -> None:
    story = Story(KEPT.strikes)
    stray = ev.PartUploaded(
        attempt=0, rank=0, epoch=2, checkpoint="checkpoint_1_2", files={"old.pt": "aa"}
    )

    def mixed(seen: ev.StorageSeen) -> tuple[ev.StoredCheckpoint, ...]:
        return tuple(
            ev.StoredCheckpoint(name=c.name, files={**c.files, "old.pt": "aa"})
            if c.name == "checkpoint_1_2"
            else c
            for c in seen.checkpoints
        )

    history = told(changed(story.history(), ev.StorageSeen, checkpoints=mixed), stray)

    assert "it was mixed with old.pt" in result_on("checkpoints", story, history).summary


def test_storage_that_nobody_looked_at_is_unknown() -> None:
    history = without(KEPT.history(), ev.StorageSeen)

    assert result_on("checkpoints", KEPT, history).status == "inconclusive"
    assert (
        result_on("checkpoints", KEPT, without(history, ev.PartUploaded)).status == "inconclusive"
    )


def test_too_many_checkpoints_are_counted() -> None:
    history = without(Story(KEPT.strikes, keep=None).history(), ev.FitCalled)
    called = next(event for _, event in KEPT.history().select_events(ev.FitCalled))
    history = told(history, called)

    expect_finding(result_on("retention", KEPT, history), "too-many-checkpoints", count=4, limit=1)


def test_nothing_is_removed_where_all_are_kept() -> None:
    called = next(event for _, event in KEPT.history().select_events(ev.FitCalled))
    history = changed(
        KEPT.history(), ev.FitCalled, settings={**called.settings, "num_to_keep": None}
    )

    expect_finding(
        result_on("retention", KEPT, history), "checkpoint-removed", checkpoint="checkpoint_1_2"
    )


def test_the_best_by_its_score_is_kept() -> None:
    story = Story(KEPT.strikes, keep=2)
    plan = story.plan()
    scored = Retention(
        num_to_keep=2, checkpoint_score_attribute="epoch", checkpoint_score_order="min"
    )
    plan = plan.model_copy(update={"job": plan.job.model_copy(update={"checkpoint": scored})})
    settings = {"num_to_keep": 2, "checkpoint_score_attribute": "epoch"}
    history = changed(story.history(), ev.FitCalled, settings=settings)

    results = judge_each(plan, history, story.baseline()).results

    expect_finding(
        next(r for r in results if r.check == "retention"),
        "best-checkpoint-missing",
        checkpoint="checkpoint_0_0",
        epoch=0,
        score="epoch",
        parts=("epoch",),
    )


def test_a_result_that_storage_does_not_hold_is_no_result() -> None:
    foreign = changed(KEPT.history(), ev.FitReturned, checkpoint="checkpoint_9_9")
    gone = changed(KEPT.history(), ev.FitReturned, checkpoint="checkpoint_0_0")

    assert "which was never committed" in result_on("ack", KEPT, foreign).summary
    assert "storage does not hold it" in result_on("ack", KEPT, gone).summary


def test_other_checkpoints_kept_than_the_baselines_are_another_choice() -> None:
    story = Story(KEPT.strikes, keep=2)
    last = max(rows(story.history(), ev.StorageSeen))

    def fewer(seen: ev.StorageSeen) -> tuple[ev.StoredCheckpoint, ...]:
        return seen.checkpoints[1:]

    history = changed(story.history(), ev.StorageSeen, lambda e: e.op is None, checkpoints=fewer)

    result = result_on("selection", story, history)
    expect_finding(result, "other-checkpoints-kept", epochs=(3,), expected_epochs=(2, 3))
    assert result.anomalies[0].events == (last,)
