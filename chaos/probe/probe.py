"""The probe of one worker, which watches its start, optimizer steps, losses, reports and uploads.

Steps are counted here, and the chaos controller is asked only at an armed place: a
step costs one line of the journal, and the time of `watchers`.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from chaos.errors import InjectedError
from chaos.faults.world import Target
from chaos.model.event import (
    CheckpointRead,
    GroupJoined,
    Inputs,
    ProbeFailed,
    ReportBegun,
    ReportReturned,
    UploadBegun,
    UploadEnded,
    ValidationBegun,
    WorkerStarted,
)
from chaos.model.places import START, TrainingPlace
from chaos.model.plan import Plan
from chaos.model.trigger import Moment
from chaos.probe.address import ControllerPort, RunAddress
from chaos.probe.cursor import Cursor, Recorder
from chaos.probe.gradient_buckets import keep_first_buckets
from chaos.probe.import_hooks import call_after_import
from chaos.probe.libraries import MODULES
from chaos.probe.loaders import postpone_loader_loss, watch_loaders
from chaos.probe.order_executor import OrderExecutor, PlannedStops, is_load_op
from chaos.probe.process_identity import HERE
from chaos.probe.saves import SaveFolder
from chaos.probe.steps import StepHook
from chaos.probe.storage_faults import StorageSettings, find_injector
from chaos.probe.training_listener import Losses, Stop, TrainingListener
from chaos.probe.watchers import Watchers
from chaos.probe.write_ledger import mark_training_begin
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal
from chaos.run.signals import answer_with_stacks, rank_stacks
from chaos.wording import shorten_text


@dataclass(frozen=True)
class Worker:
    """One worker process, as its launcher knows it."""

    attempt: int
    rank: int
    #: the number of all of them
    world_size: int
    node_id: str
    #: what the launcher handed it to resume from, None for nothing
    checkpoint: str | None = None
    #: where it continues
    training_place: TrainingPlace = START
    accelerators: tuple[str, ...] = ()


class Probe(TrainingListener):
    """The probe of one worker process. It counts (epoch, step) as the job's own code could."""

    def __init__(
        self,
        plan: Plan,
        journal: Journal,
        controller: ControllerPort,
        *,
        target: Target,
        training_place: TrainingPlace,
    ) -> None:
        self._journal, self._controller, self._target = journal, controller, target
        self._cursor = Cursor(target.attempt, target.rank, *training_place)
        record = Recorder(self._cursor, journal.add, self.report_failure)
        self._stops = PlannedStops.from_ops(plan.ops, target)
        self._watchers = Watchers(
            plan.watch,
            record,
            self,
            has_reports=plan.job.launcher_facts.has_reports,
            epoch_steps=plan.job.epoch_steps,
            follows_validation=self._stops.has_validation_ops,
        )
        self._steps = StepHook(self, self._watchers, self.report_failure)
        self._order_executor = OrderExecutor(controller.obeyed, SystemClock())
        self._report_thread = self._early_reports = 0
        self._upload_state = threading.local()
        self._validated_epoch: int | None = None  # the last epoch in which that was seen
        self._is_early_report = False
        self._recorded_failures: set[tuple[str, str]] = set()
        self._object_ops = plan.select_storage_ops(own_objects=True)
        self._follows_loads = any(map(is_load_op, plan.ops))

    @classmethod
    def create_probe(cls, worker: Worker, directory: RunDirectory, address: RunAddress) -> "Probe":
        """Open the journal of this process, and record its start; nothing is watched yet."""
        pid = os.getpid()
        journal = Journal(directory.journals, f"worker-{pid}", role="worker", clock=SystemClock())
        target = Target(worker.attempt, worker.rank, pid, worker.node_id)
        HERE.attempt, HERE.rank = target.attempt, target.rank
        plan, controller = directory.load_plan(), address.connect()
        probe = cls(plan, journal, controller, target=target, training_place=worker.training_place)
        journal.add(
            WorkerStarted(
                attempt=target.attempt,
                rank=target.rank,
                world_size=worker.world_size,
                pid=pid,
                node_id=target.node_id,
                checkpoint=worker.checkpoint,
                epoch=worker.training_place.epoch,
                step=worker.training_place.step,
                accelerators=worker.accelerators,
            )
        )
        answer_with_stacks(directory.logs / rank_stacks(target.rank, pid))
        return probe

    def install(
        self,
        directory: RunDirectory,
        *,
        ranks: int,
        checkpoint: str | None = None,
        reported_epoch: int | None = None,
    ) -> None:
        """Watch torch from now on, as one of so many ranks.

        `checkpoint` is the one that Ray handed to the attempt, `reported_epoch` the epoch whose
        report it came with.
        """
        self._saves = SaveFolder(directory.save_records)
        self._watchers.install(
            directory.save_records,
            ranks=ranks,
            was_handed_none=checkpoint is None,
            reported_epoch=reported_epoch,
            object_faults=find_injector(StorageSettings(directory.path, self._object_ops)),
            follows_files=bool(self._stops.save_ops) or self._follows_loads,
        )
        self._steps.install()
        watch_loaders(self._watchers)
        keep_first_buckets(ranks)
        call_after_import(MODULES, lambda _: self._record_safely(self._install_libraries))

    def record_checkpoint_read(self, checkpoint: str | None) -> None:
        """Record that the train function asked for its checkpoint."""
        with contextlib.suppress(OSError):
            self._journal.add(CheckpointRead(**self._cursor.rank_fields(), checkpoint=checkpoint))

    # -- events of hooks -------------------------------------------------------------------------

    def gradients_ready(self, *, is_second: bool) -> None:
        self._watchers.gradients_ready(is_second=is_second)

    def window_dropped(self) -> None:
        self._watchers.window_dropped()

    def state_loaded(self) -> None:
        self._watchers.state_loaded()

    def losses_resolved(self, epoch: int, step: int, losses: Losses, inputs: Inputs | None) -> None:
        self._watchers.losses_resolved(epoch, step, losses, inputs)

    def step_begins(self, optimizer: Any) -> None:  # see `find_kind`
        """Stop at an op of this attempt's first step; look at the state before the step."""
        epoch_before = self._cursor.epoch
        self._watchers.settle_resume(optimizer, self._steps.list_open_losses)
        if self._cursor.epoch > epoch_before:
            self._record_safely(
                partial(self._controller.resumed, self._target.attempt, self._cursor.epoch)
            )
        self._arrive_safely(self._stops.stage_ops.pop("first_step", ()))
        self._watchers.step_begins(optimizer)
        self._order_executor.step_begins(optimizer)

    def step_done(self, losses: Losses | None, inputs: Inputs | None) -> TrainingPlace:
        """Record an optimizer step, stop at an op that waits for it, and return its place."""
        mark_training_begin()
        # Recorded before the rank is held: a kill at this place finds the step in the journal. Then
        # the state is looked at, and only then the op arrives, so that a snapshot is never the work
        # of a rank that was being killed.
        place = self._watchers.step_done(losses, inputs)
        self._order_executor.step_done()
        for index in self._stops.step_ops.get(place, ()):
            self._arrive(index)
        return place

    def validation_begins(self) -> None:
        """Record, once per epoch, that its model is called in evaluation; stop at an op there."""
        cursor = self._cursor
        if not cursor.step or self._validated_epoch == cursor.epoch:
            return
        self._validated_epoch = cursor.epoch
        self._record_safely(self._record_validation)

    def save_reached(self, moment: Moment, epoch: int, path: str) -> Stop | None:
        """Return the function that arrives at the ops that wait there in a save, or None."""
        indexes = self._stops.take_save_ops(moment, epoch, path)
        if not indexes:
            return None

        def arrive() -> None:
            for index in indexes:
                self._arrive(index)

        return lambda: self._record_safely(arrive)

    def save_ends(self, files: Sequence[Path], value: Any) -> None:
        del files, value
        self._steps.note_save()

    def earlier_save_entered(self) -> None:
        self._arrive_safely(self._stops.stage_ops.get("loading", ()))

    # -- called by the launcher ------------------------------------------------------------------

    def record_group_join(self) -> None:
        """Record that this rank has joined a process group."""
        with contextlib.suppress(OSError):
            self._journal.add(GroupJoined(**self._cursor.rank_fields()))

    def record_report_start(self) -> None:
        """Record that `report()` was entered; arm the hold that `reported` needs.

        A report before its attempt trains anything, such as a validation at every
        start, ends no epoch: it has no place, and is marked for the observer.
        """
        with self._watchers.cost.watch_time:
            self._steps.resolve_pending()
            self._is_early_report = self._watchers.has_optimizer and not self._steps.has_trained
            self._watchers.report_begins(is_early=self._is_early_report)
            if self._is_early_report:
                self._report_thread = 0
                self._saves.set_mark("early", self._cursor.attempt, self._early_reports)
                self._early_reports += 1
                return
            self._report_thread = threading.get_ident()
            self._journal.add(ReportBegun(**self._cursor.rank_fields(), epoch=self._cursor.epoch))
        self._record_safely(self._watchers.report_begun)
        for index in self._stops.moment_ops.get((self._cursor.epoch, "reported"), ()):
            if (
                index in self._stops.leading_ops
            ):  # of ranks that raise together, one asks for the hold
                self._controller.await_hold(index)

    def record_report_return(self, error: BaseException | None) -> None:
        """Record that `report()` returned, which is not a commit, and count an epoch."""
        cursor = self._cursor
        if self._is_early_report:
            self._steps.forget_window()
            return
        self._journal.add(
            ReportReturned(**cursor.rank_fields(), epoch=cursor.epoch, error=_describe_error(error))
        )
        if error is not None:
            return
        self._steps.forget_window()
        ended_epoch = cursor.epoch
        cursor.epoch, cursor.step = ended_epoch + 1, 0
        # Both moments are reached here: for `committed` the chaos controller holds this worker
        # until the commit has come.
        self._reach_moment(ended_epoch, "reported")
        self._reach_moment(ended_epoch, "committed")

    def wrap_background_upload(self, upload: Callable[..., Any]) -> Callable[..., Any]:
        """Return an upload that knows its epoch, in a thread of its own while training goes on."""
        epoch = self._cursor.epoch

        def upload_in_background(*args: Any, **kwargs: Any) -> Any:  # what the upload returns
            self._upload_state.epoch = epoch
            return upload(*args, **kwargs)

        return upload_in_background

    def record_upload_start(self) -> None:
        """Record that the upload of this rank's part of the checkpoint begins."""
        HERE.upload_count += 1
        epoch = self._find_upload_epoch()
        if epoch is None:
            return
        self._journal.add(UploadBegun(**self._cursor.rank_fields(), epoch=epoch))
        self._reach_moment(epoch, "upload_begin")

    def record_upload_end(self, error: BaseException | None) -> None:
        """Record that the upload of this rank's part has ended."""
        epoch = self._find_upload_epoch()
        if epoch is None:
            return
        self._journal.add(
            UploadEnded(**self._cursor.rank_fields(), epoch=epoch, error=_describe_error(error))
        )
        if error is None:
            self._reach_moment(epoch, "upload_end")

    def record_uploaded_part(self, folder: Path, checkpoint: str) -> None:
        """Record the files that this rank uploads next; an asynchronous upload has no epoch."""
        is_in_report = threading.get_ident() == self._report_thread
        self._record_safely(
            partial(self._watchers.part_uploaded, folder, checkpoint, is_placed=is_in_report)
        )

    def record_script_start(self) -> None:
        """Report that this worker, which torchrun started, begins the job's script."""
        self._controller.began(self._target.attempt, self._target.rank)

    def record_train_fn_launch(self) -> None:
        """Stop at an op whose place is the launch, while Ray's controller waits for this worker."""
        self._arrive_safely(self._stops.launch_ops)

    def record_train_fn_start(self) -> None:
        """Stop at an op of this attempt's start."""
        self._arrive_safely(self._stops.stage_ops.get("start", ()))

    def record_train_fn_end(self, error: BaseException | None) -> None:
        """Record that the train function returned, or raised."""
        self._record_safely(lambda: self._watchers.train_fn_ended(error))

    def record_early_reads(self, paths: Sequence[Path]) -> None:
        """Look at the files that this process has read before it was watched."""
        self._record_safely(lambda: self._watchers.record_early_reads(paths))

    def report_failure(self, site: str, error: Exception) -> None:
        """Record that something was not seen; an error of every call is recorded once."""
        with contextlib.suppress(Exception):  # nothing more can be done from inside a worker
            text = f"{type(error).__name__}: {error}"
            if (site, text) in self._recorded_failures:
                return
            self._recorded_failures.add((site, text))
            self._journal.add(ProbeFailed(**self._cursor.rank_fields(), where=site, error=text))

    # -- inside ------------------------------------------------------------------------------

    def _find_upload_epoch(self) -> int | None:
        """Return the epoch of this thread's upload; None in a thread of the job's own."""
        if threading.get_ident() == self._report_thread:
            return self._cursor.epoch
        epoch: int | None = getattr(self._upload_state, "epoch", None)
        return epoch

    def _record_validation(self) -> None:
        self._journal.add(ValidationBegun(**self._cursor.place_fields()))
        self._reach_moment(self._cursor.epoch, "validating")

    def _install_libraries(self) -> None:
        self._steps.install_libraries()
        self._watchers.install_libraries()

    def _reach_moment(self, epoch: int, moment: Moment) -> None:
        for index in self._stops.moment_ops.get((epoch, moment), ()):
            self._arrive(index)

    def _arrive(self, index: int) -> None:
        # While a rank is held, its loader's processes may be killed, and torch raises that in
        # whatever code runs then, which is this. It is put off until the rank is back in the job's.
        with postpone_loader_loss():
            order = self._controller.arrive(index, self._target)
        self._order_executor.obey(order)

    def _arrive_safely(self, indexes: Sequence[int]) -> None:
        for index in indexes:
            self._record_safely(partial(self._arrive, index))

    def _record_safely(self, action: Callable[[], None]) -> None:
        """Call a function that only records; if it fails, the rest of the hook still runs."""
        try:
            action()
        except InjectedError:
            raise  # an injected error is meant for the user's run
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's run
            self.report_failure("watch", error)


def _describe_error(error: BaseException | None) -> str | None:
    return None if error is None else shorten_text(f"{type(error).__name__}: {error}")
