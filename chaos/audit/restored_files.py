"""Files that are put back as they were at the checkpoint, before a run resumes from it."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from chaos.model.places import TrainingPlace
from chaos.probe.state.restored_files import load_restored_files, write_order
from chaos.probe.state.restored_values import FOLDER
from chaos.run.directory import RunDirectory
from chaos.run.display_path import format_path
from chaos.wording import join_names


def order_file_copies(
    directory: RunDirectory,
    files: Sequence[str],
    *,
    keep: Sequence[TrainingPlace] = (),
    give: Mapping[int, TrainingPlace] | None = None,
    source: Path | None = None,
) -> Path:
    """Order a run to copy files at places, or to put them back in attempts; return the folder."""
    order = {"files": files, "keep": keep, "give": give or {}, "from": str(source or "")}
    return write_order(directory.path / FOLDER, order)


def were_files_restored(folder: Path, files: Collection[str], attempts: Collection[int]) -> bool:
    """Return whether each of the attempts was given all files."""
    files_by_attempt = load_restored_files(folder)
    return all(set(files) <= set(files_by_attempt.get(attempt, ())) for attempt in attempts)


def describe_restored_files(files: Sequence[str], *, is_exact: bool) -> str:
    """Return in words that files were shown to be the cause."""
    file_names = join_names([f"`{format_path(Path(file))}`" for file in files])
    accuracy = "to the last bit" if is_exact else "within the tolerance"
    verb = "it was" if len(files) == 1 else "they were"
    return (
        f"With {file_names} put back as in a clean run at the place of the resume, training is the "
        f"baseline's {accuracy}: {verb} ahead of what the job resumed from."
    )
