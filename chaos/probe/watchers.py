"""The watchers of a probe beside steps, losses and reports, as the plan asks for them."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaos import declared
from chaos.check.resume_place import Seen, place_of
from chaos.model.event import (
    AnyEvent,
    Declared,
    EpochEnded,
    PartUploaded,
    ProcessSeen,
    StateSeen,
    TrainFnEnded,
    WatchCost,
)
from chaos.model.places import Place
from chaos.model.watch import Watch
from chaos.probe.cursor import Recorder
from chaos.probe.job_files import JobFiles, Stops
from chaos.probe.job_objects import JobObjects
from chaos.probe.saves import Saves
from chaos.probe.state.file_copies import FileCopies
from chaos.probe.state.files import sharded_part, watch_files, watch_libraries
from chaos.probe.state.give_back import FOLDER, Orders
from chaos.probe.state.gradients import mark_of, versions_of, waiting
from chaos.probe.state.inputs import Call, Given, InputWindow
from chaos.probe.state.roots import Owner, Roots
from chaos.probe.state.watch import StateWatch, kind_of
from chaos.probe.storage_faults import StorageInjector
from chaos.run.file_digest import folder_digests
from chaos.run.process_size import process_size
from chaos.words import shortened


class Watchers:
    """State, inputs and files of one rank. Nothing is watched before `install`.

    Without reports, an epoch ends with a save of the job's own; with `epoch_steps`, given or
    declared by the job, after so many steps.
    """

    def __init__(
        self,
        watch: Watch,
        record: Recorder,
        *,
        has_reports: bool = True,
        epoch_steps: int | None = None,
    ) -> None:
        self.cost = record.cost
        self._watch = watch
        self._record = record
        self._cursor, self._write, self._failed = record.cursor, record.write, record.failed
        self._state: StateWatch | None = None
        self._inputs: InputWindow | None = None
        self._roots: Roots | None = None
        self._files: JobFiles | None = None
        self._saves: Saves | None = None
        self._copies: FileCopies | None = None
        self.validates: Callable[[], None] | None = None
        #: the faults of the objects that the job puts into a store
        self.of_objects: StorageInjector | None = None
        self.losses: Callable[[], tuple[float | str, ...]] = tuple
        self._has_reports = has_reports
        self._epoch_steps = epoch_steps

    def install(
        self,
        saves: Path,
        *,
        ranks: int,
        was_handed_none: bool,
        reported: int | None = None,
        stops: Stops | None,
        strike_in_load: Callable[[], None] | None = None,
    ) -> None:
        """Watch torch, if it is there, as one of so many ranks.

        `stops` returns what to call at a moment of a save, None where no op waits in one;
        `strike_in_load` is called inside the first load of a file that an earlier attempt saved.
        """
        if self._watch.state:
            declared.on_declare(self._declared)
        try:
            import torch  # noqa: F401
        except ImportError:  # a boosting job has no state that is known here
            return
        self._install_modules()
        if self._state is not None and (orders := saves.parent / FOLDER).is_dir():
            who = self._cursor
            self._copies = FileCopies.of(orders, attempt=who.attempt, rank=who.rank)
            self._state.follow(Orders(orders, attempt=who.attempt, rank=who.rank))
        if self._watch.files or strike_in_load is not None or stops is not None:
            may_move = was_handed_none and self._cursor.attempt > 0
            files = self._install_files(Saves(saves), ranks=ranks, may_move=may_move)
            files.reported = reported
            files.loads.strike = strike_in_load
            files.stops = stops or files.stops
            if self.of_objects is not None:
                JobObjects(files, self._now, self.of_objects, self._failed).watch()

    @property
    def given(self) -> Callable[[], Given] | None:
        """The function that closes the window of inputs, None if they are not watched."""
        return None if self._inputs is None else self._close_inputs

    def drop_inputs(self) -> None:
        """Drop the inputs that were backpropagated since the last step."""
        if self._inputs is not None:
            self._inputs.drop()

    @property
    def is_to_train(self) -> bool:
        """Whether the job was seen to make an optimizer."""
        return self._state is not None and bool(self._state.found.all("optimizer"))

    # -- called by the probe ---------------------------------------------------------------------

    def install_libraries(self) -> None:
        """Follow sharded saves and safetensors, if the job has imported what makes them."""
        if self._files is not None:
            watch_libraries(self._files)

    def has_read(self, paths: Sequence[Path]) -> None:
        """Look at files that were read before anything was watched."""
        if self._files is not None:
            self._files.has_read(paths)

    def gradients_due(self) -> None:
        """Look at the gradients that are accumulated so far."""
        if self._state is not None:
            with self.cost.watching:
                self._state.gradients_due()

    def on_save(self, call: Callable[[], None]) -> None:
        """Call this once the thread that trains has saved a file."""
        if self._files is None:
            return
        copies = self._copies

        def saved() -> None:
            call()
            if copies is not None:
                copies.saved()

        self._files.on_save = saved

    def drop_gradients(self) -> None:
        """Forget the gradients that were accumulated at an earlier place."""
        if self._state is not None:
            self._state.drop_gradients()

    def has_gradients(self) -> bool:
        """Return whether any gradient is left for a step; True where state is not watched."""
        if self._state is None:
            return True
        with self.cost.watching:
            return any(waiting(self._state.optimizers()))

    def gradient_mark(self) -> tuple[int, ...] | None:
        """Return what differs once the gradients were cleared; reads none of them."""
        return mark_of([] if self._state is None else self._state.optimizers())

    def versions(self) -> tuple[int, ...]:
        """Return how often parameters were changed, see `versions_of`."""
        return versions_of([] if self._state is None else self._state.optimizers())

    def describe_optimizer(self, optimizer: Any) -> str:  # see `kind_of`
        """Return number and kind of an optimizer; empty for the first, and where it is unknown."""
        known = [] if self._state is None else self._state.found.all("optimizer")
        number = next((n for n, one in enumerate(known) if one is optimizer), 0)
        return f"{number} ({type(optimizer).__name__})" if number else ""

    def resumes(self, optimizer: Any) -> None:  # see `kind_of`
        """Find out, before a step is looked at or stopped at, where the attempt resumed."""
        if self._files is not None:
            if self._state is not None:
                self._state.found.add(kind_of(optimizer), optimizer)
            before = self._cursor.numbers()
            with self.cost.watching:
                self._files.step_begins(self._first_seen)
            if self._state is not None and self._cursor.numbers() != before:
                self._state.enters_anew()

    def step_begins(self, optimizer: Any) -> None:  # see `kind_of`
        """Look at the state before an optimizer step."""
        with self.cost.watching:
            if self._files is not None:
                # The order matters: the place is settled first, then what is seen of the step is
                # recorded at it. A step that ends an epoch by being the first of the next one can
                # only be known as it begins, when all ranks have come to it.
                self._files.pass_reported()
                steps = self._epoch_steps or declared.declared_epoch_steps()
                if not self._has_reports and self._files.is_at_end(steps):
                    self._end_epoch()
                    self._cursor.epoch, self._cursor.step = self._cursor.epoch + 1, 0
            if self._copies is not None:
                self._copies.step_begins(self._now())
            if self._state is not None:
                is_saved = self._files is not None and self._files.may_resume_here()
                by_steps = self._watch.entries == "steps"
                self._state.step_begins(optimizer, may_be_entered=is_saved or by_steps)

    def step_done(self) -> None:
        """Look at the state after a step that was counted."""
        self.cost.steps += 1
        if self._files is not None:
            self._files.step_done()
        if self._state is not None:
            self._state.step_done()
        if self._state is None and self._roots is not None:
            self._roots.end_search()

    def report_begins(self, *, is_early: bool) -> None:
        """Determine the place of this rank, before its report is counted."""
        if self._files is not None:
            self._files.report_begun(is_early=is_early)

    def report_begun(self) -> None:
        """Look at state and process at the end of an epoch; record the cost of watching it."""
        if self._state is not None:
            self._state.report_begun()
        self._write_cost()

    def _write_cost(self) -> None:
        cost, cursor = self.cost, self._cursor
        self._write(
            WatchCost(
                **cursor.who(),
                epoch=cursor.epoch,
                steps=cost.steps,
                watch_ns=cost.watching.spent_ns,
                state_ns=cost.on_state.spent_ns,
            )
        )
        cost.begin_anew()
        if (size := process_size()) is not None:
            cursor = self._record.cursor
            self._write(ProcessSeen(**cursor.who(), epoch=cursor.epoch, **size.model_dump()))

    def part_uploaded(self, folder: Path, checkpoint: str, *, is_placed: bool) -> None:
        """Record the files that this rank is about to upload.

        Not `is_placed`: in a thread of its own, while training continues. Its time is no
        part of any step, and is not added up.
        """
        if not self._watch.files:
            return
        with self.cost.watching if is_placed else contextlib.nullcontext():
            files = folder_digests(folder)
        if self._files is not None and files:
            self._files.part_uploaded(checkpoint, folder, files)
        epoch = self._cursor.epoch if is_placed else None
        part = PartUploaded(
            **self._cursor.who(),
            epoch=epoch,
            checkpoint=checkpoint,
            files=files,
            sharded=sharded_part(folder, files),
        )
        self._write(part)

    def train_fn_ended(self, error: BaseException | None) -> None:
        """Record that the train function is over."""
        if self._files is not None:
            self._files.train_fn_ended(returned=error is None)
        if not self._has_reports and self._files is not None and error is None:
            self._files.step_begins()  # it may have resumed where nothing was left to train
            if self._cursor.step:
                self._end_epoch()
        text = None if error is None else shortened(f"{type(error).__name__}: {error}")
        self._write(TrainFnEnded(**self._cursor.place(), error=text))

    def loader_started(self, iterator: Any) -> None:  # torch's
        """Look at the data set that the processes of a persistent loader were given."""
        if self._state is not None:
            with self.cost.watching:
                self._state.loader_started(iterator)

    # -- inside ------------------------------------------------------------------------------

    def _now(self) -> Place:
        return Place(self._cursor.epoch, self._cursor.step)

    def _end_epoch(self) -> None:
        """Record the end of an epoch that no report ends."""
        assert self._files is not None
        self._files.epoch_ended()
        if self._state is not None:
            self._state.settle()
        self._write(EpochEnded(**self._cursor.who(), epoch=self._cursor.epoch))
        self._write_cost()

    def _declared(self, name: str) -> None:
        try:
            self._write(Declared(**self._cursor.who(), name=name))
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's call
            self._failed("declare", error)

    def _install_modules(self) -> None:
        if self._watch.state:
            record = replace(self._record, write=self._state_seen)
            self._state = StateWatch(record, every=self._watch.every)
        if self._watch.inputs:
            self._inputs = InputWindow()
        if not (self._watch.state or self._watch.inputs or self.validates):
            return
        validates = self.validates or (lambda: None)
        self._roots = Roots(self._called, self._root_found, self._failed, validates=validates)
        if self._state is not None:
            self._state.install(self._roots)
        state = self._state
        self._roots.watch(lambda: [] if state is None else state.found.all("ema"))

    def _install_files(self, saves: Saves, *, ranks: int, may_move: bool) -> JobFiles:
        self._saves = saves
        files = JobFiles(self._record, saves, may_move=may_move, ranks=ranks)
        if self._roots is not None:
            files.unhook = self._roots.without_hooks
        if self._state is not None:
            files.settle = self._state.settle if self._cursor.attempt == 0 else None
            files.trained = self._state.count_trained
        if self.of_objects is not None:
            files.hides = self.of_objects.hides
        watch_files(files)
        files.watch_opened()
        self._files = files
        return files

    def _state_seen(self, event: AnyEvent) -> None:
        """Write a state snapshot, and keep its digests for later attempts."""
        self._write(event)
        if self._saves is None or not isinstance(event, StateSeen):
            return
        self._saves.keep_state(event.attempt, event.rank, place_of(event), event.components)

    def _first_seen(self) -> Seen:
        """Return what is seen of the first step of an attempt before it is made."""
        model, optimizer = ("", "") if self._state is None else self._state.keys()
        given = None if self._inputs is None else self._inputs.given(*self._trained()).read()
        inputs = "" if given is None else given.digest
        return Seen(model=model, optimizer=optimizer, inputs=inputs, losses=self.losses())

    def _close_inputs(self) -> Given:
        assert self._inputs is not None
        return self._inputs.close(*self._trained())

    def _trained(self) -> tuple[Callable[[], list[Any]], int]:
        """Return what tells of the optimizers that train, and the epoch in which they do."""
        known: Callable[[], list[Any]] = list if self._state is None else self._state.optimizers
        return known, self._cursor.epoch

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any], owner: Owner) -> Call | None:
        # Before the ranks wait for each other in the backward pass: once any rank begins its first
        # step, what all of them have read is recorded.
        if self._files is not None:
            self._files.look()
        if self._state is not None and self._watch.entries == "epochs":
            files = self._files
            with self.cost.watching:
                self._state.called(
                    lambda: files is not None and files.may_resume_here(),
                    has_read_late=files is not None and files.going_on.is_late,
                )
        if self._inputs is None:
            return None
        with self.cost.watching:
            return self._inputs.called(args, kwargs, owner)

    def _root_found(self) -> None:
        if self._state is not None:
            self._state.root_found()
