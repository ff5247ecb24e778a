"""The watchers of a probe beside steps, losses and reports, as the plan asks for them."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaos import declaration
from chaos.model.event import (
    AnyEvent,
    Declared,
    EpochEnded,
    Inputs,
    LoaderProcesses,
    LossResolved,
    PartUploaded,
    ProcessSeen,
    StateSeen,
    StepDone,
    TrainFnEnded,
    WatchCost,
)
from chaos.model.places import TrainingPlace
from chaos.model.trigger import Moment
from chaos.model.watch import Watch
from chaos.probe.cursor import Recorder
from chaos.probe.job_files import JobFiles
from chaos.probe.job_objects import JobObjects
from chaos.probe.saves import SaveFolder
from chaos.probe.state.files import build_sharded_part, watch_files, watch_libraries
from chaos.probe.state.inputs import InputWindow, ModuleCall, Owner, StepInputs
from chaos.probe.state.restored_files import FileCopies
from chaos.probe.state.restored_values import FOLDER, ValueOrders
from chaos.probe.state.roots import RootModules
from chaos.probe.state.watch import StateWatch, find_kind
from chaos.probe.storage_faults import StorageInjector
from chaos.probe.training_listener import Losses, Stop, TrainingListener
from chaos.resume.resume_place import StepKeys, find_resume_place
from chaos.run.file_digest import folder_digests
from chaos.run.process_size import process_size
from chaos.wording import shorten_text


class Watchers(TrainingListener):
    """State, inputs and files of one rank. Nothing is watched before `install`.

    Without reports, an epoch ends with a save of the job's own; with `epoch_steps`, given or
    declared by the job, after so many steps.
    """

    def __init__(
        self,
        watch: Watch,
        record: Recorder,
        listener: TrainingListener,
        *,
        has_reports: bool = True,
        epoch_steps: int | None = None,
        follows_validation: bool = False,
    ) -> None:
        self.cost = record.cost
        self._watch, self._listener = watch, listener
        self._record = record
        self._cursor, self._write = record.cursor, record.write
        self._report_failure = record.report_failure
        self._state: StateWatch | None = None
        self._inputs: InputWindow | None = None
        self._roots: RootModules | None = None
        self._files: JobFiles | None = None
        self._saves: SaveFolder | None = None
        self._copies: FileCopies | None = None
        self._object_faults: StorageInjector | None = None
        self._has_reports, self._epoch_steps = has_reports, epoch_steps
        self._follows_validation = watch.state or watch.inputs or follows_validation
        self._optimizer = ""

    def install(
        self,
        saves: Path,
        *,
        ranks: int,
        was_handed_none: bool,
        reported_epoch: int | None = None,
        object_faults: StorageInjector | None = None,
        follows_files: bool = False,
    ) -> None:
        """Watch torch, if it is there, as one of so many ranks.

        `object_faults` are those of the objects that the job puts into a store; `follows_files`:
        an op waits in a save or a load.
        """
        if self._watch.state:
            declaration.add_declare_listener(self._record_declaration)
        try:
            import torch  # noqa: F401
        except ImportError:  # a boosting job has no state that is known here
            return
        self._install_modules()
        if self._state is not None and (orders := saves.parent / FOLDER).is_dir():
            rank = self._cursor.rank_fields()
            self._copies = FileCopies.restore_files(orders, **rank)
            self._state.set_orders(ValueOrders(orders, **rank))
        if self._watch.files or follows_files:
            self._object_faults, self._saves = object_faults, SaveFolder(saves)
            self._files = files = JobFiles(
                self._record,
                self._saves,
                self,
                may_move=was_handed_none and self._cursor.attempt > 0,
                ranks=ranks,
                reported_epoch=reported_epoch,
            )
            watch_files(files)
            files.watch_opened()
            if object_faults is not None:
                JobObjects(files, self._cursor, object_faults, self._report_failure).watch()

    @property
    def has_optimizer(self) -> bool:
        """Whether the job was seen to make an optimizer."""
        return self._state is not None and bool(self._state.state_objects.list_objects("optimizer"))

    # -- called by the probe ---------------------------------------------------------------------

    def install_libraries(self) -> None:
        """Follow sharded saves and safetensors, if the job has imported what makes them."""
        if self._files is not None:
            watch_libraries(self._files)

    def record_early_reads(self, paths: Sequence[Path]) -> None:
        """Look at files that were read before anything was watched."""
        if self._files is not None:
            self._files.record_early_reads(paths)

    def gradients_ready(self, *, is_second: bool) -> None:
        if self._state is not None:
            with self.cost.watch_time:
                self._state.take_gradients(is_second=is_second)

    def state_loaded(self) -> None:
        if self._files is not None:
            self._files.resume_finder.reopen_search()

    def save_reached(self, moment: Moment, epoch: int, path: str) -> Stop | None:
        return self._listener.save_reached(moment, epoch, path)

    def first_save_done(self) -> None:
        if self._state is not None and self._cursor.attempt == 0:
            self._state.write_pending()  # the next attempt compares its model with this one's

    def save_ends(self, files: Sequence[Path], value: Any) -> None:
        self._listener.save_ends(files, value)
        if self._copies is not None:
            self._copies.copy_files()

    def earlier_save_entered(self) -> None:
        self._listener.earlier_save_entered()

    def is_hidden(self, path: str) -> bool:
        return self._object_faults is not None and self._object_faults.is_hidden(path)

    def call_unhooked(self, call: Callable[[], Any]) -> Any:
        return call() if self._roots is None else self._roots.call_unhooked(call)

    def window_dropped(self) -> None:
        if self._inputs is not None:
            self._inputs.drop_calls()

    def loaders_counted(self, count: int) -> None:
        with contextlib.suppress(OSError):
            self._write(LoaderProcesses(**self._cursor.place_fields(), count=count))

    def losses_resolved(self, epoch: int, step: int, losses: Losses, inputs: Inputs | None) -> None:
        rank = self._cursor.rank_fields()
        self._write(LossResolved(**rank, epoch=epoch, step=step, losses=losses, inputs=inputs))

    def validation_begins(self) -> None:
        self._listener.validation_begins()

    def list_optimizers(self) -> list[Any] | None:
        return None if self._state is None else self._state.list_optimizers()

    def _describe_optimizer(self, optimizer: Any) -> str:  # see `find_kind`
        """Return number and kind of an optimizer; empty for the first, and where it is unknown."""
        if self._state is None:
            return ""
        optimizers = self._state.state_objects.list_objects("optimizer")
        number = next((n for n, candidate in enumerate(optimizers) if candidate is optimizer), 0)
        return f"{number} ({type(optimizer).__name__})" if number else ""

    def settle_resume(self, optimizer: Any, list_open_losses: Callable[[], Losses]) -> None:
        """Find out, before a step is looked at or stopped at, where the attempt resumed."""
        self._optimizer = self._describe_optimizer(optimizer)
        if self._files is not None:
            if self._state is not None:
                self._state.state_objects.add_object(find_kind(optimizer), optimizer)
            place_before = self._cursor.place_key()
            with self.cost.watch_time:
                self._files.enter_step(lambda: self._find_evidence(list_open_losses()))
            if self._state is not None and self._cursor.place_key() != place_before:
                self._state.reset_entry()

    def step_begins(self, optimizer: Any) -> None:  # see `find_kind`
        """Look at the state before an optimizer step."""
        with self.cost.watch_time:
            if self._files is not None:
                # The order matters: the place is settled first, then what is seen of the step is
                # recorded at it. A step that ends an epoch by being the first of the next one can
                # only be known as it begins, when all ranks have come to it.
                self._files.pass_reported_end()
                steps = self._epoch_steps or declaration.find_epoch_steps()
                if not self._has_reports and self._files.epoch_ends.is_at_end(steps):
                    self._end_epoch()
                    self._cursor.epoch, self._cursor.step = self._cursor.epoch + 1, 0
            if self._copies is not None:
                self._copies.keep_copies(self._cursor.training_place)
            if self._state is not None:
                is_saved = self._files is not None and self._files.can_resume()
                is_every_step = self._watch.entries == "steps"
                self._state.step_begins(optimizer, may_be_entered=is_saved or is_every_step)

    def step_done(self, losses: Losses | None, inputs: Inputs | None) -> TrainingPlace:
        """Count and record a step, and look at the state after it."""
        cursor = self._cursor
        with self.cost.watch_time:
            cursor.step += 1
            place, fields = cursor.training_place, cursor.place_fields()
            self._write(StepDone(**fields, losses=losses, inputs=inputs, optimizer=self._optimizer))
            self.cost.step_count += 1
            if self._files is not None:
                self._files.leave_step()
            if self._state is not None:
                self._state.step_done()
            elif self._roots is not None:
                self._roots.end_search()
        return place

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
                **cursor.rank_fields(),
                epoch=cursor.epoch,
                steps=cost.step_count,
                watch_ns=cost.watch_time.spent_ns,
                state_ns=cost.state_time.spent_ns,
            )
        )
        cost.reset()
        if (size := process_size()) is not None:
            fields = {**cursor.rank_fields(), **size.model_dump()}
            self._write(ProcessSeen(**fields, epoch=cursor.epoch))

    def part_uploaded(self, folder: Path, checkpoint: str, *, is_placed: bool) -> None:
        """Record the files that this rank is about to upload.

        Not `is_placed`: in a thread of its own, while training continues. Its time is no
        part of any step, and is not added up.
        """
        if not self._watch.files:
            return
        with self.cost.watch_time if is_placed else contextlib.nullcontext():
            files = folder_digests(folder)
        if self._files is not None and files:
            self._files.part_uploaded(checkpoint, folder, files)
        epoch = self._cursor.epoch if is_placed else None
        part = PartUploaded(
            **self._cursor.rank_fields(),
            epoch=epoch,
            checkpoint=checkpoint,
            files=files,
            sharded=build_sharded_part(folder, files),
        )
        self._write(part)

    def train_fn_ended(self, error: BaseException | None) -> None:
        """Record that the train function is over."""
        if self._files is not None:
            self._files.train_fn_ended(returned=error is None)
        if not self._has_reports and self._files is not None and error is None:
            self._files.enter_step()  # it may have resumed where nothing was left to train
            if self._cursor.step:
                self._end_epoch()
        text = None if error is None else shorten_text(f"{type(error).__name__}: {error}")
        self._write(TrainFnEnded(**self._cursor.place_fields(), error=text))

    def loader_started(self, iterator: Any) -> None:  # torch's
        """Look at the data set that the processes of a persistent loader were given."""
        if self._state is not None:
            with self.cost.watch_time:
                self._state.loader_started(iterator)

    # -- inside ------------------------------------------------------------------------------

    def _end_epoch(self) -> None:
        """Record the end of an epoch that no report ends."""
        assert self._files is not None
        self._files.epoch_ended()
        if self._state is not None:
            self._state.write_pending()
        self._write(EpochEnded(**self._cursor.rank_fields(), epoch=self._cursor.epoch))
        self._write_cost()

    def _record_declaration(self, name: str) -> None:
        try:
            self._write(Declared(**self._cursor.rank_fields(), name=name))
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's call
            self._report_failure("declare", error)

    def _install_modules(self) -> None:
        if self._watch.state:
            record = replace(self._record, write=self._record_state)
            self._state = StateWatch(record, sample_steps=self._watch.every)
        if self._watch.inputs:
            self._inputs = InputWindow()
        if not self._follows_validation:
            return
        self._roots = RootModules(self, self._report_failure)
        if self._state is not None:
            self._state.install(self._roots)
        state = self._state
        self._roots.watch(lambda: [] if state is None else state.state_objects.list_objects("ema"))

    def _record_state(self, event: AnyEvent) -> None:
        """Write a state snapshot, and keep its digests for later attempts."""
        self._write(event)
        if self._saves is None or not isinstance(event, StateSeen):
            return
        self._saves.record_state(
            event.attempt, event.rank, find_resume_place(event), event.components
        )

    def _find_evidence(self, losses: Losses) -> StepKeys:
        """Return what is seen of the first step of an attempt before it is made."""
        model, optimizer = ("", "") if self._state is None else self._state.find_state_keys()
        step_inputs = None
        if self._inputs is not None:
            step_inputs = self._inputs.gather_inputs(*self._find_training()).load_inputs()
        inputs = "" if step_inputs is None else step_inputs.digest
        return StepKeys(model=model, optimizer=optimizer, inputs=inputs, losses=losses)

    def close_inputs(self) -> StepInputs | None:
        return None if self._inputs is None else self._inputs.close_window(*self._find_training())

    def _find_training(self) -> tuple[Callable[[], list[Any]], int]:
        """Return what tells of the optimizers that train, and the epoch in which they do."""
        return list if self._state is None else self._state.list_optimizers, self._cursor.epoch

    def model_called(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], owner: Owner
    ) -> ModuleCall | None:
        # Before the ranks wait for each other in the backward pass: once any rank begins its first
        # step, what all of them have read is recorded.
        if self._files is not None:
            self._files.scan_files()
        if self._state is not None and self._watch.entries == "epochs":
            files = self._files
            with self.cost.watch_time:
                self._state.take_census(
                    lambda: files is not None and files.can_resume(),
                    has_read_late=files is not None and files.resume_finder.has_late_read,
                )
        if self._inputs is None:
            return None
        with self.cost.watch_time:
            return self._inputs.add_call(args, kwargs, owner)

    def root_found(self) -> None:
        if self._state is not None:
            self._state.add_root()
