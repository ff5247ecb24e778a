"""One plain sentence for what was seen of a job's state, files and storage."""

from typing import TypeAlias, assert_never

from chaos.model import event as ev

OfState: TypeAlias = ev.StateSeen | ev.Declared | ev.WatchCost | ev.TrainFnEnded | ev.Repositioned
OfFiles: TypeAlias = ev.FileSaveBegun | ev.FileSaved | ev.FileLoaded
OfStorage: TypeAlias = ev.PartUploaded | ev.StorageSeen | ev.CheckpointDeleted


def sentence_of_state(event: OfState) -> str:
    """Say what is known of a rank's state."""
    who = f"rank {event.rank}, attempt {event.attempt}"
    match event:
        case ev.StateSeen():
            where = f"epoch {event.epoch}, step {event.step}"
            text = (
                f"{who}: {len(event.components)} parts of the state seen ({event.moment}, {where})"
            )
        case ev.Declared():
            text = f"{who}: the job declares {event.name}"
        case ev.WatchCost():
            per_step = event.watch_ns / max(1, event.steps) / 1e3
            text = f"{who}: watching epoch {event.epoch} cost {per_step:.0f} µs per step"
        case ev.TrainFnEnded():
            how = f"raised {event.error}" if event.error else "returned"
            text = f"{who}: the train function {how}"
        case ev.Repositioned():
            where = f"epoch {event.epoch}, step {event.step}"
            text = f"{who}: goes on from {where}, which it read in {event.path}"
        case _:
            assert_never(event)
    return text


def sentence_of_files(event: OfFiles) -> str:
    """Say what a rank did with a file."""
    who = f"rank {event.rank}, attempt {event.attempt}"
    match event:
        case ev.FileSaveBegun():
            text = f"{who}: began to save {event.path}"
        case ev.FileSaved():
            text = f"{who}: saved {event.path} ({event.bytes} bytes)"
        case ev.FileLoaded():
            how = f"could not load ({event.error})" if event.error else "loaded"
            text = f"{who}: {how} {event.path}{_origin(event)}"
        case _:
            assert_never(event)
    return text


def sentence_of_storage(event: OfStorage) -> str:
    """Say what was on its way to storage, in it, or taken from it."""
    match event:
        case ev.PartUploaded():
            who = f"rank {event.rank}, attempt {event.attempt}"
            text = f"{who}: uploads {len(event.files)} files to {event.checkpoint}"
        case ev.StorageSeen():
            when = "when the run was over" if event.op is None else f"after op {event.op}"
            held = ", ".join(checkpoint.name for checkpoint in event.checkpoints) or "nothing"
            text = f"storage held, {when}: {held}"
        case ev.CheckpointDeleted():
            text = f"Ray's controller deleted {event.checkpoint}"
        case _:
            assert_never(event)
    return text


def _origin(event: ev.FileLoaded) -> str:
    if event.saved_epoch is None:
        return ""
    return (
        f", saved by rank {event.saved_rank} at epoch {event.saved_epoch}, step {event.saved_step}"
    )
