"""The trials of an experiment without faults, as their own journals record them."""

import hashlib

import msgspec

from chaos.check.analysis import RunTables
from chaos.model.event import BystanderSeen, FailureDecided
from chaos.model.history import History
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal, read_history


def record_bystanders(journal: Journal, directory: RunDirectory) -> None:
    """Record the outcome of each other trial of a run's experiment, by number."""
    told: dict[int, list[History]] = {}
    for folder in sorted(directory.trials.glob("[0-9]*"), key=lambda folder: _part(folder.name)):
        history = read_history(RunDirectory(folder).journals)
        told.setdefault(_part(folder.name)[0], []).append(history)
    for trial, histories in told.items():
        journal.add(bystander_of(trial, *histories))


def bystander_of(trial: int, history: History, *again: History) -> BystanderSeen:
    """Return the outcome of a trial by its own history; `again`: Tune began the trial again."""
    if again:
        before, after = bystander_of(trial, history), bystander_of(trial, *again)
        return msgspec.structs.replace(
            after,
            began_ns=before.began_ns,
            attempts=before.attempts + after.attempts,
            failures=before.failures + after.failures,
        )
    course = RunTables(history)
    times = [entry.time_ns for entry in history] or [0]
    raised = course.ending.raised
    return BystanderSeen(
        trial=trial,
        began_ns=times[0],
        ended_ns=times[-1],
        attempts=len(course.attempts),
        failures=history.count(FailureDecided),
        steps=course.lineage.steps_done,
        losses={
            f"rank {rank}, epoch {epoch}": _digest([(step.step, step.losses) for step in steps])
            for (rank, epoch), steps in sorted(course.lineage.steps.items())
        },
        finished=course.ending.returned is not None,
        error=None if raised is None else raised[1].error,
    )


def _part(name: str) -> tuple[int, int]:
    """Return trial and turn of a folder's name: `3` is (3, 1), `3-2` is (3, 2)."""
    trial, _, turn = name.partition("-")
    return int(trial), int(turn or 1)


def _digest(losses: object) -> str:
    return hashlib.blake2b(repr(losses).encode(), digest_size=8).hexdigest()
