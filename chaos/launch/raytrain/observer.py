"""The observer in Ray Train's controller, which records states, attempts, commits and failures."""

import contextlib
import math
import os
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

from chaos.faults.world import Target
from chaos.launch.raytrain import compat
from chaos.model.event import (
    CheckpointDeleted,
    Committed,
    ControllerState,
    Disturbed,
    FailureDecided,
    ObserverFailed,
    WorkerGroupStarted,
    WorkerPlace,
)
from chaos.model.places import TrainingPlace
from chaos.model.plan import Plan
from chaos.model.trigger import AtState
from chaos.plan.op_state import holds_polls
from chaos.probe.address import ControllerPort, RunAddress
from chaos.probe.process_identity import HERE
from chaos.probe.saves import SaveFolder
from chaos.run.clock import SystemClock
from chaos.run.journal import Journal, read_journal


class Observer:
    """The observer of one controller process; it numbers attempts and epochs."""

    def __init__(
        self, plan: Plan, journal: Journal, controller: ControllerPort, saves: SaveFolder
    ) -> None:
        self._journal = journal
        self._saves = saves
        self._controller = controller
        self._journals = Path()
        self._attempt = -1
        self._upcoming: int | None = None  # the attempt that begins, until it has begun
        self._next_epoch = 0
        self._reports = 0  # of this attempt
        self._is_epoch_open = False
        self._epochs: dict[str, int] = {}
        self._places: dict[str, TrainingPlace] = {}
        self._state = self._folder = ""
        self._holds_polls = any(holds_polls(op) for op in plan.ops)
        self._visits: Counter[str] = Counter()
        self._armed_states: dict[tuple[str, int], list[int]] = {}
        for op in plan.ops:
            if isinstance(op.at, AtState):
                self._armed_states.setdefault((op.at.state, op.at.visit), []).append(op.index)

    @classmethod
    def start(cls, address: RunAddress, folder: str) -> "Observer":
        """Open the journal and find the chaos controller; `folder` is the run's in its storage."""
        directory = address.run_directory()
        # A script may call `fit()` again after a failure, as its own retry. Each call has a
        # controller, and two journals of one name would be one with two beginnings.
        source = _find_free_name(directory.journals, f"controller-{os.getpid()}")
        journal = Journal(directory.journals, source, role="controller", clock=SystemClock())
        saves = SaveFolder(directory.save_records)
        observer = cls(directory.load_plan(), journal, address.connect(), saves)
        observer._journals, observer._folder = directory.journals, folder
        observer._attempt = load_lineage(directory.journals)[0] - 1
        compat.watch_deletions(observer.checkpoint_deleted, folder, HERE.mark_removal)
        return observer

    def lineage(self) -> dict[str, Any]:
        """Return a probe's attempt, and the epoch that each checkpoint ended.

        `places` has the resume place of each checkpoint that is older than its report. Another
        driver may train beside this one, so the chaos controller numbers all attempts.
        """
        if self._upcoming is None:
            attempts, self._epochs, self._places = load_lineage(self._journals)
            self._upcoming = self._controller.next_attempt(attempts)
        places = dict(self._places)
        return {"attempt": self._upcoming, "epochs": dict(self._epochs), "places": places}

    def state_changed(self, previous: Any, current: Any) -> None:
        """Record a new state; Ray calls this at every poll, changed or not."""
        name = compat.state_name(current)
        if name == self._state:
            return
        self._state = name
        self._journal.add(ControllerState(previous=compat.state_name(previous), state=name))
        error = compat.find_failure(current)
        if (chaos_error := compat.find_chaos_error(error)) is not None:
            self._journal.add(Disturbed(why=f"chaos failed in Ray's controller: {chaos_error}"))
        if error is not None and name != "ERRORED":
            self._failure_decided(error, raises=compat.leads_to_error(current))
        self._visits[name] += 1
        for index in self._armed_states.get((name, self._visits[name]), ()):
            self._controller.enter_state(index)

    def group_started(self, worker_group: Any) -> None:
        """Record an attempt, and report the worker of each rank to the chaos controller."""
        workers = compat.list_workers(worker_group)
        # The number may have been given to the probes already, which are made before their group
        # has started. It is asked for once for each attempt: the chaos controller counts on at each
        # question.
        lineage, self._upcoming = self.lineage(), None
        HERE.attempt = self._attempt = attempt = lineage["attempt"]
        self._reports = 0
        checkpoint = compat.find_starting_checkpoint(worker_group)
        self._next_epoch = find_start_place(lineage, checkpoint).epoch
        self._is_epoch_open = attempt > 0
        self._journal.add(
            WorkerGroupStarted(
                attempt=attempt,
                workers=tuple(
                    WorkerPlace(rank=rank, pid=pid, node_id=node_id, node_ip=node_ip)
                    for rank, pid, node_id, node_ip, _ in workers
                ),
            )
        )
        group = {
            rank: (Target(attempt=attempt, rank=rank, pid=pid, node_id=node_id), actor)
            for rank, pid, node_id, _, actor in workers
        }
        self._controller.group_started(group)

    def group_launched(self) -> None:
        self._controller.group_launched(self._attempt)

    def committed(self, checkpoint: Any, metrics: list[dict[str, Any]]) -> None:
        """Record a commit, and report it to the chaos controller, whose ops may wait for it."""
        name = compat.checkpoint_name(checkpoint, self._folder)
        self._adopt_worker_epoch()
        attempt = self._attempt
        # A job that resumed in the middle of an epoch whose report had come trains the rest of it
        # without one. Its next report is of a later epoch: counted as that one's, a right job with
        # `dcp.async_save` was blamed at 25 of 26 places.
        while self._saves.has_mark("passed", attempt, self._next_epoch):
            self._next_epoch += 1
        is_early = self._saves.has_mark("early", attempt, self._reports)
        self._reports += 1
        epoch = self._next_epoch - is_early
        resume_place = self._find_older_place(name)
        event = Committed(
            attempt=attempt,
            epoch=epoch,
            checkpoint=name,
            metrics=tuple(_convert_record(record) for record in metrics),
            early=is_early,
            goes_on=resume_place,
        )
        self._journal.add(event)
        if name is not None:
            self._epochs[name] = epoch
            if resume_place is not None:
                self._places[name] = resume_place
        self._next_epoch = epoch + 1
        self._controller.committed(event)

    def checkpoint_deleted(self, checkpoint: str) -> None:
        try:
            event = CheckpointDeleted(attempt=max(self._attempt, 0), checkpoint=checkpoint)
            self._journal.add(event)
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's run
            self.record_failure("deletion", error)

    def await_poll(self) -> None:
        """Wait here while an op needs a report to stay uncommitted."""
        if self._holds_polls:
            self._controller.may_poll()

    def record_failure(self, operation: str, error: Exception) -> None:
        with contextlib.suppress(Exception):  # nothing more can be done; RunEnded will be missed
            self._journal.add(
                ObserverFailed(where=operation, error=f"{type(error).__name__}: {error}")
            )

    def _find_older_place(self, checkpoint: str | None) -> TrainingPlace | None:
        """Return the resume place of a checkpoint that was saved earlier than its report."""
        resume_place = None if checkpoint is None else self._saves.find_resume_place(checkpoint)
        return (
            resume_place
            if resume_place is not None and resume_place < TrainingPlace(self._next_epoch + 1, 0)
            else None
        )

    def _adopt_worker_epoch(self) -> None:
        """Count epochs from the place at which the workers resumed.

        Before the first report that ends an epoch of an attempt, each of its ranks has written its
        position (see `saves`).
        """
        # Which checkpoint a worker loads is its own choice: what Ray handed over is a guess until
        # the workers' first steps show where they are.
        position = (
            self._saves.find_furthest_position(self._attempt) if self._is_epoch_open else None
        )
        if position is not None:
            self._is_epoch_open = False
            self._next_epoch = position.epoch

    def _failure_decided(self, error: Any, *, raises: bool) -> None:
        event = FailureDecided(
            attempt=max(self._attempt, 0),
            decision="RAISE" if raises else "RETRY",
            charged=compat.charged_budget(error),
            error=compat.failure_name(error),
            errors=compat.failures_by_rank(error),
        )
        self._journal.add(event)
        self._controller.failure_decided(event)


def _find_free_name(journals: Path, name: str) -> str:
    """Return a name without a journal: a script that calls `fit()` again has one controller each.

    Without a cluster they share a process.
    """
    names = (name if n == 0 else f"{name}-{n}" for n in count())
    return next(name for name in names if not (journals / f"{name}.jsonl").exists())


def find_start_place(lineage: dict[str, Any], checkpoint: str | None) -> TrainingPlace:
    """Return the place at which an attempt begins that was handed a checkpoint, or None."""
    default_place = TrainingPlace(lineage["epochs"].get(checkpoint, -1) + 1, 0)
    return TrainingPlace(*lineage["places"].get(checkpoint, default_place))


def load_lineage(journals: Path) -> tuple[int, dict[str, int], dict[str, TrainingPlace]]:
    """Return how many attempts earlier drivers made, and two tables of checkpoints by name.

    They hold the epoch that each ended, and the resume place of those older than their report.
    """
    attempts, epochs, places = 0, dict[str, int](), dict[str, TrainingPlace]()
    for path in journals.glob("controller-*.jsonl"):
        for entry in read_journal(path)[0]:
            match entry.event:
                case WorkerGroupStarted(attempt=attempt):
                    attempts = max(attempts, attempt + 1)
                case Committed(checkpoint=str(checkpoint), epoch=epoch, goes_on=goes_on):
                    epochs[checkpoint] = epoch
                    if goes_on is not None:
                        places[checkpoint] = goes_on
                case _:
                    pass
    return attempts, epochs, places


def _convert_record(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record as JSON can hold it: other values as text, non-finite numbers by name."""
    return {str(key): convert_value(value) for key, value in record.items()}


def convert_value(value: Any) -> Any:
    """Return a metric as JSON can hold it, without changing a single bit of a float.

    numpy's scalars become Python's (float64 is a float that the encoder refuses). A value
    without such a form becomes its text.
    """
    for kind, convert in _CONVERTERS:
        if isinstance(value, kind):
            return convert(value)
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "size", 2) == 1:
        return convert_value(item())
    return repr(value)[:200]


def _convert_float(value: float) -> float | str:
    """Return a float, or its name if it is not finite: JSON has none such."""
    return float(value) if math.isfinite(value) else str(float(value))


_CONVERTERS: tuple[tuple[type | tuple[type, ...], Any], ...] = (
    (type(None), lambda _: None),
    (bool, bool),
    (float, _convert_float),
    (int, int),
    (str, str),
    (dict, _convert_record),
    ((list, tuple), lambda items: [convert_value(item) for item in items]),
)
