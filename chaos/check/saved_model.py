"""The place where a model was lost between training, its file and the resume, by three digests.

The digest of the model that was due, that of the file which was read, and that of the model with
which the attempt entered: where the file holds the one, the load is wrong, and where it holds the
other, the save is.
"""

from collections.abc import Iterator

from chaos.check.analysis import RunAnalysis
from chaos.check.kinds.state import WrongSave
from chaos.model.event import Component, FileSaved, SavedPart
from chaos.model.places import AttemptRank, TrainingPlace
from chaos.resume.state_at_resume import ResumeRow
from chaos.resume.state_snapshots import index_parts


def is_model_in_file(analysis: RunAnalysis, row: ResumeRow, model: Component | None) -> bool:
    """Return whether a file that was read holds a model: the one due, or the one that came back."""
    digest = None if model is None else model.digest
    return bool(digest) and any(
        digest in _list_digests(part) for part in _find_loaded_parts(analysis, row)
    )


def are_buffers_in_file(analysis: RunAnalysis, row: ResumeRow) -> bool:
    """Return whether a file that was read holds as many tensors as a model and its buffers have.

    A right `state_dict()` was said to lack buffers that the first forward call had moved, since the
    flag that keeps them still was lost.
    """
    entry = analysis.run.snapshots.entries.get(AttemptRank(row.attempt, row.rank))
    model = None
    if entry is not None:
        model = index_parts(entry[1]).get(row.component.replace(".buffers", "", 1))
    if model is None or row.actual is None:
        return False
    count = model.count + row.actual.count
    return any(part.count == count for part in _find_loaded_parts(analysis, row))


def is_optimizer_in_file(analysis: RunAnalysis, row: ResumeRow) -> bool:
    """Return whether the files that were read hold the state of each optimizer of this size.

    It has the form of `Optimizer.state_dict()`: `state` beside `param_groups`. Of two optimizers
    with as many parameters, one state may be the other one's.
    """
    count = 0 if row.expected is None else row.expected.count
    saves = {save.path: save for save in _iterate_loaded_saves(analysis, row)}.values()
    state_count = sum(_list_optimizer_counts(save).count(count) for save in saves)
    optimizers = {
        candidate.component.rpartition(".")[0]
        for candidate in analysis.state_rows
        if candidate.group == "optimizer"
        and (candidate.attempt, candidate.rank) == (row.attempt, row.rank)
        and candidate.expected is not None
        and candidate.expected.count == count
    }
    return bool(count) and state_count >= max(1, len(optimizers))


def _list_optimizer_counts(save: FileSaved) -> list[int]:
    """Return of how many parameters each optimizer's state in a file is."""
    parts = {part.name: part for part in save.parts}
    groups = (name for name in parts if f".{name}".endswith(".param_groups"))
    states = (parts.get(f"{name.removesuffix('param_groups')}state") for name in groups)
    return [state.count for state in states if state is not None]


def find_wrong_save(analysis: RunAnalysis, row: ResumeRow) -> WrongSave | None:
    """Return what was saved as the model, where the file that was read holds what came back."""
    if row.actual is None or not row.actual.digest:
        return None
    for part in _find_loaded_parts(analysis, row):
        if row.actual.digest not in _list_digests(part):
            continue
        if part.tensors != row.actual.digest:
            return WrongSave("rounded", dtype=part.dtype)
        return _find_earlier_model(analysis, row) or WrongSave("other weights")
    return None


def _find_earlier_model(analysis: RunAnalysis, row: ResumeRow) -> WrongSave | None:
    assert row.actual is not None
    for _, snapshot in analysis.run.snapshots.numbered_snapshots:
        earlier_part = (
            index_parts(snapshot).get(row.component) if snapshot.attempt < row.attempt else None
        )
        if earlier_part is not None and earlier_part.digest == row.actual.digest:
            return WrongSave(
                "of another moment", saved_at=TrainingPlace(snapshot.epoch, snapshot.step)
            )
    return None


def _find_loaded_parts(analysis: RunAnalysis, row: ResumeRow) -> Iterator[SavedPart]:
    """Yield the entries with tensors by name in the files that a rank read before it trained."""
    saves = _iterate_loaded_saves(analysis, row)
    return (part for save in saves for part in save.parts if part.tensors)


def _iterate_loaded_saves(analysis: RunAnalysis, row: ResumeRow) -> Iterator[FileSaved]:
    """Yield the saves of the files of this run that a rank read before it trained."""
    files = analysis.run.files
    for _, load in files.select_loads(row.attempt, row.rank):
        save = files.find_origin(load)
        event = None if save is None else analysis.history[save.event_number].event
        if isinstance(event, FileSaved):
            yield event


def _list_digests(part: SavedPart) -> tuple[str, ...]:
    return tuple(filter(None, (part.tensors, part.widened)))
