"""Digests of files and of folders of files."""

from pathlib import Path

from chaos.run.file_digest import WHOLE_MAX, file_digest, folder_digests

# -- digests of files ------------------------------------------------------------------------------


def test_a_folders_files_are_named_by_their_path_in_it(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(b"1")
    (tmp_path / "y").write_bytes(b"2")

    found = folder_digests(tmp_path)

    assert set(found) == {"a/x", "y"}
    assert len(set(found.values())) == 2


def test_a_large_file_is_known_by_its_size_in_a_folder_and_by_samples_alone(
    tmp_path: Path,
) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(WHOLE_MAX + 1)
    before = file_digest(large)
    with large.open("r+b") as file:
        file.seek(WHOLE_MAX)
        file.write(b"x")

    assert folder_digests(tmp_path) == {"large": f"size:{WHOLE_MAX + 1}"}
    assert file_digest(large) != before
