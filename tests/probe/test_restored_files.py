"""Files that are copied as a checkpoint is saved, and put back before a run resumes from it."""

import threading
from pathlib import Path

from chaos.model.places import TrainingPlace
from chaos.probe.state.restored_files import FileCopies, load_restored_files, write_order

HERE = TrainingPlace(2, 0)


def kept(tmp_path: Path, *files: Path) -> Path:
    """Keep files as they are when something is saved, and not as they are at the next step."""
    folder = write_order(tmp_path / "clean", {"files": [*map(str, files)], "keep": [HERE]})
    copies = FileCopies.restore_files(folder, attempt=0, rank=0)
    assert copies is not None
    copies.copy_files()
    for file in files:
        file.write_text("later", encoding="utf-8")
    copies.keep_copies(HERE)
    return folder


def give(tmp_path: Path, kept: Path, *files: Path, rank: int = 0) -> Path:
    order = {"files": [*map(str, files)], "give": {1: HERE}, "from": str(kept)}
    folder = write_order(tmp_path / "given", order)
    assert FileCopies.restore_files(folder, attempt=1, rank=rank) is None
    return folder


def test_a_file_becomes_what_it_was_at_the_save(tmp_path: Path) -> None:
    table = tmp_path / "table.db"
    table.write_text("as saved", encoding="utf-8")
    source = kept(tmp_path, table)
    (tmp_path / "table.db-wal").write_text("of later changes", encoding="utf-8")

    folder = give(tmp_path, source, table)

    assert table.read_text(encoding="utf-8") == "as saved"
    assert not (tmp_path / "table.db-wal").exists()
    assert load_restored_files(folder) == {1: [str(table)]}


def test_a_file_that_was_not_there_at_the_save_is_removed(tmp_path: Path) -> None:
    table = tmp_path / "table.db"
    source = kept(tmp_path, table)

    give(tmp_path, source, table)

    assert not table.exists()


def test_what_a_save_of_another_place_held_is_not_kept(tmp_path: Path) -> None:
    table = tmp_path / "table.db"
    folder = write_order(tmp_path / "clean", {"files": [str(table)], "keep": [HERE]})
    copies = FileCopies.restore_files(folder, attempt=0, rank=0)
    assert copies is not None
    table.write_text("before", encoding="utf-8")
    copies.copy_files()
    copies.keep_copies(TrainingPlace(1, 3))
    table.write_text("here", encoding="utf-8")
    copies.keep_copies(HERE)  # nothing was seen to be saved: it is as it is at the step

    give(tmp_path, folder, table)

    assert table.read_text(encoding="utf-8") == "here"


def test_the_ranks_of_an_attempt_wait_until_the_files_are_put_back(tmp_path: Path) -> None:
    table = tmp_path / "table.db"
    table.write_text("as saved", encoding="utf-8")
    source = kept(tmp_path, table)
    order = {"files": [str(table)], "give": {1: HERE}, "from": str(source)}
    folder = write_order(tmp_path / "given", order)
    ranks = [
        threading.Thread(target=lambda n=rank: FileCopies.restore_files(folder, attempt=1, rank=n))
        for rank in range(3)
    ]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()

    assert table.read_text(encoding="utf-8") == "as saved"


def test_without_an_order_nothing_is_copied(tmp_path: Path) -> None:
    assert FileCopies.restore_files(tmp_path, attempt=1, rank=0) is None
