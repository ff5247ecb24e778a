"""The place where a model was lost between training, its file and the resume, by three digests.

The digest of the model that was due, that of the file which was read, and that of the model with
which the attempt entered: where the file holds the one, the load is wrong, and where it holds the
other, the save is.
"""

from collections.abc import Iterator

from chaos.check.analysis import RunAnalysis
from chaos.check.state_at_resume import Row
from chaos.check.state_snapshots import parts_of
from chaos.model.event import Component, FileSaved, SavedPart

_IN_FEWER_BITS = (
    "the file holds it rounded: saved as {dtype}, trained as float32; save the parameters as they "
    "are trained"
)
_OF_ANOTHER_MOMENT = "the file holds it so: the model of epoch {epoch}, step {step} was saved"
_OTHER_WEIGHTS = (
    "the file holds it so: what was saved is not the model that was trained, but other weights, "
    "such as those of an average, of a copy, or of an optimizer in its `eval()` mode"
)


def is_in_file(analysis: RunAnalysis, row: Row, model: Component | None) -> bool:
    """Return whether a file that was read holds a model: the one due, or the one that came back."""
    digest = None if model is None else model.digest
    return bool(digest) and any(digest in _digests(part) for part in _read(analysis, row))


def saved_wrong(analysis: RunAnalysis, row: Row) -> str | None:
    """Return in words how a model was saved, where the file that was read holds what came back."""
    if row.ours is None or not row.ours.digest:
        return None
    for part in _read(analysis, row):
        if row.ours.digest not in _digests(part):
            continue
        if part.tensors != row.ours.digest:
            return _IN_FEWER_BITS.format(dtype=part.dtype)
        return _of_another_moment(analysis, row) or _OTHER_WEIGHTS
    return None


def _of_another_moment(analysis: RunAnalysis, row: Row) -> str | None:
    assert row.ours is not None
    for _, seen in analysis.run.snapshots.all:
        before = parts_of(seen).get(row.component) if seen.attempt < row.attempt else None
        if before is not None and before.digest == row.ours.digest:
            return _OF_ANOTHER_MOMENT.format(epoch=seen.epoch, step=seen.step)
    return None


def _read(analysis: RunAnalysis, row: Row) -> Iterator[SavedPart]:
    """Yield the entries of the files of this run that a rank read before it trained."""
    files = analysis.run.files
    for _, load in files.loads_of(row.attempt, row.rank):
        save = files.origin(load)
        what = None if save is None else analysis.history[save.number].what
        if isinstance(what, FileSaved):
            yield from (part for part in what.parts if part.tensors)


def _digests(part: SavedPart) -> tuple[str, ...]:
    return tuple(filter(None, (part.tensors, part.widened)))
