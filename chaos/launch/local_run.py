"""A run whose processes are all on this host; they ask the chaos controller over a socket."""

import contextlib
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, TypeVar

import psutil

from chaos.declared import TOKEN_ENV
from chaos.launch.files_outside import settle
from chaos.launch.folder_look import FolderLook
from chaos.launch.frame import Driver, LaunchedRun
from chaos.launch.gate_server import GateServer
from chaos.launch.node_disk import NodeDisk, confines_in, disks, make_room, remove_disks
from chaos.launch.process_world import ProcessWorld
from chaos.launch.world import metadata_of
from chaos.model.event import (
    AnyEvent,
    FaultInvoked,
    FilesUnsynced,
    Leftover,
    LeftoversSearched,
    StackTaken,
    StorageSeen,
    TrainFnEnded,
)
from chaos.model.paths import DRAWN_NAME, is_of_a_node
from chaos.model.tiers import Tiers
from chaos.plan.first_save import FirstSave, has_passed
from chaos.probe.address import RunAddress
from chaos.probe.written import Confines
from chaos.processes.tree import command_of, kill, with_variable
from chaos.run.armed import ArmedFaults
from chaos.run.clock import seconds_since
from chaos.run.controller import ChaosController
from chaos.run.directory import FIRST_SAVE
from chaos.run.journal import Journal, Trained
from chaos.run.ports import View, seen_in
from chaos.run.signals import STACK_SIGNAL, rank_stacks

END_S = 5.0
STACKS_S = 0.5
POLL_S = 0.01

World = TypeVar("World", bound=ProcessWorld)


@dataclass
class LocalRun(LaunchedRun[Driver], Generic[Driver, World]):
    """One run on this host; its nodes are names, or processes, and have disks of their own."""

    #: the view that its processes are in, None for none
    view: View | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        token = os.urandom(4).hex()
        self.address = RunAddress(self.directory.path, token, f"unix:chaos-gates-{token}")
        make_room(self.address)
        armed = ArmedFaults(self.directory.storage_faults)
        self.tiers = Tiers.of(self.plan, str(self.directory.path), real=os.path.realpath)
        self.world = self.make_world(armed, partial(NodeDisk, self.address, tiers=self.tiers))
        self.world.view = self.view
        self._folder = self._look_at_folder()

    @contextlib.contextmanager
    def controller(self) -> Iterator[None]:
        """Serve the gates and, where the plan has one, the metadata service."""
        with metadata_of(self.plan, self.world, self.directory) as variables:
            self.address = replace(self.address, metadata=variables)
            chaos = Journal(self.directory.journals, "chaos", role="chaos", clock=self.clock)
            has_trained = self.world.has_trained = Trained(self.directory.journals)
            controller = ChaosController(
                self.plan,
                self.world,
                chaos,
                storage_after=self.storage_after,
                has_trained=has_trained,
            )
            server = self.serve(self.address.controller.partition(":")[2], controller)
            try:
                yield
            finally:
                self.world.end()
                controller.finish(within_s=END_S)
                server.close()
                chaos.close()

    def pids_of(self, driver: Driver) -> list[int]:
        return [self.pid_of(driver)]

    def driver_started(self, driver: Driver) -> None:
        self.world.driver_started(self.pid_of(driver))

    def driver_ended(self, driver: Driver) -> None:
        self.world.driver_ended(self.pid_of(driver))

    def driver_wanted(self) -> bool:
        return self.world.driver_wanted()

    def may_have_saved(self) -> bool:
        """Return whether the first save is there, or the job has trained on from its place."""
        file = self.directory.path / "saves" / FIRST_SAVE
        # Ray Train hands out what was committed, whatever the arguments are.
        if not self.plan.job.facts.lacks_part("reports") or not file.is_file():
            return True
        first = FirstSave.model_validate_json(file.read_bytes())
        path = os.path.join(self.plan.cwd, first.path)  # noqa: PTH118 - as the job names it
        if is_of_a_node(path) or DRAWN_NAME.search(path):
            return True  # a name of that run alone
        is_there = bool(seen_in(self.view, os.path.lexists, path))
        return is_there or has_passed(first, self.seen())

    def take_stacks(self, driver: Driver) -> None:
        drivers = [(pid, None, name) for pid, name in self.stacks_of(driver)]
        ranks = [(e.pid, e.rank, rank_stacks(e.rank, e.pid)) for e in self.last_workers()]
        for pid, rank, name in [*drivers, *ranks]:
            # A process that has not come to its first line has no file, and would end.
            if (self.directory.logs / name).exists() and psutil.pid_exists(pid):
                os.kill(pid, STACK_SIGNAL)
                self.journal.add(StackTaken(pid=pid, rank=rank, path=f"logs/{name}"))
        self.clock.sleep(STACKS_S)

    def clean_up(self) -> None:
        # The body comes first, then the callbacks from the last to the first; each step is taken,
        # even if one before it raises.
        with contextlib.ExitStack() as closing:
            closing.callback(remove_disks, self.address, self.view)
            for end in self.ends_after():
                closing.callback(end)
            leftovers, files = self._end_leftovers(), list[AnyEvent]()
            if (confines := self.confines) is not None:  # no process is left that could write
                files += [] if self.plan.ops else self._unsynced()
                # Before anything is recorded, which a full disk may have no room for.
                files += settle(self.address, confines, self.view, before=self._folder)
            for leftover in leftovers:
                self.journal.add(leftover)
            places = ("processes", *self.search_storage())
            for event in (LeftoversSearched(places=places), *files):
                self.journal.add(event)

    def _look_at_folder(self) -> FolderLook | None:
        """Look at the working folder, as far as a run may leave files there."""
        if self.confines is None:
            return None
        folder, left_out = os.path.realpath(self.plan.cwd), os.path.realpath(self.confines.folder)
        return seen_in(self.view, FolderLook.at, folder, left_out=left_out)

    def _unsynced(self) -> list[FilesUnsynced]:
        each = disks(self.address, self.tiers)
        found = {path for disk in each for path in seen_in(self.view, disk.unsynced)}
        return [FilesUnsynced(paths=tuple(sorted(found)))] if found else []

    def _end_leftovers(self) -> list[Leftover]:
        """Wait a little for the run's processes to end; end, and return, those that do not."""
        start, leftovers = self.clock.now_ns(), list[Leftover]()
        while (left := self.descendants()) and seconds_since(start, self.clock) < END_S:
            self.clock.sleep(POLL_S)
        for process in left:
            with contextlib.suppress(psutil.Error):  # it may end with another of its group
                what = f"pid {process.pid}: {command_of(process)}"
                leftovers.append(Leftover(kind="process", what=what))
                kill(process)
        return leftovers

    def errors_of(self, attempt: int) -> dict[int, str]:
        """Return what ended each rank of an attempt, where that was seen."""
        ends = [e for e in self.seen() if isinstance(e, TrainFnEnded) and e.attempt == attempt]
        found = {event.rank: event.error for event in ends if event.error}
        ranks = (event for event in self.workers() if event.attempt == attempt)
        struck = {e.rank: "ended by a fault" for e in ranks if e.pid in self.world.signalled}
        return {**struck, **found}

    def is_struck(self, attempt: int) -> bool:
        """Return whether a fault was injected into an attempt."""
        return any(isinstance(e, FaultInvoked) and e.attempt == attempt for e in self.seen())

    def descendants(self) -> list[psutil.Process]:
        """Return the processes that are left: those that carry the run's token."""
        return with_variable(TOKEN_ENV, self.address.token)

    @property
    def confines(self) -> Confines | None:
        """The folders in which the run's processes may write; None if nothing is forbidden."""
        return confines_in(self.plan, self.directory.path)

    # -- filled in by a launcher -----------------------------------------------------------

    @abstractmethod
    def make_world(self, armed: ArmedFaults, disk_of: Callable[[str], NodeDisk]) -> World:
        """Make the world that faults act in."""

    def serve(self, name: str, controller: ChaosController) -> GateServer:
        return GateServer(name, controller, self.world)

    @abstractmethod
    def pid_of(self, driver: Driver) -> int:
        """Return the pid of a driver."""

    @abstractmethod
    def stacks_of(self, driver: Driver) -> list[tuple[int, str]]:
        """Return the pids of a driver's processes, each with the name of its file of stacks."""

    def storage_after(self, op: int) -> StorageSeen | None:
        """Return the content of storage once an op has injected its fault."""
        del op
        return None

    def search_storage(self) -> tuple[str, ...]:
        """Record what is left in storage; return the places that were searched."""
        return ()

    def ends_after(self) -> list[Callable[[], object]]:
        """Return what ends the helpers of the run, the last one first."""
        return []
