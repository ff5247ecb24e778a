"""What a host apart is given, and where it writes."""

from pathlib import Path

from chaos.extensions.cluster.existing.file_pieces import HostCopies, collect_pieces
from chaos.run.directory import RunDirectory
from chaos.run.remote_files import (
    build_remote_path,
    has_token_file,
    pack_files,
    remove_token_file,
    unpack_files,
    write_token_file,
)


def run_at(path: Path) -> RunDirectory:
    """Make a run's folders."""
    return unpack_files({"plan.json": b"{}"}, path)


def test_a_folder_is_seen_by_the_mark_of_this_run_alone(tmp_path: Path) -> None:
    assert not has_token_file(tmp_path, "abc")
    write_token_file(tmp_path / "run", "abc")

    assert has_token_file(tmp_path / "run", "abc")
    assert not has_token_file(tmp_path / "run", "abd")
    remove_token_file(tmp_path / "run")
    assert not has_token_file(tmp_path / "run", "abc")


def test_a_process_apart_gets_the_plan_and_word_of_saves_and_keeps_its_own(tmp_path: Path) -> None:
    here = run_at(tmp_path / "here")
    (here.save_records / "d.json").write_bytes(b"old")
    (tmp_path / "there/saves").mkdir(parents=True)
    (tmp_path / "there/saves/d.json").write_bytes(b"new")

    there = unpack_files(pack_files(here), tmp_path / "there")

    assert (there.path / "plan.json").read_bytes() == b"{}"
    assert (there.save_records / "d.json").read_bytes() == b"new"
    assert there.journals.is_dir()


def test_neither_runs_nor_nodes_share_a_folder() -> None:
    folders = {build_remote_path(token, node) for token in "ab" for node in ("n1", "n2")}

    assert len(folders) == 4


def test_marks_without_content_travel_both_ways_and_drafts_do_not(tmp_path: Path) -> None:
    """A report before any training is known by its mark alone, to an observer on another host."""
    there, here = run_at(tmp_path / "there"), run_at(tmp_path / "here")
    (there.save_records / "early-0-0").touch()
    (there.save_records / ".early-0-1.00ff").touch()
    (here.save_records / "size-512").touch()
    copies = HostCopies(here, "0a", clock_offset_ns=0)

    copies.add_pieces(collect_pieces(there.path, copies.positions))
    unpack_files(pack_files(here), tmp_path / "third")

    assert sorted(path.name for path in here.save_records.iterdir()) == ["early-0-0", "size-512"]
    assert sorted(path.name for path in (tmp_path / "third/saves").iterdir()) == [
        "early-0-0",
        "size-512",
    ]
    assert collect_pieces(there.path, copies.positions) == []
