"""The content that goes with a machine's power: what is new, and was not synced."""

import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from chaos.launch.node_disk import NodeDisk
from chaos.launch.unsynced import find_epoch_ago_ns, find_files_at_risk, find_rewritten
from chaos.model.event import JournalOpened, StepDone
from chaos.model.history import History, JournalEntry
from chaos.model.tiers import Tiers
from chaos.probe.address import RunAddress
from chaos.probe.write_ledger import (
    LedgerLine,
    WriteLedger,
    build_file_state,
    mark_training_begin,
    start_ledger,
)

S = 10**9


def synced(*state: int) -> LedgerLine:
    return LedgerLine("/any", "synced", 1, is_output=True, state=state)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.booleans()), max_size=12),
    st.integers(0, 10),
    st.integers(0, 10),
)
def test_only_the_newest_of_a_series_is_at_risk_if_it_is_new_and_was_not_synced(
    files: list[tuple[int, int, bool]], since_ns: int, all_ns: int
) -> None:
    states = {
        f"/ckpt/series-{'abcd'[series]}_{number}.pt": (number, changed_ns, 8)
        for number, (series, changed_ns, _) in enumerate(files)
    }
    kept = [synced(*state) for state, (*_, is_kept) in zip(states.values(), files, strict=True)
            if is_kept]  # fmt: skip

    found = find_files_at_risk(states, [*kept, synced(all_ns)], since_ns=since_ns)

    series = [path.rpartition("_")[0] for path in found]
    assert len(set(series)) == len(series)
    for path in found:
        number, changed_ns, _ = states[path]
        alike = [states[p][1] for p in states if p.rpartition("_")[0] == path.rpartition("_")[0]]
        assert changed_ns == max(alike) > max(since_ns, all_ns)
        assert not files[number][2]


def step(
    time_ns: int, epoch: int, number: int, *, rank: int = 0, source: str = "w0"
) -> JournalEntry:
    what = StepDone(attempt=0, rank=rank, epoch=epoch, step=number, losses=None)
    return JournalEntry(time_ns=time_ns, source=source, seq=0, event=what)


@pytest.mark.parametrize(
    ("steps", "ago"),
    [
        ([], None),
        ([(0, 1)], None),
        ([(0, 1), (0, 2), (0, 3), (1, 1)], (0, 2)),  # in it: the save that ended epoch 0
        ([(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)], (1, 1)),  # that of epoch 1 alone
        ([(0, 1), (1, 1)], (0, 1)),  # epochs of one step
        ([(1, 2), (1, 3), (2, 1)], (1, 2)),
    ],
)
def test_an_epoch_ago_lies_between_the_last_two_saves(
    steps: list[tuple[int, int]], ago: tuple[int, int] | None
) -> None:
    opened = JournalOpened(role="worker", host="here", pid=7, wall_ns=900 * S)
    times = {place: (number + 11) * S for number, place in enumerate(steps)}
    entries = [JournalEntry(time_ns=10 * S, source="w0", seq=0, event=opened)]
    entries += [step(time_ns, *place) for place, time_ns in times.items()]

    found = find_epoch_ago_ns(History(entries))

    assert found == (0 if ago is None else 890 * S + times[ago])


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[NodeDisk]:
    """Return a node on whose own disk none of its files lie."""
    (tmp_path / "run/nodes/node-0").mkdir(parents=True)
    (tmp_path / "run/journals").mkdir()
    run = RunAddress(tmp_path / "run", "0123abcd", "unix:x")
    disk = NodeDisk(run, "node-0", tiers=Tiers({}, (str(tmp_path),)))
    start_ledger(WriteLedger(tmp_path / "run/nodes/node-0/written.jsonl"))
    mark_training_begin()
    yield disk
    start_ledger(None)


def test_a_file_is_at_risk_until_it_is_synced_under_whatever_name(
    disk: NodeDisk, tmp_path: Path
) -> None:
    draft, whole = tmp_path / "model.part", tmp_path / "model.pt"
    torch.save({}, draft)
    assert disk.find_unsynced() == [str(draft)]

    with draft.open("rb") as file:
        os.fsync(file)
    os.replace(draft, whole)  # noqa: PTH105 - as jobs do
    assert disk.find_unsynced() == []

    whole.write_bytes(b"anew, and longer than before" * 100)
    assert disk.find_unsynced() == [str(whole)]
    os.sync()
    assert disk.find_unsynced() == []


def test_the_loss_of_power_empties_what_was_not_synced_and_nothing_else(
    disk: NodeDisk, tmp_path: Path
) -> None:
    for name in ("rows.csv", "model_1.pt", "model_2.pt"):
        (tmp_path / name).write_text("content")
        time.sleep(0.02)  # a file's times have the resolution of the kernel's clock
    with (tmp_path / "rows.csv").open("a") as log:
        log.write("more")
    with sqlite3.connect(tmp_path / "kept.db") as database:
        database.execute("create table kept (name)")
    os.close(os.open(tmp_path / "plain.bin", os.O_WRONLY | os.O_CREAT | os.O_SYNC))

    assert disk.simulate_loss(unsynced=True) == [str(tmp_path / "model_2.pt")]

    sizes = {path.name: path.stat().st_size > 0 for path in tmp_path.glob("*.*")}
    expected = {"rows.csv": True, "model_1.pt": True, "model_2.pt": False, "kept.db": True}
    assert sizes == {**expected, "plain.bin": False}


def test_what_was_written_before_training_is_data(disk: NodeDisk) -> None:
    line = LedgerLine("/data/rows.npy", "created", 1, is_output=False)
    assert find_rewritten([line, *disk.list_writes()]) == set()


def test_a_state_is_that_of_the_content(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("a")
    before = build_file_state(path.stat())
    path = path.rename(tmp_path / "b")
    assert build_file_state(path.stat()) == before
