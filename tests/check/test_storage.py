"""What storage holds beside what was committed, wherever the job has put it."""

from typing import Any, Literal

import msgspec
import pytest

from chaos.check.analysis import RunTables
from chaos.check.judge import judge
from chaos.check.storage import find_shared_file_warnings, list_files
from chaos.faults.fail_save import FailSave
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.plan import Op
from chaos.model.trigger import AtMoment
from chaos.model.verdict import CheckResult
from tests.check.shorthand import plan_of, told_in
from tests.check.tamper import changed, told, without
from tests.findings import expect_finding

RUN = "g s u r c s u r c s x g<c1 s u r c L:c0,c1,c2 ."
BASELINE = "g s u r c s u r c s u r c L:c0,c1,c2 ."


def results(history: History, baseline: History) -> dict[str, CheckResult]:
    return {r.check: r for r in judge(plan_of(RUN), history, baseline).results}


def moved(history: History, folder: str) -> History:
    """Return that the job itself put each checkpoint below a folder of the run's storage."""

    def name(event: ev.AnyEvent) -> str | None:
        return f"{folder}{event.checkpoint}" if event.checkpoint else None  # type: ignore[attr-defined]

    def found(seen: ev.StorageSeen) -> tuple[ev.StoredCheckpoint, ...]:
        files = {f"{c.name}/{path}": d for c in seen.checkpoints for path, d in c.files.items()}
        return (ev.StoredCheckpoint(name=folder.strip("/"), files=files),)

    for kind in (ev.Committed, ev.PartUploaded, ev.WorkerStarted, ev.CheckpointRead):
        history = changed(history, kind, checkpoint=name)
    return changed(history, ev.StorageSeen, checkpoints=found)


@pytest.mark.parametrize("folder", ["", "own/"])
def test_a_checkpoint_is_found_where_its_commit_says(folder: str) -> None:
    run, baseline = told_in(RUN), told_in(BASELINE)
    if folder:
        run, baseline = moved(run, folder), moved(baseline, folder)

    found = results(run, baseline)

    for check in ("checkpoints", "retention", "ack", "selection", "resume-point"):
        assert found[check].status == "pass", found[check].summary
    assert "3 checkpoints whole" in found["checkpoints"].summary
    assert "3 left at the end" in found["retention"].summary


def test_one_that_is_gone_from_a_folder_of_the_jobs_own_is_missed() -> None:
    run, baseline = moved(told_in(RUN), "own/"), moved(told_in(BASELINE), "own/")

    def without_the_last(seen: ev.StorageSeen) -> tuple[ev.StoredCheckpoint, ...]:
        (own,) = seen.checkpoints
        left = {path: d for path, d in own.files.items() if not path.startswith("c2/")}
        return (ev.StoredCheckpoint(name=own.name, files=left),)

    found = results(changed(run, ev.StorageSeen, checkpoints=without_the_last), baseline)

    expect_finding(
        found["checkpoints"], "checkpoint-gone", checkpoint="own/c2", epoch=2, is_another_whole=True
    )
    expect_finding(found["retention"], "newest-checkpoint-missing", checkpoint="own/c2", epoch=2)


def test_damage_that_is_there_at_the_end_is_a_result_though_an_earlier_look_saw_it_first() -> None:
    run = told_in("g s u r c s u r c s x g<c1 s u r c L:c0~,c1,c2 L:c0~,c1,c2 .")
    first = next(seen for _, seen in run.select_events(ev.StorageSeen))
    run = changed(run, ev.StorageSeen, lambda seen: seen is first, op=0)

    found = results(run, told_in(BASELINE))["checkpoints"]

    assert found.status == "fail", found.summary
    expect_finding(
        found,
        "checkpoint-file-changed",
        checkpoint="c0",
        epoch=0,
        op=0,
        is_another_whole=True,
        path="0.pt",
    )


def test_a_checkpoint_outside_the_runs_storage_is_unknown_and_neither_gone_nor_whole() -> None:
    run, baseline = moved(told_in(RUN), "../own/"), moved(told_in(BASELINE), "../own/")

    found = results(run, baseline)

    assert found["checkpoints"].status == "inconclusive"
    assert "../own/c0 lies outside the run's storage, and was not looked at" in (
        found["checkpoints"].summary
    )
    assert found["retention"].status != "fail"
    assert found["ack"].status != "fail"


@pytest.mark.parametrize("gone", ["c0", "c1", "c2"])
def test_a_commit_whose_upload_was_not_seen_is_not_called_whole(gone: str) -> None:
    history = without(told_in(RUN), ev.PartUploaded, lambda e: e.checkpoint == gone)

    found = results(history, told_in(BASELINE))["checkpoints"]

    assert found.status == "inconclusive"
    assert found.summary == f"what was uploaded of {gone} was not seen"


def test_a_commit_that_nobody_uploaded_and_storage_lacks_is_gone() -> None:
    run = "g s u r c s r c s x g<c1 s u r c L:c0,c2 ."

    found = judge(plan_of(run), told_in(run), told_in(BASELINE)).results

    result = next(r for r in found if r.check == "checkpoints")
    assert result.status == "fail"
    expect_finding(result, "checkpoint-gone", checkpoint="c1", epoch=1, is_another_whole=True)


def test_a_job_whose_uploads_nobody_can_see_is_unknown_in_its_clean_run_too() -> None:
    clean = told_in("g s r c s r c L:c0,c1 .")

    (result,) = (r for r in judge(plan_of("."), clean, None).results if r.check == "checkpoints")

    assert result.status == "inconclusive"


def test_bytes_that_are_not_those_uploaded_are_a_damage() -> None:
    run = RUN.replace("L:c0,c1,c2", "L:c0,c1~,c2")

    found = judge(plan_of(run), told_in(run), told_in(BASELINE)).results

    result = next(r for r in found if r.check == "checkpoints")
    assert result.status == "fail"
    expect_finding(
        result,
        "checkpoint-file-changed",
        checkpoint="c1",
        epoch=1,
        is_another_whole=True,
        path="0.pt",
    )


def test_a_bucket_that_holds_nothing_of_an_empty_checkpoint_lacks_nothing() -> None:
    history = changed(told_in(RUN), ev.PartUploaded, lambda e: e.checkpoint == "c0", files={})
    history = changed(
        history,
        ev.StorageSeen,
        checkpoints=lambda e: tuple(c for c in e.checkpoints if c.name != "c0"),
    )

    assert results(history, told_in(BASELINE))["checkpoints"].status == "pass"


def test_a_checkpoint_itself_comes_before_a_folder_that_holds_its_like() -> None:
    own = ev.StoredCheckpoint(name="own", files={"c0/a": "1"})
    seen = ev.StorageSeen(op=None, checkpoints=(own,))

    assert list_files(seen, "own") == {"c0/a": "1"}
    assert list_files(seen, "own/c0") == {"a": "1"}
    assert list_files(seen, "own/c") is None
    assert list_files(seen, "other") is None


# -- a file of several ranks -----------------------------------------------------------------------


def shared(history: History, *, stored: str, second: str = "of 1") -> History:
    """Return that both ranks upload `states.pt` into c2, and storage holds this content of it."""

    def files(seen: ev.StorageSeen) -> tuple[ev.StoredCheckpoint, ...]:
        more = {"c2": {"states.pt": stored}}
        own = (
            msgspec.structs.replace(c, files=c.files | more.get(c.name, {}))
            for c in seen.checkpoints
        )
        return tuple(own)

    def uploaded(part: ev.PartUploaded) -> dict[str, str]:
        return {**part.files, "states.pt": second if part.rank else "of 0"}

    history = changed(history, ev.PartUploaded, lambda e: e.checkpoint == "c2", files=uploaded)
    history = changed(history, ev.StorageSeen, checkpoints=files)
    attempt = max(event.attempt for _, event in history.select_events(ev.Committed))
    code = ev.CodeLine(file="/job/train.py", line=46, first=46, around=("torch.save(states, f)",))
    save = ev.FileSaved(
        attempt=attempt,
        rank=0,
        epoch=2,
        step=1,
        path="/tmp/a/states.pt",
        digest="d",
        bytes=9,
        code=code,
    )
    return told(history, save, before=ev.Committed)


def test_a_mixture_of_what_two_ranks_uploaded_is_told_by_ranks_file_and_line() -> None:
    found = results(shared(told_in(RUN), stored="of both"), told_in(BASELINE))["checkpoints"]

    assert found.status == "fail"
    expect_finding(
        found,
        "rank-files-mixed",
        checkpoint="c2",
        epoch=2,
        file={"path": "states.pt", "ranks": (0, 1), "source_location": "train.py:46"},
    )


def test_a_clean_run_with_such_a_mixture_is_no_end_of_the_audit_and_has_a_warning() -> None:
    clean = shared(told_in(BASELINE), stored="of both")

    (result,) = (r for r in judge(plan_of("."), clean, None).results if r.check == "checkpoints")

    assert result.status == "pass"
    assert "2 checkpoints whole" in result.summary
    (warning,) = find_shared_file_warnings(RunTables(clean))
    assert "ranks 0 and 1 each upload states.pt with other content, saved at train.py:46" in warning


def test_the_file_of_the_last_rank_is_whole_and_has_a_warning() -> None:
    run = shared(told_in(RUN), stored="of 1")

    assert results(run, told_in(BASELINE))["checkpoints"].status == "pass"
    assert len([*find_shared_file_warnings(RunTables(run))]) == 1


def test_ranks_that_upload_the_same_bytes_share_nothing() -> None:
    run = shared(told_in(RUN), stored="of 0", second="of 0")

    assert results(run, told_in(BASELINE))["checkpoints"].status == "pass"
    assert not [*find_shared_file_warnings(RunTables(run))]


def test_other_damage_of_such_a_file_than_a_mixture_is_told_as_before() -> None:
    run = shared(told_in(RUN), stored="of nobody", second="of 0")

    assert "it has another states.pt" in results(run, told_in(BASELINE))["checkpoints"].summary


# -- sharded ---------------------------------------------------------------------------------------


SHARDED = ev.ShardedPart(
    sizes={"__0_0.distcp": 40, "__1_0.distcp": 30},
    indexes=(".metadata",),
    needs={"__0_0.distcp": 40, "__1_0.distcp": 30},
    keys=("model.w", "optimizer.m"),
)
ON_FOUR = ev.ShardedPart(
    sizes={f"__{rank}_0.distcp": 10 for rank in range(4)},
    indexes=(".metadata",),
    needs={f"__{rank}_0.distcp": 10 for rank in range(4)},
    keys=("model.w", "optimizer.m", "rng.3"),
)


def sharded(history: History, *, last: ev.ShardedPart) -> History:
    """Return that the job shards its checkpoints, the last of them into this part."""
    history = changed(history, ev.PartUploaded, sharded=SHARDED)
    return changed(history, ev.PartUploaded, lambda e: e.checkpoint == "c2", sharded=last)


@pytest.mark.parametrize(
    ("last", "kind", "facts"),
    [
        (
            msgspec.structs.replace(SHARDED, indexes=(), needs={}, keys=()),
            "shard-metadata-missing",
            {"path": "__0_0.distcp"},
        ),
        (
            msgspec.structs.replace(SHARDED, sizes={"__0_0.distcp": 40}),
            "shard-missing",
            {"path": "__1_0.distcp"},
        ),
        (
            msgspec.structs.replace(SHARDED, sizes={"__0_0.distcp": 40, "__1_0.distcp": 29}),
            "shard-cut-short",
            {"path": "__1_0.distcp", "size": 29, "needed_size": 30},
        ),
        (
            msgspec.structs.replace(SHARDED, keys=("model.w",)),
            "checkpoint-entry-missing",
            {"entry": "optimizer.m", "other_count": 0},
        ),
    ],
    ids=["no index", "no file", "a short file", "an entry less"],
)
def test_a_sharded_checkpoint_that_was_committed_holds_what_it_says(
    last: ev.ShardedPart, kind: str, facts: dict[str, Any]
) -> None:
    run = sharded(told_in(RUN), last=last)
    as_the_run = sharded(told_in(BASELINE), last=last)

    found = results(run, sharded(told_in(BASELINE), last=SHARDED))["checkpoints"]

    assert found.status == "fail"
    expect_finding(found, kind, checkpoint="c2", epoch=2, **facts)
    assert results(run, as_the_run)["checkpoints"].status == "pass"


@pytest.mark.parametrize("last", [SHARDED, ON_FOUR])
def test_other_shards_and_entries_of_more_ranks_are_no_damage(last: ev.ShardedPart) -> None:
    run = sharded(told_in(RUN), last=last)

    found = results(run, sharded(told_in(BASELINE), last=SHARDED))["checkpoints"]

    assert found.status == "pass"


def test_nothing_is_known_of_shards_that_were_not_seen() -> None:
    last = msgspec.structs.replace(SHARDED, sizes={"__0_0.distcp": 40})
    run = sharded(told_in(RUN), last=last)
    unseen = without(run, ev.PartUploaded, lambda e: e.checkpoint == "c2")

    found = results(unseen, sharded(told_in(BASELINE), last=SHARDED))["checkpoints"]

    assert found.status == "inconclusive"


# -- a save that failed ----------------------------------------------------------------------------

FAILING = Op(index=0, at=AtMoment(epoch=1, moment="saving", rank=0), fail_save=FailSave())


@pytest.mark.parametrize(("status", "selection"), [("ok", "pass"), ("fail", "fail")])
def test_a_job_may_report_no_checkpoint_where_its_save_has_failed(
    status: Literal["ok", "fail"], selection: str
) -> None:
    run = changed(
        told_in(BASELINE.replace("L:c0,c1,c2", "L:c0,c2")),
        ev.Committed,
        lambda e: e.epoch == 1,
        checkpoint=None,
    )
    who: dict[str, Any] = {"attempt": 0, "rank": 0, "pid": 1000, "node_id": "node-0-0"}
    invoked = ev.FaultInvoked(op=0, fault="fail_save", **who)
    history = told(run, invoked, ev.FaultEnded(op=0, status=status, detail=""))
    plan = plan_of(BASELINE).model_copy(update={"ops": (FAILING,)})

    verdict = judge(plan, history, told_in(BASELINE))

    assert {r.check: r.status for r in verdict.results}["selection"] == selection
