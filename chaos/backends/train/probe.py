"""Watches one worker from inside: its start, optimizer steps, losses, reports, uploads.

Steps are counted here, and only an armed place asks the chaos controller: a
step costs one journal line.
"""

import contextlib
import faulthandler
import os
import signal
import threading
from typing import Any

from chaos.backends.train import compat
from chaos.backends.train.address import ControllerPort, RunAddress
from chaos.backends.train.steps import StepHook
from chaos.faults.world import Victim
from chaos.model.event import (
    CheckpointRead,
    LossResolved,
    ProbeFailed,
    ReportBegun,
    ReportReturned,
    StepDone,
    UploadBegun,
    UploadEnded,
    WorkerStarted,
)
from chaos.model.plan import Plan
from chaos.model.trigger import AtMoment, AtStep, Moment
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal

STACK_SIGNAL = signal.SIGUSR2


class Probe:
    """One per worker process. Counts (epoch, step) as the worker itself could."""

    def __init__(
        self,
        plan: Plan,
        journal: Journal,
        controller: ControllerPort,
        *,
        victim: Victim,
        epoch: int,
    ) -> None:
        self._journal = journal
        self._controller = controller
        self._victim = victim
        self._epoch = epoch
        self._step = 0
        self._reporting = 0
        self._armed_steps: dict[tuple[int, int], list[int]] = {}
        self._armed_moments: dict[tuple[int, Moment], list[int]] = {}
        for op in plan.ops:
            self._arm(op.index, op.at)

    @classmethod
    def start(cls, address: RunAddress, lineage: dict[str, Any]) -> "Probe":
        """Open the journal, record the start, and hook into torch."""
        directory = RunDirectory(address.directory)
        pid = os.getpid()
        journal = Journal(directory.journals, f"worker-{pid}", role="worker", clock=SystemClock())
        context = compat.train_context()
        node_id = compat.own_node_id()
        rank = context.get_world_rank()
        checkpoint = compat.checkpoint_name(context.checkpoint)
        epoch = lineage["epochs"].get(checkpoint, -1) + 1
        victim = Victim(attempt=lineage["attempt"], rank=rank, pid=pid, node_id=node_id)
        plan, controller = directory.load_plan(), address.connect()
        probe = cls(plan, journal, controller, victim=victim, epoch=epoch)
        journal.add(
            WorkerStarted(
                attempt=victim.attempt,
                rank=rank,
                world_size=context.get_world_size(),
                pid=pid,
                node_id=node_id,
                checkpoint=checkpoint,
                epoch=epoch,
            )
        )
        _answer_with_stacks(directory, f"rank-{rank}-{pid}")
        compat.on_first_get_checkpoint(probe.checkpoint_read)
        StepHook(probe.step_done, probe.losses_resolved, probe.failed).install()
        return probe

    def checkpoint_read(self, checkpoint: str | None) -> None:
        """Record that the train function asked for its checkpoint."""
        with contextlib.suppress(OSError):
            self._journal.add(CheckpointRead(**self._who(), checkpoint=checkpoint))

    def step_done(self, losses: tuple[float | str, ...] | None) -> tuple[int, int]:
        """Record an optimizer step, and stop where an op waits for it; gives (epoch, step)."""
        self._step += 1
        self._journal.add(
            StepDone(**self._who(), epoch=self._epoch, step=self._step, losses=losses)
        )
        for index in self._armed_steps.get((self._epoch, self._step), ()):
            self._arrive(index)
        return self._epoch, self._step

    def losses_resolved(self, epoch: int, step: int, losses: tuple[float | str, ...]) -> None:
        """Record losses that stayed on the accelerator until now."""
        self._journal.add(LossResolved(**self._who(), epoch=epoch, step=step, losses=losses))

    def report_begun(self) -> None:
        """Record that `report()` was entered; arm the hold that `reported` needs."""
        StepHook.settle()
        self._reporting = threading.get_ident()
        self._journal.add(ReportBegun(**self._who(), epoch=self._epoch))
        for index in self._armed_moments.get((self._epoch, "reported"), ()):
            self._controller.await_hold(index)

    def report_returned(self, error: BaseException | None) -> None:
        """Record that `report()` returned, which is not a commit, and count an epoch."""
        self._journal.add(ReportReturned(**self._who(), epoch=self._epoch, error=_named(error)))
        if error is not None:
            return
        StepHook.forget_open_window()
        ended = self._epoch
        self._epoch, self._step = ended + 1, 0
        self._at(ended, "reported")
        self._at(ended, "committed")

    def upload_begun(self) -> None:
        """Record that this rank's part of the checkpoint begins to travel.

        An asynchronous upload travels in a thread of its own while training
        goes on: which epoch it belongs to cannot be told, and it has no place.
        """
        if threading.get_ident() != self._reporting:
            return
        self._journal.add(UploadBegun(**self._who(), epoch=self._epoch))
        self._at(self._epoch, "upload_begin")

    def upload_ended(self, error: BaseException | None) -> None:
        """Record that this rank's part has arrived."""
        if threading.get_ident() != self._reporting:
            return
        self._journal.add(UploadEnded(**self._who(), epoch=self._epoch, error=_named(error)))
        if error is None:
            self._at(self._epoch, "upload_end")

    def failed(self, where: str, error: Exception) -> None:
        """Record that something was not seen."""
        with contextlib.suppress(Exception):  # nothing more can be done from inside a worker
            text = f"{type(error).__name__}: {error}"
            self._journal.add(ProbeFailed(**self._who(), where=where, error=text))

    # -- inside ------------------------------------------------------------------------------

    def _arm(self, index: int, place: AtStep | AtMoment) -> None:
        if place.rank != self._victim.rank:
            return
        if isinstance(place, AtStep):
            self._armed_steps.setdefault((place.epoch, place.step), []).append(index)
        else:
            self._armed_moments.setdefault((place.epoch, place.moment), []).append(index)

    def _at(self, epoch: int, moment: Moment) -> None:
        for index in self._armed_moments.get((epoch, moment), ()):
            self._arrive(index)

    def _arrive(self, index: int) -> None:
        self._controller.arrive(index, self._victim)

    def _who(self) -> dict[str, int]:
        return {"attempt": self._victim.attempt, "rank": self._victim.rank}


def _answer_with_stacks(directory: RunDirectory, name: str) -> None:
    """Let the harness ask for all stacks by signal, even while a rank hangs in C++."""
    file = (directory.logs / f"stacks-{name}.txt").open("w")
    faulthandler.register(STACK_SIGNAL, file=file, all_threads=True)


def _named(error: BaseException | None) -> str | None:
    return None if error is None else f"{type(error).__name__}: {error}"[:300]
