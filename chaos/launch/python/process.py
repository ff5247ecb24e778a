"""One process of a command, which watches itself: it may turn out to be a worker.

A script that trains alone is rank 0 from its first line. Where there are more ranks, a process is
one of them from where it joins a process group, however it was started. What it has read before is
looked at then: a checkpoint may be read first.
"""

import atexit
import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from chaos.faults.world import Target
from chaos.launch.child import record_training
from chaos.launch.commands.worker import report_probe_error, start_probe
from chaos.launch.environment import (
    NODE_ENV,
    apply_slurm_env,
    current_start,
)
from chaos.launch.job import is_clean_exit
from chaos.launch.node_disk import build_node_disk
from chaos.probe import write_ledger
from chaos.probe.address import DIRECTORY_ENV, RunAddress
from chaos.probe.import_hooks import call_after_import
from chaos.probe.probe import Probe, Worker
from chaos.run.directory import RunDirectory

COMMAND = Path(__file__).with_name("command.py")
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_SPAWN = "torch.multiprocessing.spawn"


@dataclass(frozen=True)
class RankPosition:
    """The rank of a process, and the number of all ranks."""

    rank: int
    ranks: int


ONLY_RANK = RankPosition(0, 1)


class Process:
    """This process, and all that are forked from it, in one start of the command."""

    def __init__(self, address: RunAddress, *, is_in_slurm: bool, is_alone: bool) -> None:
        self._address = address
        self._is_in_slurm = is_in_slurm  # where a start of the job may be several attempts
        self._is_alone = is_alone  # of several processes, one trains, and it joins no group
        self._node = os.environ[NODE_ENV]
        self._attempt = current_start()
        self._probe: Probe | None = None
        self._position: RankPosition | None = None
        self._pid = 0  # of the worker that this process is: a fork of it is none
        self._opened_files: dict[Path, None] = {}
        self._has_ended = False

    def watch(self) -> None:
        """Watch for the joining of a group, and for the end of what multiprocessing has started."""
        if self._attempt or self._is_in_slurm:
            write_ledger.set_listener(self._record_open)
        call_after_import({"torch.distributed"}, lambda _: self._follow_joins())
        if self._is_alone:
            call_after_import({"torch.optim.optimizer"}, lambda _: self._follow_optimizers())
        self._follow_ends()
        journals = RunDirectory(self._address.directory).journals
        record_training(journals, is_rank=lambda: self._pid == os.getpid())

    def become_rank(self, position: RankPosition) -> None:
        """Be a rank from now on; stop at an op of its attempt's start."""
        is_new_process = self._pid != os.getpid()
        if not is_new_process and position == self._position:
            return
        port = self._address.connect()
        if self._is_in_slurm:
            self._attempt = port.attempt_of(current_start(), position.rank, os.getpid())
        target = Target(self._attempt, position.rank, os.getpid(), self._node)
        port.part_started(self._attempt, position.ranks, {position.rank: target})
        self._position, self._pid = position, os.getpid()
        if not is_new_process:  # it was taken for the only one, and is one of several
            port.began(self._attempt, position.rank)
            return
        self._has_ended = False
        worker = Worker(self._attempt, position.rank, position.ranks, self._node)
        self._probe = start_probe(worker, self._address)
        self._probe.record_early_reads(tuple(self._opened_files))
        self._probe.record_train_fn_start()

    def record_end(self, error: BaseException | None) -> None:
        """Record that a worker has come to its end, once."""
        if self._probe is None or self._pid != os.getpid() or self._has_ended:
            return
        self._has_ended = True
        self._probe.record_train_fn_end(error)

    # -- inside ------------------------------------------------------------------------------

    def _record_open(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Remember a file that is opened to be read, before this process is a rank."""
        if event == "open":
            path, _, flags = arguments
            if not flags & _WRITE_FLAGS and not isinstance(path, int):
                self._opened_files[Path(write_ledger.resolve_event_path(path))] = None

    def _follow_joins(self) -> None:
        """Take the rank that is said to `init_process_group`, under each of its names (torch 2.13).

        Before the ranks meet: a fault may be injected as an attempt begins.
        """
        names = ("", ".distributed_c10d", ".device_mesh")
        modules = [sys.modules.get(f"torch.distributed{name}") for name in names]
        original = getattr(modules[0], "init_process_group", None)
        if original is None:  # torch was built without it
            return

        @functools.wraps(original)
        def init_process_group(*args: Any, **kwargs: Any) -> Any:
            position = self._try_rank(
                lambda: parse_rank_position(original, args, kwargs, os.environ)
            )
            result = original(*args, **kwargs)
            if position is None:  # a backend that knows it by itself, as MPI does
                self._try_rank(lambda: _query_rank_position(modules[0]))
            return result

        for module in modules:
            if getattr(module, "init_process_group", None) is original:
                module.init_process_group = init_process_group  # type: ignore[union-attr]

    def _follow_optimizers(self) -> None:
        """Be rank 0 of one from where this process makes an optimizer: others make none."""
        optimizer = sys.modules["torch.optim.optimizer"].Optimizer
        original = optimizer.__init__

        @functools.wraps(original)
        def create_optimizer(*args: Any, **kwargs: Any) -> None:
            optimizer.__init__ = original
            self._try_rank(lambda: ONLY_RANK)
            original(*args, **kwargs)

        optimizer.__init__ = create_optimizer

    def _try_rank(self, find_position: Callable[[], RankPosition | None]) -> RankPosition | None:
        """Take the rank that is found, if one is; an error of chaos's is no error of the job's."""
        try:
            position = find_position()
            if position is not None:
                self.become_rank(position)
        except Exception as error:  # noqa: BLE001 - the run goes on; it is judged inconclusive
            report_probe_error(error)
            return ONLY_RANK
        return position

    def _follow_ends(self) -> None:
        """Follow the ends of functions in a child, by whatever method it was started."""
        bootstrap = BaseProcess._bootstrap  # type: ignore[attr-defined]  # noqa: SLF001

        @functools.wraps(bootstrap)
        def bootstrap_watched(process: BaseProcess, *args: Any, **kwargs: Any) -> Any:
            process.run = self._watch_function(process.run)  # type: ignore[method-assign]
            return bootstrap(process, *args, **kwargs)

        BaseProcess._bootstrap = bootstrap_watched  # type: ignore[attr-defined]  # noqa: SLF001
        # torch turns what its function raises into an exit code, and SIGINT into a return.
        call_after_import({_SPAWN}, lambda _: self._follow_torch_ends())

    def _follow_torch_ends(self) -> None:
        module = sys.modules[_SPAWN]
        wrap = module._wrap  # noqa: SLF001 - torch 2.13

        @functools.wraps(wrap)
        def wrap_watched(function: Callable[..., Any], *args: Any) -> Any:
            return wrap(self._watch_function(function), *args)

        module._wrap = wrap_watched  # type: ignore[attr-defined]  # noqa: SLF001

    def _watch_function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call_watched(*args: Any) -> Any:
            try:
                result = function(*args)
            except BaseException as error:
                self.record_end(None if is_clean_exit(error) else error)
                raise
            self.record_end(None)
            return result

        return call_watched


def watch_command() -> Process | None:
    """Watch the command's own process, which is rank 0 where there is no other; None: it failed."""
    try:
        address = RunAddress.from_env()
        plan = RunDirectory(address.directory).load_plan()
        process = _start_watch(address)
        if plan.job.workers == 1:
            process.become_rank(ONLY_RANK)
    except Exception as error:  # noqa: BLE001 - the run goes on; it is judged inconclusive
        report_probe_error(error)
        return None
    return process


def watch_child() -> None:
    """Watch a process that the command has started, as its interpreter starts."""
    if DIRECTORY_ENV not in os.environ or str(COMMAND) in sys.orig_argv:
        return
    try:
        process = _start_watch(RunAddress.from_env(), is_in_slurm=apply_slurm_env(), is_child=True)
    except Exception as error:  # noqa: BLE001 - likewise
        report_probe_error(error)
        return
    # A child of multiprocessing tells its end by itself, and any other is a script.
    atexit.register(lambda: process.record_end(getattr(sys, "last_value", None)))


def _start_watch(
    address: RunAddress, *, is_in_slurm: bool = False, is_child: bool = False
) -> Process:
    plan, node = RunDirectory(address.directory).load_plan(), os.environ[NODE_ENV]
    build_node_disk(plan, address, node).use().is_child = is_child
    is_alone = is_in_slurm and (plan.job.workers == 1 or plan.follows_script) and not _has_peers()
    process = Process(address, is_in_slurm=is_in_slurm, is_alone=is_alone)
    process.watch()
    return process


def _has_peers() -> bool:
    """Return whether this process of a step of Slurm's, or torchrun, is one of several."""
    counts = (os.environ.get(name, "1") for name in ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS"))
    return any(count != "1" for count in counts)


def parse_rank_position(
    join: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    env: Mapping[str, str],
) -> RankPosition | None:
    """Return the rank that a call of `init_process_group` states, None if it states none.

    By its arguments, by the address that it is given, or by the environment, as torch looks for
    it.
    """
    arguments = inspect.signature(join).bind(*args, **kwargs).arguments
    method = arguments.get("init_method")
    query = parse_qs(urlsplit(method).query) if isinstance(method, str) else {}
    numbers = []
    for name, variable in (("rank", "RANK"), ("world_size", "WORLD_SIZE")):
        number = arguments.get(name)
        if number is None or int(number) < 0:
            number = query.get(name, [env.get(variable)])[0]
        if number is None:
            return None
        numbers.append(int(number))
    position = RankPosition(*numbers)
    return position if 0 <= position.rank < position.ranks else None


def _query_rank_position(distributed: Any) -> RankPosition:  # torch.distributed
    return RankPosition(distributed.get_rank(), distributed.get_world_size())
