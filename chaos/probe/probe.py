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
    LoaderProcesses,
    LossResolved,
    ProbeFailed,
    ReportBegun,
    ReportReturned,
    StepDone,
    UploadBegun,
    UploadEnded,
    ValidationBegun,
    WorkerStarted,
)
from chaos.model.places import START, Place
from chaos.model.plan import Plan
from chaos.model.trigger import Moment
from chaos.probe.address import ControllerPort, RunAddress
from chaos.probe.cursor import Cursor, Recorder
from chaos.probe.imported import once_imported
from chaos.probe.libraries import MODULES
from chaos.probe.loaders import losses_put_off, watch_loaders
from chaos.probe.obedience import Obedience, Places, is_in_load
from chaos.probe.process_identity import HERE
from chaos.probe.reduction import keep_first_buckets
from chaos.probe.saves import Saves
from chaos.probe.steps import Losses, StepHook
from chaos.probe.storage_faults import Layer, injector_of
from chaos.probe.watchers import Watchers
from chaos.probe.written import training_has_begun
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal
from chaos.run.signals import answer_with_stacks, rank_stacks
from chaos.words import shortened


@dataclass(frozen=True)
class Worker:
    """One worker process, as its launcher knows it."""

    attempt: int
    rank: int
    #: the number of all of them
    ranks: int
    node_id: str
    #: what the launcher handed it to resume from, None for nothing
    checkpoint: str | None = None
    #: where it continues
    place: Place = START
    accelerators: tuple[str, ...] = ()


class Probe:
    """The probe of one worker process. It counts (epoch, step) as the job's own code could."""

    def __init__(
        self,
        plan: Plan,
        journal: Journal,
        controller: ControllerPort,
        *,
        target: Target,
        place: Place,
    ) -> None:
        self._journal = journal
        self._controller = controller
        self._target = target
        self._cursor = Cursor(target.attempt, target.rank, *place)
        record = Recorder(self._cursor, journal.add, self.failed)
        self._watchers = Watchers(
            plan.watch,
            record,
            has_reports="reports" in plan.job.facts.has,
            epoch_steps=plan.job.epoch_steps,
        )
        self._obedience = Obedience(controller.obeyed, SystemClock())
        self._optimizer = ""
        self._reporting = 0
        self._beside = threading.local()
        self._early = 0
        self._validated: int | None = None  # the last epoch in which that was seen
        self._is_early = False
        self._failures: set[tuple[str, str]] = set()
        self._of_objects = plan.storage_ops(of_objects=True)
        self._follows_loads = any(map(is_in_load, plan.ops))
        self._places = Places.of(plan.ops, target)
        is_watched = plan.watch.state or plan.watch.inputs
        self._follows_validation = is_watched or self._places.strikes_in_validation

    @classmethod
    def of(cls, worker: Worker, directory: RunDirectory, address: RunAddress) -> "Probe":
        """Open the journal of this process, and record its start; nothing is watched yet."""
        pid = os.getpid()
        journal = Journal(directory.journals, f"worker-{pid}", role="worker", clock=SystemClock())
        target = Target(worker.attempt, worker.rank, pid, worker.node_id)
        HERE.attempt, HERE.rank = target.attempt, target.rank
        plan, controller = directory.load_plan(), address.connect()
        probe = cls(plan, journal, controller, target=target, place=worker.place)
        journal.add(
            WorkerStarted(
                attempt=target.attempt,
                rank=target.rank,
                world_size=worker.ranks,
                pid=pid,
                node_id=target.node_id,
                checkpoint=worker.checkpoint,
                epoch=worker.place.epoch,
                step=worker.place.step,
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
        reported: int | None = None,
    ) -> None:
        """Watch torch from now on, as one of so many ranks.

        `checkpoint` is the one that Ray handed to the attempt, `reported` the epoch whose
        report it came with.
        """
        self._saves = Saves(directory.saves)
        if self._follows_validation:
            self._watchers.validates = self.validation_begun
        self._watchers.of_objects = injector_of(Layer(directory.path, self._of_objects))
        self._watchers.install(
            directory.saves,
            ranks=ranks,
            was_handed_none=checkpoint is None,
            reported=reported,
            stops=self._stop_in_save if self._places.saves else None,
            strike_in_load=self._strike_in_load if self._follows_loads else None,
        )
        self._steps = StepHook(
            self.step_done,
            self.losses_resolved,
            self.failed,
            step_begins=self.step_begins,
            given=self._watchers.given,
            gradients_due=self._watchers.gradients_due,
        )
        self._watchers.losses = self._steps.open_losses
        self._watchers.on_save(self._steps.saved)
        self._steps.has_gradients = self._watchers.has_gradients
        self._steps.versions = self._watchers.versions
        self._steps.gradient_mark = self._watchers.gradient_mark
        self._steps.drop_inputs = self._watchers.drop_inputs
        self._steps.drop_gradients = self._watchers.drop_gradients
        self._steps.install()
        watch_loaders(self.loaders_changed, self._watchers.loader_started)
        keep_first_buckets(ranks)
        once_imported(MODULES, lambda _: self._look(self._install_libraries))

    def checkpoint_read(self, checkpoint: str | None) -> None:
        """Record that the train function asked for its checkpoint."""
        with contextlib.suppress(OSError):
            self._journal.add(CheckpointRead(**self._cursor.who(), checkpoint=checkpoint))

    def step_begins(self, optimizer: Any) -> None:  # see `kind_of`
        """Stop at an op of this attempt's first step; look at the state before the step."""
        self._optimizer = self._watchers.describe_optimizer(optimizer)
        self._watchers.resumes(optimizer)
        for index in self._places.stages.pop("first_step", ()):
            self._look(partial(self._arrive, index))
        self._watchers.step_begins(optimizer)
        self._obedience.step_begins(optimizer)

    def step_done(self, losses: Losses | None, inputs: Inputs | None = None) -> Place:
        """Record an optimizer step, stop at an op that waits for it, and return its place."""
        cursor = self._cursor
        training_has_begun()
        # Recorded before the rank is held: a kill at this place finds the step in the journal. Then
        # the state is looked at, and only then the op arrives, so that a snapshot is never the work
        # of a rank that was being killed.
        with self._watchers.cost.watching:
            cursor.step += 1
            place = Place(cursor.epoch, cursor.step)
            done = StepDone(
                **cursor.place(), losses=losses, inputs=inputs, optimizer=self._optimizer
            )
            self._journal.add(done)
            self._watchers.step_done()
        self._obedience.step_done()
        for index in self._places.steps.get(place, ()):
            self._arrive(index)
        return place

    def validation_begun(self) -> None:
        """Record, once per epoch, that its model is called in evaluation; stop at an op there."""
        cursor = self._cursor
        if not cursor.step or self._validated == cursor.epoch:
            return
        self._validated = cursor.epoch
        self._look(self._validates)

    def losses_resolved(
        self, epoch: int, step: int, losses: Losses, inputs: Inputs | None = None
    ) -> None:
        """Record the losses and inputs of a step that stayed on the accelerator until now."""
        self._journal.add(
            LossResolved(**self._cursor.who(), epoch=epoch, step=step, losses=losses, inputs=inputs)
        )

    def group_joined(self) -> None:
        """Record that this rank has joined a process group."""
        with contextlib.suppress(OSError):
            self._journal.add(GroupJoined(**self._cursor.who()))

    def loaders_changed(self, count: int) -> None:
        """Record the number of the loaders' processes."""
        with contextlib.suppress(OSError):
            self._journal.add(LoaderProcesses(**self._cursor.place(), count=count))

    def report_begun(self) -> None:
        """Record that `report()` was entered; arm the hold that `reported` needs.

        A report before its attempt trains anything, such as a validation at every
        start, ends no epoch: it has no place, and is marked for the observer.
        """
        with self._watchers.cost.watching:
            StepHook.settle()
            self._is_early = self._watchers.is_to_train and not self._steps.has_trained
            self._watchers.report_begins(is_early=self._is_early)
            if self._is_early:
                self._reporting = 0
                self._saves.mark("early", self._cursor.attempt, self._early)
                self._early += 1
                return
            self._reporting = threading.get_ident()
            self._journal.add(ReportBegun(**self._cursor.who(), epoch=self._cursor.epoch))
        self._look(self._watchers.report_begun)
        for index in self._places.moments.get((self._cursor.epoch, "reported"), ()):
            if index in self._places.leads:  # of ranks that raise together, one asks for the hold
                self._controller.await_hold(index)

    def report_returned(self, error: BaseException | None) -> None:
        """Record that `report()` returned, which is not a commit, and count an epoch."""
        cursor = self._cursor
        if self._is_early:
            StepHook.forget_open_window()
            return
        self._journal.add(ReportReturned(**cursor.who(), epoch=cursor.epoch, error=_named(error)))
        if error is not None:
            return
        StepHook.forget_open_window()
        ended = cursor.epoch
        cursor.epoch, cursor.step = ended + 1, 0
        # Both moments are reached here: for `committed` the chaos controller holds this worker
        # until the commit has come.
        self._at(ended, "reported")
        self._at(ended, "committed")

    def upload_handed_over(self, upload: Callable[..., Any]) -> Callable[..., Any]:
        """Return an upload that knows its epoch, in a thread of its own while training goes on."""
        epoch = self._cursor.epoch

        def beside(*args: Any, **kwargs: Any) -> Any:  # what the upload returns
            self._beside.epoch = epoch
            return upload(*args, **kwargs)

        return beside

    def upload_begun(self) -> None:
        """Record that the upload of this rank's part of the checkpoint begins."""
        HERE.upload += 1
        epoch = self._uploading()
        if epoch is None:
            return
        self._journal.add(UploadBegun(**self._cursor.who(), epoch=epoch))
        self._at(epoch, "upload_begin")

    def upload_ended(self, error: BaseException | None) -> None:
        """Record that the upload of this rank's part has ended."""
        epoch = self._uploading()
        if epoch is None:
            return
        self._journal.add(UploadEnded(**self._cursor.who(), epoch=epoch, error=_named(error)))
        if error is None:
            self._at(epoch, "upload_end")

    def part_uploaded(self, folder: Path, checkpoint: str) -> None:
        """Record the files that this rank uploads next; an asynchronous upload has no epoch."""
        is_in_report = threading.get_ident() == self._reporting
        self._look(
            partial(self._watchers.part_uploaded, folder, checkpoint, is_placed=is_in_report)
        )

    def script_begins(self) -> None:
        """Report that this worker, which torchrun started, begins the job's script."""
        self._controller.began(self._target.attempt, self._target.rank)

    def train_fn_launched(self) -> None:
        """Stop at an op whose place is the launch, while Ray's controller waits for this worker."""
        for index in self._places.launches:
            self._look(partial(self._arrive, index))

    def train_fn_begins(self) -> None:
        """Stop at an op of this attempt's start."""
        for index in self._places.stages.get("start", ()):
            self._look(partial(self._arrive, index))

    def train_fn_ended(self, error: BaseException | None) -> None:
        """Record that the train function returned, or raised."""
        self._look(lambda: self._watchers.train_fn_ended(error))

    def has_read(self, paths: Sequence[Path]) -> None:
        """Look at the files that this process has read before it was watched."""
        self._look(lambda: self._watchers.has_read(paths))

    def failed(self, where: str, error: Exception) -> None:
        """Record that something was not seen; an error of every call is recorded once."""
        with contextlib.suppress(Exception):  # nothing more can be done from inside a worker
            text = f"{type(error).__name__}: {error}"
            if (where, text) in self._failures:
                return
            self._failures.add((where, text))
            self._journal.add(ProbeFailed(**self._cursor.who(), where=where, error=text))

    # -- inside ------------------------------------------------------------------------------

    def _uploading(self) -> int | None:
        """Return the epoch of this thread's upload; None in a thread of the job's own."""
        if threading.get_ident() == self._reporting:
            return self._cursor.epoch
        epoch: int | None = getattr(self._beside, "epoch", None)
        return epoch

    def _validates(self) -> None:
        self._journal.add(ValidationBegun(**self._cursor.place()))
        self._at(self._cursor.epoch, "validating")

    def _install_libraries(self) -> None:
        self._steps.install_libraries()
        self._watchers.install_libraries()

    def _at(self, epoch: int, moment: Moment) -> None:
        for index in self._places.moments.get((epoch, moment), ()):
            self._arrive(index)

    def _arrive(self, index: int) -> None:
        # While a rank is held, its loader's processes may be killed, and torch raises that in
        # whatever code runs then, which is this. It is put off until the rank is back in the job's.
        with losses_put_off():
            order = self._controller.arrive(index, self._target)
        self._obedience.obey(order)

    def _look(self, act: Callable[[], None]) -> None:
        """Call a function that only records; if it fails, the rest of the hook still runs."""
        try:
            act()
        except InjectedError:
            raise  # an injected error is meant for the user's run
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's run
            self.failed("watch", error)

    def _stop_in_save(self, moment: Moment, epoch: int, path: str) -> Callable[[], None] | None:
        """Return the function that arrives at the ops that wait there in a save, or None."""
        indexes = self._places.due_in_save(moment, epoch, path)
        if not indexes:
            return None

        def arrive() -> None:
            for index in indexes:
                self._arrive(index)

        return lambda: self._look(arrive)

    def _strike_in_load(self) -> None:
        for index in self._places.stages.get("loading", ()):
            self._look(partial(self._arrive, index))


def _named(error: BaseException | None) -> str | None:
    return None if error is None else shortened(f"{type(error).__name__}: {error}")
