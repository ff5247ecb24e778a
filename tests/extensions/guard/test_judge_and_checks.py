"""The guard and the checks say the same of one state, and of one series of saves."""

from typing import Any

import pytest

from chaos.check.analysis import RunAnalysis
from chaos.extensions.guard.judge import RankEntry, compare_state, find_origin, find_place_defects
from chaos.model import event as ev
from chaos.model.events.state import find_group
from chaos.model.history import History
from chaos.model.places import AttemptRank, StatePlace
from chaos.model.tiers import Tiers
from chaos.resume.newest_save import SavesAtStart
from chaos.resume.state_snapshots import is_rng
from tests.check.parts import KILLED, fresh
from tests.check.shorthand import plan_of, told_in
from tests.check.tamper import analysis_of, changed, restored_wrong
from tests.extensions.guard.saved_states import FRESH, save, state
from tests.extensions.guard.test_judge import entry

NAMES = ("model", "optimizer.momentum_buffer", "optimizer.lr", "schedule", "ema")
OTHER = ev.Component(name="of another save", digest="odd", size=7.0, count=2)
EMPTY = ev.Component(name="empty", digest="", count=0)


def named(name: str, part: ev.Component) -> ev.Component:
    return ev.Component(name=name, digest=part.digest, size=part.size, count=part.count)


def seen_by_checks(analysis: RunAnalysis) -> dict[str, str]:
    """Return what the checks say of each part of rank 0's resume that did not come back."""
    return {
        row.component: row.standing
        for row in analysis.state_rows
        if row.rank == 0 and row.is_broken and not is_rng(row.component)
    }


def seen_by_guard(analysis: RunAnalysis) -> dict[str, str]:
    """Return what the guard says of the same states: the baseline's is that of the save."""
    assert analysis.reference is not None
    _, resumed = analysis.run.snapshots.entries[AttemptRank(1, 0)]
    _, first = analysis.run.snapshots.entries[AttemptRank(0, 0)]
    place = StatePlace(0, resumed.epoch, resumed.step, "entered")
    saved = analysis.reference.snapshots.latest_snapshots[place].components
    known = save(8, made=saved, entered=saved)
    answer = compare_state(
        RankEntry(0, 1, resumed.components),
        known,
        initial_parts=first.components,
        all_saves=[known],
    )
    words = {"not restored": "not restored", "reset": "reset", "other": "different"}
    texts = {finding.group: finding.text.partition(": ")[2] for finding in answer.findings}
    groups = {name: find_group(name) for name in answer.differing_names}
    return {
        name: next(standing for word, standing in words.items() if texts[group].startswith(word))
        for name, group in groups.items()
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", ["none", "missing", "empty", "first value", "other"])
def test_both_say_the_same_of_a_part(name: str, change: str) -> None:
    values: dict[str, Any] = {
        "missing": None,
        "empty": named(name, EMPTY),
        "first value": fresh(name),
        "other": named(name, OTHER),
    }
    history = KILLED.history()
    if change != "none":
        history = restored_wrong(history, name, values[change])
    analysis = analysis_of(KILLED, history)

    assert seen_by_guard(analysis) == seen_by_checks(analysis)
    assert bool(seen_by_checks(analysis)) is (change != "none")


SAVED_TWICE = "g s w:f_4 s w:f_8 s x g q l:f_4 s ."


def of_each_rank(present: dict[int, tuple[int, ...]]) -> History:
    """Return a run in which each rank has files of its own, and finds some as it begins anew."""
    history = told_in(SAVED_TWICE)
    for kind in (ev.FileSaveBegun, ev.FileSaved, ev.FileLoaded):
        history = changed(history, kind, path=lambda event: f"{event.path}.of_{event.rank}")
    for kind in (ev.FileSaved, ev.FileLoaded):
        history = changed(history, kind, digest=lambda event: f"{event.digest}.{event.rank}")
    digests = {saved.path: saved.digest for _, saved in history.select_events(ev.FileSaved)}
    paths = [f"f_{step}.of_{rank}" for rank, steps in present.items() for step in steps]
    files = tuple(ev.SeenFile(path=path, digest=digests[path], state="there") for path in paths)
    return changed(history, ev.FilesSeen, files=files)


@pytest.mark.parametrize(
    ("present", "newest"),
    [
        ({0: (4, 8), 1: (4, 8)}, 8),  # of both ranks
        ({0: (4, 8), 1: (4,)}, None),  # rank 1 has lost its newest, or was killed before it
    ],
)
def test_both_find_the_same_newest_whole_save(
    present: dict[int, tuple[int, ...]], newest: int | None
) -> None:
    # The run saves after each of two steps, a file for each rank; the restart read the first.
    saves = [save(step, rank=rank, ranks=2) for step in (4, 8) for rank in (0, 1)]
    kept = [each for each in saves if each.step in present[each.rank]]
    read = entry(state(4), ranks=2)
    defects = find_place_defects(
        read, find_origin(read, saves), saves, initial_parts=FRESH, is_whole=lambda s: s in kept
    )
    guard_step = 8 if [defect for defect in defects if defect.kind == "older"] else None

    run = RunAnalysis(plan_of(SAVED_TWICE), of_each_rank(present)).run
    at_start = SavesAtStart(
        run.files, run.attempts[1], tiers=Tiers({}, ()), cwd="", is_resized=False
    )
    newer = at_start.find_newer(0)

    assert guard_step == newest
    assert (newer is not None) is (newest is not None)
