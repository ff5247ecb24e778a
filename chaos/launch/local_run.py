"""A run whose processes are all on this host; they ask the chaos controller over a socket."""

import contextlib
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, TypeVar

import psutil

from chaos.declaration import TOKEN_ENV
from chaos.launch.files_outside import clean_outside_files
from chaos.launch.folder_snapshot import FolderSnapshot
from chaos.launch.gate_server import GateServer
from chaos.launch.launched_run import Driver, LaunchedRun
from chaos.launch.node_disk import (
    NodeDisk,
    build_run_confines,
    find_disks,
    remove_disks,
    reserve_short_folder,
)
from chaos.launch.process_world import ProcessWorld
from chaos.launch.world import serve_metadata
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
from chaos.model.paths import TEMPFILE_NAME, is_node_path
from chaos.model.process_end import ENDED_BY_FAULT
from chaos.model.tiers import Tiers
from chaos.plan.first_save import FirstSave, has_passed
from chaos.probe.address import RunAddress
from chaos.probe.write_ledger import WriteLimits
from chaos.processes.tree import describe_command, find_processes_by_variable, kill
from chaos.run.armed_faults import ArmedFaults
from chaos.run.clock import elapsed_seconds
from chaos.run.controller import ChaosController
from chaos.run.directory import FIRST_SAVE
from chaos.run.journal import Journal, TrainingProgress
from chaos.run.ports import LaneFolders, call_in_view
from chaos.run.signals import STACK_SIGNAL, rank_stacks

END_S = 5.0
STACKS_S = 0.5
POLL_S = 0.01

World = TypeVar("World", bound=ProcessWorld)


@dataclass
class LocalRun(LaunchedRun[Driver], Generic[Driver, World]):
    """One run on this host; its nodes are names, or processes, and have disks of their own."""

    #: the view that its processes are in, None for none
    view: LaneFolders | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        token = os.urandom(4).hex()
        self.address = RunAddress(self.directory.path, token, f"unix:chaos-gates-{token}")
        reserve_short_folder(self.address)
        armed = ArmedFaults(self.directory.storage_faults)
        self.tiers = Tiers.from_plan(
            self.plan, str(self.directory.path), normalize=os.path.realpath
        )
        self.world = self.make_world(armed, partial(NodeDisk, self.address, tiers=self.tiers))
        self.world.view = self.view
        self._initial_snapshot = self._capture_folder()

    @contextlib.contextmanager
    def controller(self) -> Iterator[None]:
        """Serve the gates and, where the plan has one, the metadata service."""
        with serve_metadata(self.plan, self.world, self.directory) as variables:
            self.address = replace(self.address, metadata=variables)
            chaos_journal = Journal(
                self.directory.journals, "chaos", role="chaos", clock=self.clock
            )
            has_trained = self.world.has_trained = TrainingProgress(self.directory.journals)
            controller = ChaosController(
                self.plan,
                self.world,
                chaos_journal,
                capture_storage=self.capture_storage,
                has_trained=has_trained,
            )
            server = self.serve(self.address.controller.partition(":")[2], controller)
            try:
                yield
            finally:
                self.world.end()
                controller.finish(within_s=END_S)
                server.close()
                chaos_journal.close()

    def find_pids(self, driver: Driver) -> list[int]:
        return [self.find_pid(driver)]

    def driver_started(self, driver: Driver) -> None:
        self.world.driver_started(self.find_pid(driver))

    def driver_ended(self, driver: Driver) -> None:
        self.world.driver_ended(self.find_pid(driver))

    def take_driver_request(self) -> bool:
        return self.world.take_driver_request()

    def may_have_saved(self) -> bool:
        """Return whether the first save is there, or the job has trained on from its place."""
        file = self.directory.path / "saves" / FIRST_SAVE
        # Ray Train hands out what was committed, whatever the arguments are.
        if self.plan.job.launcher_facts.has_reports or not file.is_file():
            return True
        first_save = FirstSave.model_validate_json(file.read_bytes())
        path = os.path.join(self.plan.cwd, first_save.path)  # noqa: PTH118 - as the job names it
        if is_node_path(path) or TEMPFILE_NAME.search(path):
            return True  # a name of that run alone
        is_there = bool(call_in_view(self.view, os.path.lexists, path))
        return is_there or has_passed(first_save, self.fetch_events())

    def take_stacks(self, driver: Driver) -> None:
        drivers = [(pid, None, name) for pid, name in self.list_stack_files(driver)]
        ranks = [
            (worker.pid, worker.rank, rank_stacks(worker.rank, worker.pid))
            for worker in self.latest_workers()
        ]
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
            for end in self.list_cleanups():
                closing.callback(end)
            leftovers, files = self._end_leftovers(), list[AnyEvent]()
            if (confines := self.confines) is not None:  # no process is left that could write
                files += [] if self.plan.ops else self._find_unsynced()
                # Before anything is recorded, which a full disk may have no room for.
                files += clean_outside_files(
                    self.address, confines, self.view, initial_snapshot=self._initial_snapshot
                )
            for leftover in leftovers:
                self.journal.add(leftover)
            searched_parts = ("processes", *self.search_storage())
            for event in (LeftoversSearched(places=searched_parts), *files):
                self.journal.add(event)

    def _capture_folder(self) -> FolderSnapshot | None:
        """Look at the working folder, as far as a run may leave files there."""
        if self.confines is None:
            return None
        folder, left_out = os.path.realpath(self.plan.cwd), os.path.realpath(self.confines.folder)
        return call_in_view(self.view, FolderSnapshot.from_folder, folder, left_out=left_out)

    def _find_unsynced(self) -> list[FilesUnsynced]:
        node_disks = find_disks(self.address, self.tiers)
        unsynced_paths = {
            path for disk in node_disks for path in call_in_view(self.view, disk.find_unsynced)
        }
        return [FilesUnsynced(paths=tuple(sorted(unsynced_paths)))] if unsynced_paths else []

    def _end_leftovers(self) -> list[Leftover]:
        """Wait a little for the run's processes to end; end, and return, those that do not."""
        start, leftovers = self.clock.now_ns(), list[Leftover]()
        while (remaining := self.descendants()) and elapsed_seconds(start, self.clock) < END_S:
            self.clock.sleep(POLL_S)
        for process in remaining:
            with contextlib.suppress(psutil.Error):  # it may end with another of its group
                description = f"pid {process.pid}: {describe_command(process)}"
                leftovers.append(Leftover(kind="process", name=description))
                kill(process)
        return leftovers

    def find_rank_errors(self, attempt: int) -> dict[int, str]:
        """Return what ended each rank of an attempt, where that was seen."""
        ends = [
            e for e in self.fetch_events() if isinstance(e, TrainFnEnded) and e.attempt == attempt
        ]
        rank_errors = {event.rank: event.error for event in ends if event.error}
        ranks = (event for event in self.workers() if event.attempt == attempt)
        fault_errors = {e.rank: ENDED_BY_FAULT for e in ranks if e.pid in self.world.signalled}
        return {**fault_errors, **rank_errors}

    def has_injected_fault(self, attempt: int) -> bool:
        """Return whether a fault was injected into an attempt."""
        return any(
            isinstance(event, FaultInvoked) and event.attempt == attempt
            for event in self.fetch_events()
        )

    def descendants(self) -> list[psutil.Process]:
        """Return the processes that are left: those that carry the run's token."""
        return find_processes_by_variable(TOKEN_ENV, self.address.token)

    @property
    def confines(self) -> WriteLimits | None:
        """The folders in which the run's processes may write; None if nothing is forbidden."""
        return build_run_confines(self.plan, self.directory.path)

    # -- filled in by a launcher -----------------------------------------------------------

    @abstractmethod
    def make_world(self, armed: ArmedFaults, build_disk: Callable[[str], NodeDisk]) -> World:
        """Make the world that faults act in."""

    def serve(self, name: str, controller: ChaosController) -> GateServer:
        return GateServer(name, controller, self.world)

    @abstractmethod
    def find_pid(self, driver: Driver) -> int:
        """Return the pid of a driver."""

    @abstractmethod
    def list_stack_files(self, driver: Driver) -> list[tuple[int, str]]:
        """Return the pids of a driver's processes, each with the name of its file of stacks."""

    def capture_storage(self, op: int) -> StorageSeen | None:
        """Return the content of storage once an op has injected its fault."""
        del op
        return None

    def search_storage(self) -> tuple[str, ...]:
        """Record what is left in storage; return the places that were searched."""
        return ()

    def list_cleanups(self) -> list[Callable[[], object]]:
        """Return what ends the helpers of the run, the last one first."""
        return []
