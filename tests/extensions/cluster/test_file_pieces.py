"""What hosts apart write comes whole, once, and in the time of this host."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.extensions.cluster.existing.file_pieces import FilePiece, HostCopies, collect_pieces
from chaos.model.event import StepDone
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal, read_history
from chaos.run.remote_files import (
    unpack_files,
)

STEP = StepDone(attempt=0, rank=1, epoch=0, step=1, losses=None, inputs=None)


def run_at(path: Path) -> RunDirectory:
    """Make a run's folders."""
    return unpack_files({"plan.json": b"{}"}, path)


def journal_in(run: RunDirectory, *, steps: int) -> Journal:
    journal = Journal(run.journals, "worker-7", role="worker", clock=SystemClock())
    for _ in range(steps):
        journal.add(STEP)
    return journal


def test_a_journal_comes_whole_under_its_hosts_name(tmp_path: Path) -> None:
    there, here = run_at(tmp_path / "there"), run_at(tmp_path / "here")
    journal_in(there, steps=3)
    copies = HostCopies(here, "0a1b2c3d", clock_offset_ns=0)

    copies.add_pieces(collect_pieces(there.path, copies.positions))

    assert [e.event for e in read_history(here.journals)][1:] == [STEP] * 3
    assert copies.journal_names == {"worker-7-0a1b2c3d"}
    assert {e.source for e in read_history(here.journals)} == copies.journal_names


def test_what_comes_later_is_added(tmp_path: Path) -> None:
    there, here = run_at(tmp_path / "there"), run_at(tmp_path / "here")
    journal = journal_in(there, steps=1)
    copies = HostCopies(here, "0a", clock_offset_ns=0)
    copies.add_pieces(collect_pieces(there.path, copies.positions))
    journal.add(STEP)

    copies.add_pieces(collect_pieces(there.path, copies.positions))

    assert len(read_history(here.journals)) == 3
    assert collect_pieces(there.path, copies.positions) == []


def test_an_answer_that_comes_twice_is_taken_once(tmp_path: Path) -> None:
    there, here = run_at(tmp_path / "there"), run_at(tmp_path / "here")
    journal_in(there, steps=2)
    copies = HostCopies(here, "0a", clock_offset_ns=0)
    answer = collect_pieces(there.path, copies.positions)

    copies.add_pieces(answer)
    copies.add_pieces(answer)

    assert len(read_history(here.journals)) == 3


def test_a_line_that_is_half_written_waits_for_its_end(tmp_path: Path) -> None:
    there, here = run_at(tmp_path / "there"), run_at(tmp_path / "here")
    journal = journal_in(there, steps=1)
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole[:-5])
    copies = HostCopies(here, "0a", clock_offset_ns=0)

    copies.add_pieces(collect_pieces(there.path, copies.positions))
    assert len(read_history(here.journals)) == 1

    journal.path.write_bytes(whole)
    copies.add_pieces(collect_pieces(there.path, copies.positions))
    assert len(read_history(here.journals)) == 2


@given(offset_ns=st.integers(-(10**18), 10**18))
def test_times_are_told_by_the_clock_of_this_host(
    tmp_path_factory: pytest.TempPathFactory, offset_ns: int
) -> None:
    folder = tmp_path_factory.mktemp("hosts")
    there, here = run_at(folder / "there"), run_at(folder / "here")
    journal_in(there, steps=1)
    copies = HostCopies(here, "0a", clock_offset_ns=offset_ns)

    copies.add_pieces(collect_pieces(there.path, copies.positions))

    told = [e.time_ns for e in read_history(here.journals)]
    assert told == [e.time_ns + offset_ns for e in read_history(there.journals)]


def test_saves_come_whole_and_again_when_they_changed(tmp_path: Path) -> None:
    there, here = run_at(tmp_path / "there"), run_at(tmp_path / "here")
    copies = HostCopies(here, "0a", clock_offset_ns=0)
    (there.save_records / "d.json").write_bytes(b"1")
    copies.add_pieces(collect_pieces(there.path, copies.positions))
    assert (here.save_records / "d.json").read_bytes() == b"1"

    copies.add_pieces([FilePiece("saves/d.json", copies.positions["saves/d.json"], 99, b"2")])

    assert (here.save_records / "d.json").read_bytes() == b"2"


def test_stacks_come_beside_the_other_logs(tmp_path: Path) -> None:
    there, here = run_at(tmp_path / "there"), run_at(tmp_path / "here")
    (there.logs / "stacks-rank-1-7.txt").write_text("frame")
    copies = HostCopies(here, "0a", clock_offset_ns=0)

    copies.add_pieces(collect_pieces(there.path, copies.positions))

    assert (here.logs / "stacks-rank-1-7-0a.txt").read_text() == "frame"


def test_a_host_without_a_folder_of_the_run_has_no_news(tmp_path: Path) -> None:
    assert collect_pieces(tmp_path / "nothing", {}) == []
