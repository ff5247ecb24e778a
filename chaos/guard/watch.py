"""One guarded rank: its state at saves and restarts, and its steps."""

import os
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from chaos.errors import ResumeMismatchError
from chaos.guard.content import Content, content_of, held_in, is_dense
from chaos.guard.files import SLURM_TASKS, GuardedFiles, facts_of, launcher, versions
from chaos.guard.folder import Folder, Trail
from chaos.guard.judge import Entry
from chaos.guard.loaders import LoaderPasses
from chaos.guard.process import COPIED, Command, Use, say
from chaos.guard.records import LOSSES_KEPT, TRAIL_STEPS, Files, Save, Start, Step
from chaos.guard.restart import Restarted
from chaos.guard.startups import TOGETHER_S, OwnStartup, describe_startup
from chaos.guard.steps import name_of, salted
from chaos.guard.unwatched import UnwatchedTraining
from chaos.model.event import Component, Inputs
from chaos.model.paths import is_below
from chaos.model.places import Place
from chaos.probe.cursor import Cursor, Recorder
from chaos.probe.imported import once_imported
from chaos.probe.libraries import MODULES
from chaos.probe.state.components import buffer_parts, numbered, rng_parts
from chaos.probe.state.files import watch_files, watch_libraries
from chaos.probe.state.gradients import mark_of, versions_of, waiting
from chaos.probe.state.inputs import Call, Given, InputWindow, outside_of_transforms
from chaos.probe.state.part import UnreadPart
from chaos.probe.state.roots import Owner, Roots
from chaos.probe.state.watch import StateWatch, kind_of
from chaos.probe.steps import Losses, StepHook
from chaos.run.clock import SystemClock

NEVER = sys.maxsize
FAILURES_MAX = 3  # after which a rank is watched no more: each may cost as much as a step
HALF = 0.5  # of the trained elements: a file with fewer is no save of the training


class GuardedRank:
    """The guard of this process, if that turns out to train: a rank is known at its first step."""

    def __init__(
        self,
        folder: Folder,
        use: Use,
        command: Command | None = None,
        *,
        failed: Callable[[str, Exception], None],
    ) -> None:
        self._folder, self._use, self._failed = folder, use, failed
        self._command = command
        self._clock, self._pid = SystemClock(), os.getpid()
        self._began_s = self._now_s()
        self._state = StateWatch(Recorder(Cursor(0, 0, 0), _nowhere, failed), every=NEVER)
        self._roots = Roots(self._called, lambda: None, failed)
        self._inputs, self._passes = InputWindow(), LoaderPasses()
        self._firsts = set[int]()  # steps with the first batch of a pass, until they are written
        self._files = GuardedFiles(self._saved, self._broke)
        self._files.without_hooks = self._roots.without_hooks
        self._steps = StepHook(
            self._step_done,
            self._resolved,
            self._broke,
            step_begins=self._step_begins,
            given=self._close_inputs,
        )
        self._startup = OwnStartup(folder, command or Command.own(), seat)
        self._unwatched = UnwatchedTraining(self._is_unwatched)
        self._failures = 0
        self._restart: Restarted | None = None
        self._trail: Trail | None = None
        self._losses: list[float] = []
        self._number, self._salt = 0, b""  # of the folder, from the first step on
        #: buffers and generators before the first call of the model since a save, or a start
        self._head: tuple[UnreadPart, ...] | None = None
        self._head_after = 0  # files read when it was taken
        self._save: Save | None = None  # the last one, until the next step begins
        self._latest: Save | None = None
        self._thread: threading.Thread | None = None  # which trains
        #: optimizer steps begun so far, and whether one is under way: the state changes
        self._begun, self._is_moving = 0, False
        #: files with models since the last optimizer step, its number, and what they hold
        self._pieces: tuple[int, list[Path], dict[int, str]] = 0, [], {}

    def install(self) -> None:
        """Watch torch from now on."""
        self._state.install(self._roots)
        self._roots.watch(lambda: self._state.found.all("ema"))
        optimizers = self._state.optimizers
        self._steps.has_gradients = lambda: any(waiting(optimizers()))
        self._steps.versions = lambda: versions_of(optimizers())
        self._steps.gradient_mark = lambda: mark_of(optimizers())
        self._steps.drop_inputs = self._inputs.drop
        self._steps.install()
        self._passes.install()
        self._files.begins_to_read = self._begins_to_read
        watch_files(self._files)
        once_imported(MODULES, lambda _: watch_libraries(self._files))
        sys.addaudithook(self._audited)

    def ended(self) -> None:
        """Write what is still open, as the process ends."""
        if self._is_off:
            return
        self._steps.read_pending()
        if self._restart is None and (end := self._startup.ended(self._began_s)):
            say(f"rank {end.rank}: ended {describe_startup(end)}")
        # Python sets it to the exception that ends a process (3.11, `sys.last_value`).
        if self._save is not None and getattr(sys, "last_value", None) is None:
            made = _with_files(self._save, self._files.of_buffers())
            self._folder.keep_save(_with(made, is_past=self._is_past(made)))
        else:
            self._finish_latest()
        if self._restart is not None:
            self._restart.ended()
        if self._trail is not None:
            self._trail.flush()

    # -- steps -----------------------------------------------------------------------------

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any], owner: Owner) -> Call | None:
        if self._is_off:
            return None
        is_first = self._restart is None
        if is_first:
            self._thread = threading.current_thread()
            self._look_for_training()
        is_old = self._head is None or (is_first and self._files.count != self._head_after)
        if (is_first or self._save is not None) and is_old:
            with outside_of_transforms():
                self._head = (*buffer_parts(self._roots.all(), full=True), *rng_parts())
            self._head_after = self._files.count
        return self._inputs.called(args, kwargs, owner)

    def _step_begins(self, optimizer: Any) -> None:  # see `kind_of`
        if self._is_off:
            return
        self._begun, self._is_moving = self._begun + 1, True
        self._state.found.add(kind_of(optimizer), optimizer)
        written = self._files.of_buffers()  # of no save of training as well
        self._stop_if_decided()
        if self._restart is None:
            self._thread = self._thread or threading.current_thread()
            self._first_step()
        elif self._save is not None:
            made = _with_files(self._save, written)
            self._latest = _with(
                made, entered=self._parts(is_entry=True), is_past=self._is_past(made)
            )
            self._folder.keep_save(self._latest)
            self._save = None
        self._head = None
        if self._restart is not None and not self._restart.is_done:
            self._restart.add_move(self._number + 1, self._name_of(optimizer))

    def _stop_if_decided(self) -> None:
        """Stop if the steps so far show that a part which came back otherwise moves the losses."""
        if self._restart is None:
            return
        if self._restart.is_open:
            self._steps.read_pending()
        wrong = self._restart.late_mismatch()
        if wrong and self._use.stops:
            raise ResumeMismatchError(wrong)

    def _name_of(self, optimizer: Any) -> str:
        """Return the name that an optimizer has in the state; empty if it has none."""
        every = enumerate(self._state.optimizers())
        return next((numbered("optimizer", n) for n, one in every if one is optimizer), "")

    def _step_done(self, losses: Losses | None, inputs: Inputs | None = None) -> Place:
        self._is_moving = False
        self._number += 1
        if self._passes.begins():
            self._firsts.add(self._number)
        if self._roots.is_searching:
            self._roots.searched_a_step(self._state.optimizers())
        if losses is not None:
            self._resolved(0, self._number, losses, inputs)
        return Place(0, self._number)

    def _resolved(self, _: int, step: int, losses: Losses, inputs: Inputs | None = None) -> None:
        if self._is_off:
            return
        numbers = [loss for loss in losses if isinstance(loss, float)]
        loss = sum(numbers) if len(numbers) == len(losses) and numbers else None
        samples = (inputs.samples if inputs is not None else None) or ""
        digest = inputs.digest if inputs is not None else ""
        made = salted(Step(step, loss, digest, samples, step in self._firsts), self._salt)
        self._firsts.discard(step)
        if loss is not None:
            self._losses = [*self._losses[-LOSSES_KEPT + 1 :], loss]
        if self._trail is None or self._trail.steps >= TRAIL_STEPS:
            self._begin_trail(step)
        assert self._trail is not None
        self._trail.add(made)
        if self._restart is not None:
            self._restart.made(made)

    def _close_inputs(self) -> Given:
        return self._inputs.close(self._state.optimizers, 0)

    def _look_for_training(self) -> None:
        """Look for one without torch's optimizers, each time a backward pass was made."""
        if self._steps.has_trained and not self._unwatched.is_over:
            self._steps.has_trained = False
            self._unwatched.look(self._roots.all())

    def _is_unwatched(self) -> None:
        why = "its parameters change, and no optimizer of torch.optim makes a step"
        say(f"rank {seat()[0]}: this training is not watched: {why}")

    # -- the start -------------------------------------------------------------------------

    def _first_step(self) -> None:
        self._files.is_looked_for = False
        rank, ranks = seat()
        self._salt = self._folder.salt()
        number = number_of(rank, ranks, self._began_s, self._folder.starts())
        command = self._command or Command.own()
        parts, loads = self._parts(is_entry=True), tuple(self._files.loads)
        entry = Entry(rank, ranks, parts, loads, draws_apart=self._passes.draws_apart)
        start = Start(
            start=number,
            rank=rank,
            ranks=ranks,
            began_s=self._began_s,
            host=socket.gethostname(),
            pid=os.getpid(),
            command=command.words,
            cwd=command.cwd,
            run=command.run,
            given=command.given,
            launcher=launcher(),
            versions=versions(),
            step=0,
            salt=name_of(self._salt),
            accepts=tuple(sorted(self._use.accepted)),
            entered=entry.parts,
        )
        self._folder.keep_start(start)  # at once: other ranks may have to add it to their own
        self._startup.made_a_step()
        self._restart = Restarted(self._folder, entry, start, self._use.accepted)
        self._number = self._restart.step
        if self._number:
            self._folder.keep_start(msgspec.structs.replace(start, step=self._number))
        wrong = self._restart.begin(first_step_s=self._now_s() - self._began_s)
        if wrong and self._use.stops:
            raise ResumeMismatchError(wrong)

    def _begin_trail(self, step: int) -> None:
        if self._trail is not None:
            self._trail.flush()
        assert self._restart is not None
        self._trail = self._folder.trail(self._restart.rank, self._restart.start, step)

    # -- saves -----------------------------------------------------------------------------

    def _saved(self, files: Sequence[Path], value: Any) -> None:  # None: what it is is not known
        restart = self._restart
        if restart is None or self._is_off or os.getpid() != self._pid:
            return
        is_beside = threading.current_thread() is not self._thread
        if is_beside and (value is None or self._is_moving):
            return
        begun, trained = self._begun, self._trained()
        content = None if value is None else content_of(value)
        held = {} if content is None else held_in(content, trained)
        if not is_beside:
            files, held = self._with_pieces(files, held)
        tensors = tuple(sorted(set(held.values()))) if trained and len(held) == len(trained) else ()
        if content is not None and not (tensors or self._is_of_training(content, trained)):
            return
        known = self._latest if is_beside else self._save
        if known is None or known.step != self._number:
            self._finish_latest()
            known = self._begun_save(restart)
        save = _with(
            known,
            files=known.files | {str(path): facts_of(path) for path in files},
            has_optimizer=known.has_optimizer or content is None or content.has_optimizer,
            is_live=known.is_live or bool(tensors) or _must_be_live(content, trained),
            tensors=known.tensors or tensors,
        )
        if is_beside:
            self._saved_beside(save, tensors, begun)
            return
        self._save = self._latest = save
        self._folder.keep_save(save)
        if self._trail is not None:
            self._trail.flush()

    def _with_pieces(
        self, files: Sequence[Path], held: dict[int, str]
    ) -> tuple[Sequence[Path], dict[int, str]]:
        """Add what was saved since the last step: some jobs save each model to its own file."""
        if self._pieces[0] != self._begun:
            self._pieces = self._begun, [], {}
        _, of_step, known = self._pieces
        if held.keys() <= known.keys():
            return files, held
        of_step += files
        known |= held
        return of_step, known

    def _saved_beside(self, save: Save, tensors: tuple[str, ...], begun: int) -> None:
        """Keep a save that a thread made beside training, if no step came since it was taken.

        Whatever comes next in training was under way already, so no next step is compared.
        """
        if tensors and begun == self._begun:
            self._latest = save
            self._folder.keep_save(save)

    def _is_past(self, save: Save) -> bool:
        """Return whether a save was over as the process went on."""
        return self._files.handed_over.isdisjoint(map(Path, save.files))

    def _finish_latest(self) -> None:
        """Look again at a sharded save, which may have been made while training went on."""
        if self._latest is not None and (made := _with_files(self._latest)) != self._latest:
            self._folder.keep_save(made)

    def _begun_save(self, restart: Restarted) -> Save:
        """Return a save of the state as it is, of no file yet."""
        if threading.current_thread() is self._thread:
            self._steps.read_pending()
        return Save(
            start=restart.start,
            rank=restart.rank,
            ranks=restart.ranks,
            step=self._number,
            at_s=self._now_s(),
            files={},
            has_optimizer=False,
            is_live=False,
            tensors=(),
            made=(*self._parts(is_entry=False), *(part.component() for part in rng_parts())),
            losses=tuple(self._losses),
        )

    def _begins_to_read(self, path: Path) -> None:
        if self._restart is None and not self._is_off and os.getpid() == self._pid:
            self._startup.begins_to_read(path, self._began_s)

    def _audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Follow what becomes of the last save.

        It is often renamed once it is whole, and what was saved into a buffer is written to a file.
        """
        last = self._latest
        if event not in ("open", "os.rename", COPIED) or last is None:
            return
        if self._is_off or os.getpid() != self._pid:
            return
        try:
            if event == "open":
                if _is_written(*arguments):
                    self._files.opened(_absolute(arguments[0]))
            else:
                was, now = map(_absolute, arguments[:2])
                self._renamed(last, was, now, is_copy=event == COPIED)
        except Exception as error:  # noqa: BLE001 - must not fail the user's call
            self._broke(event, error)

    def _renamed(self, last: Save, was: str, now: str, *, is_copy: bool) -> None:
        self._files.renamed(was, now)
        files = dict[str, tuple[int, int]]()
        for path, facts in last.files.items():
            moved = now + path.removeprefix(was) if is_below(path, was) else path
            # A copy has a time of its own.
            files[moved] = facts_of(Path(moved)) if is_copy and moved != path else facts
        if files != last.files and self._latest is last:  # none began meanwhile
            self._latest = _with(last, files=files)
            if self._save is not None:
                self._save = self._latest
            self._folder.keep_save(self._latest)

    def _is_of_training(self, content: Content, trained: Sequence[Any]) -> bool:
        return content.elements >= HALF * sum(int(tensor.numel()) for tensor in trained)

    # -- inside ----------------------------------------------------------------------------

    @property
    def _is_off(self) -> bool:
        return self._failures >= FAILURES_MAX

    def _broke(self, where: str, error: Exception) -> None:
        """Count a failure of the guard's own, such as a full disk; a few of them end it."""
        self._failures += 1
        self._failed(where, error)

    def _now_s(self) -> float:
        return self._clock.wall_ns() / 1e9

    def _trained(self) -> list[Any]:
        groups = (group for one in self._state.optimizers() for group in one.param_groups)
        return list({id(p): p for group in groups for p in group["params"]}.values())

    def _parts(self, *, is_entry: bool) -> tuple[Component, ...]:
        """Return the state: as a step begins, with what was there before the model was called."""
        parts = [part for part in self._state.parts("entered") if not _is_of_head(part)]
        if is_entry:
            parts += self._head or ()
        return tuple(part.component() for part in parts)


def _must_be_live(content: Content | None, trained: Sequence[Any]) -> bool:
    """Return whether a save has to be taken for what is trained: shards are not looked at."""
    return content is None or not all(map(is_dense, trained))


def _is_of_head(part: UnreadPart) -> bool:
    return part.name.startswith(("model.buffers", "rng."))


def _with(save: Save, **changed: Any) -> Save:
    return msgspec.structs.replace(save, **changed)


def number_of(rank: int, ranks: int, began_s: float, before: Sequence[Start]) -> int:
    """Return the number of a rank's start: that of the ranks that begin with it, or the next.

    Ranks of one start begin within `TOGETHER_S`.
    """
    own = max((start.start for start in before if start.rank == rank), default=-1)
    together = [
        start.start
        for start in before
        if start.start > own and start.ranks == ranks and abs(start.began_s - began_s) < TOGETHER_S
    ]
    return max(together or [max((start.start for start in before), default=-1) + 1])


def _with_files(save: Save, more: Files | None = None) -> Save:
    """Return a save with more files, and the facts of its folders now: they came as it began."""
    folders = {path: facts_of(Path(path)) for path in save.files if Path(path).is_dir()}
    return _with(save, files=save.files | folders | (more or {}))


def _is_written(path: object, _: object, flags: int) -> bool:
    return isinstance(path, str | bytes) and bool(flags & (os.O_WRONLY | os.O_RDWR))


def _absolute(path: str | bytes) -> str:
    return os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - links stay links


def _nowhere(_: object) -> None:
    """Take an event of the watch that a guard has no use for."""


def seat() -> tuple[int, int]:
    """Return this rank and the number of ranks: those of torch's group, else of the launcher."""
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    for rank, ranks in (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", SLURM_TASKS)):
        if rank in os.environ and ranks in os.environ:
            return int(os.environ[rank]), int(os.environ[ranks])
    return 0, 1
