"""Files that are put back as they were at the checkpoint, before a run resumes from it."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from chaos.model.places import Place
from chaos.probe.state.file_copies import read_put_back, write_order
from chaos.probe.state.give_back import FOLDER
from chaos.run.directory import RunDirectory
from chaos.run.shown import shown
from chaos.words import listed


def order_files(
    directory: RunDirectory,
    files: Sequence[str],
    *,
    keep: Sequence[Place] = (),
    give: Mapping[int, Place] | None = None,
    source: Path | None = None,
) -> Path:
    """Order a run to copy files at places, or to put them back in attempts; return the folder."""
    order = {"files": files, "keep": keep, "give": give or {}, "from": str(source or "")}
    return write_order(directory.path / FOLDER, order)


def were_put_back(folder: Path, files: Collection[str], attempts: Collection[int]) -> bool:
    """Return whether each of the attempts was given all files."""
    given = read_put_back(folder)
    return all(set(files) <= set(given.get(attempt, ())) for attempt in attempts)


def describe_files_put_back(files: Sequence[str], *, is_exact: bool) -> str:
    """Return in words that files were shown to be the cause."""
    named = listed([f"`{shown(Path(file))}`" for file in files])
    how = "to the last bit" if is_exact else "within the tolerance"
    was = "it was" if len(files) == 1 else "they were"
    return (
        f"With {named} put back as in a clean run at the place of the resume, training is the "
        f"baseline's {how}: {was} ahead of what the job resumed from."
    )
