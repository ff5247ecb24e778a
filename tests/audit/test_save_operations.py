"""The operations of a job's saves: which of them are places, and how a save is shown."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.audit.job_profile import ProfiledSaveOperation, measure_job
from chaos.audit.plans import build_base_plan
from chaos.audit.site_groups import build_place_groups
from chaos.audit.site_sample import count_coverage
from chaos.check.save_operations import describe_leftover, describe_save
from chaos.model import event as ev
from chaos.model.history import History, JournalEntry
from chaos.model.trigger import AtMoment, build_path_pattern, build_path_patterns
from tests.accepted import expect_text

STEP: dict[str, Any] = {"attempt": 0, "rank": 0, "epoch": 0, "step": 4}
RELINK = "and not linked anew: link another name, then `os.replace` it"
LATER = {**STEP, "epoch": 1}


def clean(*events: Any) -> History:
    last = JournalEntry(time_ns=0, source="w", seq=0, event=ev.StepDone(**STEP, losses=()))
    entries = [JournalEntry(time_ns=n, source="w", seq=n, event=e) for n, e in enumerate(events, 1)]
    return History([last, *entries])


def saved(path: str, place: dict[str, Any] = STEP) -> ev.FileSaveBegun:
    return ev.FileSaveBegun(**place, path=path, saver="torch")


def touched(how: Any, path: str, place: dict[str, Any] = STEP) -> ev.FileTouched:
    return ev.FileTouched(**place, operation=how, path=path)


def renamed(path: str, to: str, place: dict[str, Any] = STEP) -> ev.FileRenamed:
    return ev.FileRenamed(**place, path=path, to=to)


def told(history: History, *again: History) -> list[str]:
    return [str(one) for one in measure_job(history, repeats=again).operations]


@pytest.mark.parametrize(
    ("near", "outlive"),
    [
        ("/tmp/near/last.pt", 2),
        ("/runs/0/nodes/node-0/tmp/last.pt", 2),
        ("/home/me/near/last.pt", 0),
    ],
)
def test_what_outlives_a_node_is_known_where_other_saves_do_not(near: str, outlive: int) -> None:
    store = "/home/me/store/last.new"
    history = clean(saved(near), touched("opening", store), renamed(store, "/home/me/store/last"))

    plan = build_base_plan(Path(__file__), [], cwd=Path("/home/me"), seed=0, workers=1)
    operations = measure_job(history, plan=plan).operations

    due = ["store/last.new is empty", "store/last.new is to be renamed"][:outlive]
    assert [str(one) for one in operations if one.outlives_node] == due
    assert len(operations) == 3


@pytest.mark.parametrize(
    ("moment", "left"),
    [
        ("saving", "; half of e/in_place.pt was written: write to a temporary name, then rename"),
        ("opening", "; nothing of e/pointer was written: write to a temporary name, then rename"),
        ("linking", f"; e/latest was removed, {RELINK}"),
        ("renaming", ""),
        ("removing", ""),
    ],
)
def test_what_a_death_in_a_save_has_left_is_said_with_the_remedy(moment: Any, left: str) -> None:
    save = (
        saved("/e/in_place.pt"),
        touched("opening", "/e/pointer"),
        renamed("/e/next.pt.part", "/e/next.pt"),
        touched("removing", "/e/latest"),
        touched("linking", "/e/latest"),
    )
    at = AtMoment(epoch=0, moment=moment, rank=0)

    assert describe_leftover(at, clean(*save[:4]), clean(*save)) == left


def test_no_remedy_is_said_where_the_job_has_it() -> None:
    drafts = clean(saved("/e/a.part"), renamed("/e/a.part", "/e/a"), touched("linking", "/e/b"))
    for moment in ("saving", "renaming", "linking", "opening"):
        at = AtMoment(epoch=0, moment=moment, rank=0)
        assert describe_leftover(at, drafts, drafts) == ""


def test_of_folders_with_a_drawn_name_the_first_save_is_a_place() -> None:
    folders = ("/tmp/tmpab12cd_9", "/tmp/tmpzz12cd_9")
    saves = [(touched("making", at), saved(f"{at}/a.pt"), saved(f"{at}/b.pt")) for at in folders]

    assert told(clean(*saves[0], *saves[1])) == ["half of tmp*/a.pt is written"]


def test_a_folder_is_a_place_unless_it_is_renamed_once_it_is_whole() -> None:
    numbered = (touched("making", "/e/step_3"), saved("/e/step_3/a.pt"))
    drafts = (touched("making", "/e/draft"), saved("/e/draft/a.pt"), renamed("/e/draft", "/e/3"))

    assert told(clean(*numbered))[0] == "e/step_* is made, and empty"
    assert told(clean(*drafts)) == ["half of draft/a.pt is written", "e/draft is to be renamed"]
    other = ev.StepDone(**{**STEP, "rank": 1}, losses=())
    expect_text(*told(clean(other, *numbered)))


def test_a_file_comes_into_a_bucket_as_a_whole() -> None:
    store = "/home/me/store/last"
    history = clean(saved("/tmp/near/last.pt"), touched("opening", store), saved(f"{store}.pt"))

    plan = build_base_plan(Path(__file__), [], cwd=Path("/home/me"), seed=0, workers=1)
    plan = plan.model_copy(update={"storage": {"store": "bucket"}})

    operations = measure_job(history, plan=plan).operations
    expect_text("\n".join(map(str, operations)))


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("/home/me/exp/epoch_003/model.pt", "epoch_*/model.pt"),
        ("/exp/latest", "exp/latest"),
        ("/exp/tmpab12cd_9", "exp/tmp*"),
        ("/model.pt", "model.pt"),
        ("/exp/a[1]?.pt", "exp/a?*??.pt"),
        (f"/exp/blobs/{'9f' * 32}.417", "blobs/*.*"),
        (f"/exp/blobs/part-{'0a' * 16}.pt", "blobs/part-*.pt"),
    ],
)
def test_files_are_known_by_the_end_of_their_path_without_numbers(path: str, pattern: str) -> None:
    assert build_path_pattern(path) == pattern
    assert AtMoment(epoch=0, moment="removing", path=pattern).matches_path(path)


FAR, NEAR = "/mnt/share/ckpt/last.pt", "/tmp/job/ckpt/last.pt"


@pytest.mark.parametrize(
    ("runs", "patterns"),
    [
        ([[FAR]], ["ckpt/last.pt"]),
        ([[FAR, NEAR], [NEAR, FAR]], ["share/ckpt/last.pt", "job/ckpt/last.pt"]),
        ([[FAR, NEAR], [FAR]], ["ckpt/last.pt"] * 2),
        ([["/a/x/c/m.pt", "/b/x/c/m.pt", "/b/y/c/m.pt"]], ["a/x/c/m.pt", "b/x/c/m.pt", "y/c/m.pt"]),
        ([["/r/rank0/c/m.pt", "/r/rank1/c/m.pt"]], ["c/m.pt"] * 2),
        ([["/r/ab/c/m.pt", "/r/cd/c/m.pt"], ["/r/ef/c/m.pt", "/r/gh/c/m.pt"]], ["c/m.pt"] * 2),
    ],
)
def test_files_of_one_name_are_told_apart_by_folders_that_every_run_has(
    runs: list[list[str]], patterns: list[str]
) -> None:
    found = build_path_patterns(runs)

    assert [found[path] for path in runs[0]] == patterns
    assert found.keys() == {path for run in runs for path in run}


@given(
    st.lists(st.lists(st.sampled_from("abc123"), min_size=1, max_size=8).map("/".join), unique=True)
)
def test_each_file_is_of_its_pattern(paths: list[str]) -> None:
    paths = [f"/{path}" for path in paths]
    found = build_path_patterns([paths, paths])

    assert found.keys() == {*paths}
    assert all(AtMoment(epoch=0, moment="saving", path=found[p]).matches_path(p) for p in paths)


def test_a_copy_of_the_same_name_elsewhere_is_a_place_of_its_own() -> None:
    first, second = (
        [saved(NEAR, at), touched("opening", FAR, at), touched("removing", FAR, at)]
        for at in (STEP, LATER)
    )
    history = clean(*first, *second)
    at = AtMoment(epoch=1, moment="opening", path="share/ckpt/last.pt", rank=0)

    assert [one.path for one in measure_job(history).operations] == [
        "job/ckpt/last.pt",
        *["share/ckpt/last.pt"] * 2,
    ]
    texts, failures = zip(*describe_save(at, history), strict=True)
    assert failures == (False, True, False)
    expect_text("\n".join(texts))


def test_a_path_is_of_a_place_in_a_save_alone() -> None:
    with pytest.raises(ValueError, match="path is for the moments saving, making, opening"):
        AtMoment(epoch=0, moment="reported", path="latest")


def test_each_operation_of_a_save_is_a_place_in_the_order_of_the_longest_save() -> None:
    first = (saved("/e/e0.pt"), touched("linking", "/e/latest"))
    second = (
        saved("/e/e1.pt", LATER),
        touched("opening", "/e/meta.json", LATER),
        touched("removing", "/e/latest", LATER),
        touched("linking", "/e/latest", LATER),
    )
    history = clean(*first, *second)

    assert told(history) == [
        "half of e/e*.pt is written",
        "e/meta.json is empty",
        "e/latest is to be removed",
        "e/latest is to be linked",
    ]
    places = [of.make_site(0).name for of in build_place_groups(measure_job(history), seed=0)]
    assert [name for name in places if "linking" in name] == [
        "epoch 0, linking, rank 0",
        "epoch 1, linking, rank 0",
    ]


def test_of_several_files_with_one_operation_each_place_names_its_own() -> None:
    history = clean(saved("/e/model.pt"), saved("/e/optim.pt"), renamed("/e/a.tmp", "/e/a"))

    groups = build_place_groups(measure_job(history), seed=0)

    names = {of.make_site(0).name for of in groups if of.category == "inside a save"}
    expect_text("\n".join(sorted(names)))
    assert len({of.subgroup for of in groups if of.category == "inside a save"}) == 3


def test_what_shows_no_more_is_no_place() -> None:
    halves = clean(saved("/e/m.pt"), touched("opening", "/e/m.pt"))
    tree = [touched("removing", f"/e/e1/{name}") for name in ("a.pt", "b.pt", "c.pt")]
    drawn = [touched(how, "/tmp/tmpabcdefgh/x") for how in ("opening", "removing")]

    assert told(halves) == ["half of e/m.pt is written"]
    assert told(clean(*tree, touched("removing", "/e/e1"))) == [
        "e*/b.pt is to be removed",
        "e/e* is to be removed",
    ]
    assert told(clean(*drawn)) == []
    before = {**STEP, "step": 0}
    assert told(clean(touched("opening", "/data/cache", before))) == []


def test_what_is_removed_after_the_last_report_has_a_column_of_its_own() -> None:
    profile = measure_job(clean(touched("removing", "/e/old", LATER)))

    [row] = [row for row in count_coverage(profile, (), seed=0) if row.group == "inside a save"]

    assert row.by_column == (0, 1)


def test_a_place_is_one_that_every_clean_run_has() -> None:
    both, one = touched("removing", "/e/old"), touched("opening", "/e/of-this-run")

    assert told(clean(both, one), clean(both)) == ["e/old is to be removed"]


def test_a_save_is_shown_as_the_baseline_made_it_with_the_place_marked() -> None:
    history = clean(saved("/e/m.pt"), touched("removing", "/e/latest"), saved("/e/m.pt", LATER))

    shown = describe_save(AtMoment(epoch=0, moment="removing", rank=0), history)

    assert shown == [("half of e/m.pt is written", False), ("e/latest is to be removed", True)]


def test_an_operation_without_other_files_need_not_name_its_own() -> None:
    assert ProfiledSaveOperation("saving", "e/m.pt", {}).trigger_path is None
    assert ProfiledSaveOperation("saving", "e/m.pt", {}, is_only=False).trigger_path == "e/m.pt"
