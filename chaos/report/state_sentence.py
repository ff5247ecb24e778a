"""One plain sentence for every kind of event that tells of a job's state and its files."""

from typing import TypeAlias, assert_never

from chaos.model import event as ev

Written: TypeAlias = ev.FileSaveBegun | ev.FileSaved | ev.FileWritten | ev.FileRenamed
Loaded: TypeAlias = Written | ev.FileLoaded | ev.Repositioned
Stored: TypeAlias = ev.PartUploaded | ev.StorageSeen | ev.CheckpointDeleted
Looked: TypeAlias = ev.StateSeen | ev.Declared | ev.TrainFnEnded | ev.WatchCost
OfState: TypeAlias = Loaded | Stored | Looked

_MOMENTS = {"entered": "entered", "step": "after", "left": "left"}


def state_sentence(event: OfState) -> str:
    """Describe in one line what an event of the state tells."""
    if isinstance(event, Loaded):
        return _of_a_file(event)
    if isinstance(event, Stored):
        return _of_storage(event)
    return _of_a_look(event)


def _of_a_file(event: Loaded) -> str:
    who = f"rank {event.rank}, attempt {event.attempt}"
    match event:
        case ev.FileSaveBegun():
            text = f"{who}: began to save {event.path}"
        case ev.FileSaved():
            text = f"{who}: saved {event.path}, {event.bytes} bytes"
        case ev.FileWritten():
            text = f"{who}: wrote {event.path}, {event.bytes} bytes"
        case ev.FileRenamed():
            text = f"{who}: renamed {event.path} to {event.to}"
        case ev.FileLoaded():
            text = f"{who}: loaded {event.path}{_origin(event)}"
        case ev.Repositioned():
            place = f"epoch {event.epoch}, step {event.step}"
            text = f"{who}: goes on at {place}, as {event.path} says"
        case _:
            assert_never(event)
    return text


def _origin(event: ev.FileLoaded) -> str:
    if event.error is not None:
        return f", which raised {event.error}"
    if event.saved_epoch is None:
        return ", which was not saved in this run"
    place = f"epoch {event.saved_epoch}, step {event.saved_step}"
    return f", saved by rank {event.saved_rank} at {place} of attempt {event.saved_attempt}"


def _of_storage(event: Stored) -> str:
    match event:
        case ev.PartUploaded():
            files = len(event.files)
            who = f"rank {event.rank}, attempt {event.attempt}"
            text = f"{who}: its part of {event.checkpoint} has {files} files"
        case ev.StorageSeen():
            when = "when the run was over" if event.op is None else f"when op {event.op} had struck"
            names = ", ".join(stored.name for stored in event.checkpoints) or "no checkpoint"
            text = f"storage held {names} {when}"
        case ev.CheckpointDeleted():
            text = f"{event.checkpoint} deleted by Ray's retention"
        case _:
            assert_never(event)
    return text


def _of_a_look(event: Looked) -> str:
    who = f"rank {event.rank}, attempt {event.attempt}"
    match event:
        case ev.StateSeen():
            when = f"{_MOMENTS[event.moment]} epoch {event.epoch}"
            when += f", step {event.step}" if event.moment != "left" and event.step else ""
            text = f"{who}: state {when}: {len(event.components)} parts"
        case ev.Declared():
            text = f"{who}: declared {event.name}"
        case ev.TrainFnEnded():
            how = f"raised {event.error}" if event.error else "returned"
            text = f"{who}: the train function {how} at epoch {event.epoch}, step {event.step}"
        case ev.WatchCost():
            each_us = event.watch_ns / 1000 / max(1, event.steps)
            text = f"{who}: watching epoch {event.epoch} took {each_us:.0f} us per step"
        case _:
            assert_never(event)
    return text
