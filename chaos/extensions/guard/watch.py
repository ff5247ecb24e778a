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
from chaos.extensions.guard.content import TensorContent, collect_tensors, is_dense, match_tensors
from chaos.extensions.guard.files import (
    SLURM_TASKS,
    GuardedFiles,
    find_launcher,
    find_library_versions,
    measure_file,
)
from chaos.extensions.guard.folder import GuardFolder, StepTrail
from chaos.extensions.guard.judge import RankEntry
from chaos.extensions.guard.loaders import LoaderPasses
from chaos.extensions.guard.process import COPIED, GuardedCommand, GuardPolicy, write_line
from chaos.extensions.guard.records import (
    LOSSES_KEPT,
    TRAIL_STEPS,
    Files,
    GuardedStart,
    RankSave,
    RankStep,
)
from chaos.extensions.guard.restart import RestartJudge
from chaos.extensions.guard.startups import TOGETHER_S, StartupRecorder, describe_startup
from chaos.extensions.guard.steps import name_salt, salt_step
from chaos.extensions.guard.unwatched import UnwatchedTraining
from chaos.model.event import Component, Inputs
from chaos.model.paths import is_in_folder
from chaos.model.places import TrainingPlace
from chaos.probe.cursor import Cursor, Recorder
from chaos.probe.import_hooks import call_after_import
from chaos.probe.libraries import MODULES
from chaos.probe.state.components import build_name, take_buffer_parts, take_generator_parts
from chaos.probe.state.files import watch_files, watch_libraries
from chaos.probe.state.inputs import InputWindow, ModuleCall, Owner, StepInputs, leave_transforms
from chaos.probe.state.part import UnreadComponent
from chaos.probe.state.roots import RootModules
from chaos.probe.state.watch import StateWatch, find_kind
from chaos.probe.steps import StepHook
from chaos.probe.training_listener import Losses, TrainingListener
from chaos.run.clock import SystemClock

NEVER = sys.maxsize
FAILURES_MAX = 3  # after which a rank is watched no more: each may cost as much as a step
HALF = 0.5  # of the trained elements: a file with fewer is no save of the training


class GuardedRank(TrainingListener):
    """The guard of this process, if that turns out to train: a rank is known at its first step."""

    def __init__(
        self,
        folder: GuardFolder,
        policy: GuardPolicy,
        command: GuardedCommand | None = None,
        *,
        report_failure: Callable[[str, Exception], None],
    ) -> None:
        self._folder, self._policy, self._report_failure = folder, policy, report_failure
        self._command = command
        self._clock, self._pid = SystemClock(), os.getpid()
        self._began_s = self._query_clock()
        self._state = StateWatch(
            Recorder(Cursor(0, 0, 0), _ignore_event, report_failure), sample_steps=NEVER
        )
        self._roots = RootModules(self, report_failure)
        self._inputs, self._passes = InputWindow(), LoaderPasses()
        self._pass_begin_steps = set[
            int
        ]()  # steps with the first batch of a pass, until they are written
        self._files = GuardedFiles(self, self._count_failure)
        self._steps = StepHook(self, self, self._count_failure)
        self._startup = StartupRecorder(folder, command or GuardedCommand.from_process(), find_rank)
        self._unwatched = UnwatchedTraining(self._report_unwatched)
        self._failures = 0
        self._restart: RestartJudge | None = None
        self._trail: StepTrail | None = None
        self._losses: list[float] = []
        self._step_number, self._salt = 0, b""  # of the folder, from the first step on
        #: buffers and generators before the first call of the model since a save, or a start
        self._call_parts: tuple[UnreadComponent, ...] | None = None
        self._call_load_count = 0  # files read when it was taken
        self._open_save: RankSave | None = None  # the last one, until the next step begins
        self._latest_save: RankSave | None = None
        self._training_thread: threading.Thread | None = None  # which trains
        #: optimizer steps begun so far, and whether one is under way: the state changes
        self._begun_step_count, self._is_in_step = 0, False
        #: files with models since the last optimizer step, its number, and what they hold
        self._pieces: tuple[int, list[Path], dict[int, str]] = 0, [], {}

    def install(self) -> None:
        """Watch torch from now on."""
        self._state.install(self._roots)
        self._roots.watch(lambda: self._state.state_objects.list_objects("ema"))
        self._steps.install()
        self._passes.install()
        watch_files(self._files)
        call_after_import(MODULES, lambda _: watch_libraries(self._files))
        sys.addaudithook(self._on_audit_event)

    def finish(self) -> None:
        """Write what is still open, as the process ends."""
        if self._is_off:
            return
        self._steps.resolve_pending()
        if self._restart is None and (startup := self._startup.record_end(self._began_s)):
            write_line(f"rank {startup.rank}: ended {describe_startup(startup)}")
        # Python sets it to the exception that ends a process (3.11, `sys.last_value`).
        if self._open_save is not None and getattr(sys, "last_value", None) is None:
            finished_save = _add_files(self._open_save, self._files.take_buffer_files())
            self._folder.write_save(
                _replace_fields(finished_save, is_past=self._is_finished(finished_save))
            )
        else:
            self._finish_latest()
        if self._restart is not None:
            self._restart.finish()
        if self._trail is not None:
            self._trail.flush()

    # -- steps -----------------------------------------------------------------------------

    def model_called(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], owner: Owner
    ) -> ModuleCall | None:
        if self._is_off:
            return None
        is_first = self._restart is None
        if is_first:
            self._training_thread = threading.current_thread()
            self._look_for_training()
        is_old = self._call_parts is None or (
            is_first and self._files.load_count != self._call_load_count
        )
        if (is_first or self._open_save is not None) and is_old:
            with leave_transforms():
                self._call_parts = (
                    *take_buffer_parts(self._roots.list_roots(), full=True),
                    *take_generator_parts(),
                )
            self._call_load_count = self._files.load_count
        return self._inputs.add_call(args, kwargs, owner)

    def step_begins(self, optimizer: Any) -> None:  # see `find_kind`
        if self._is_off:
            return
        self._begun_step_count, self._is_in_step = self._begun_step_count + 1, True
        self._state.state_objects.add_object(find_kind(optimizer), optimizer)
        buffer_files = self._files.take_buffer_files()  # of no save of training as well
        self._stop_if_decided()
        if self._restart is None:
            self._training_thread = self._training_thread or threading.current_thread()
            self._begin_training()
        elif self._open_save is not None:
            finished_save = _add_files(self._open_save, buffer_files)
            self._latest_save = _replace_fields(
                finished_save,
                entered=self._take_parts(is_entry=True),
                is_past=self._is_finished(finished_save),
            )
            self._folder.write_save(self._latest_save)
            self._open_save = None
        self._call_parts = None
        if self._restart is not None and not self._restart.is_done:
            self._restart.add_move(self._step_number + 1, self._find_optimizer_name(optimizer))

    def _stop_if_decided(self) -> None:
        """Stop if the steps so far show that a part which came back otherwise moves the losses."""
        if self._restart is None:
            return
        if self._restart.has_undecided_findings:
            self._steps.resolve_pending()
        mismatch = self._restart.take_late_mismatch()
        if mismatch and self._policy.stops:
            raise ResumeMismatchError(mismatch)

    def _find_optimizer_name(self, optimizer: Any) -> str:
        """Return the name that an optimizer has in the state; empty if it has none."""
        numbered_optimizers = enumerate(self._state.list_optimizers())
        return next(
            (
                build_name("optimizer", index)
                for index, candidate in numbered_optimizers
                if candidate is optimizer
            ),
            "",
        )

    def step_done(self, losses: Losses | None, inputs: Inputs | None) -> TrainingPlace:
        self._is_in_step = False
        self._step_number += 1
        if self._passes.has_new_pass():
            self._pass_begin_steps.add(self._step_number)
        if self._roots.is_searching:
            self._roots.count_searched_step(self._state.list_optimizers())
        if losses is not None:
            self.losses_resolved(0, self._step_number, losses, inputs)
        return TrainingPlace(0, self._step_number)

    def losses_resolved(self, epoch: int, step: int, losses: Losses, inputs: Inputs | None) -> None:
        del epoch
        if self._is_off:
            return
        numbers = [loss for loss in losses if isinstance(loss, float)]
        loss = sum(numbers) if len(numbers) == len(losses) and numbers else None
        samples = (inputs.samples if inputs is not None else None) or ""
        digest = inputs.digest if inputs is not None else ""
        salted_step = salt_step(
            RankStep(step, loss, digest, samples, step in self._pass_begin_steps), self._salt
        )
        self._pass_begin_steps.discard(step)
        if loss is not None:
            self._losses = [*self._losses[-LOSSES_KEPT + 1 :], loss]
        if self._trail is None or self._trail.steps >= TRAIL_STEPS:
            self._begin_trail(step)
        assert self._trail is not None
        self._trail.add(salted_step)
        if self._restart is not None:
            self._restart.add_step(salted_step)

    def close_inputs(self) -> StepInputs:
        return self._inputs.close_window(self._state.list_optimizers, 0)

    def window_dropped(self) -> None:
        self._inputs.drop_calls()

    def list_optimizers(self) -> list[Any]:
        return self._state.list_optimizers()

    def _look_for_training(self) -> None:
        """Look for one without torch's optimizers, each time a backward pass was made."""
        if self._steps.has_trained and not self._unwatched.has_finished:
            self._steps.has_trained = False
            self._unwatched.compare_parameters(self._roots.list_roots())

    def _report_unwatched(self) -> None:
        reason = "its parameters change, and no optimizer of torch.optim makes a step"
        write_line(f"rank {find_rank()[0]}: this training is not watched: {reason}")

    # -- the start -------------------------------------------------------------------------

    def _begin_training(self) -> None:
        self._files.is_before_training = False
        rank, ranks = find_rank()
        self._salt = self._folder.ensure_salt()
        number = find_start_number(rank, ranks, self._began_s, self._folder.load_starts())
        command = self._command or GuardedCommand.from_process()
        parts, loads = self._take_parts(is_entry=True), tuple(self._files.loads)
        entry = RankEntry(
            rank, ranks, parts, loads, has_private_generators=self._passes.has_private_generators
        )
        start = GuardedStart(
            start=number,
            rank=rank,
            ranks=ranks,
            began_s=self._began_s,
            host=socket.gethostname(),
            pid=os.getpid(),
            command=command.words,
            cwd=command.cwd,
            run=command.run,
            given=command.checkpoint,
            launcher=find_launcher(),
            versions=find_library_versions(),
            step=0,
            salt=name_salt(self._salt),
            accepts=tuple(sorted(self._policy.accepted_subjects)),
            entered=entry.parts,
        )
        self._folder.write_start(start)  # at once: other ranks may have to add it to their own
        self._startup.remove_record()
        self._restart = RestartJudge(self._folder, entry, start, self._policy.accepted_subjects)
        self._step_number = self._restart.step
        if self._step_number:
            self._folder.write_start(msgspec.structs.replace(start, step=self._step_number))
        mismatch = self._restart.begin(first_step_s=self._query_clock() - self._began_s)
        if mismatch and self._policy.stops:
            raise ResumeMismatchError(mismatch)

    def _begin_trail(self, step: int) -> None:
        if self._trail is not None:
            self._trail.flush()
        assert self._restart is not None
        self._trail = self._folder.begin_trail(self._restart.rank, self._restart.start, step)

    # -- saves -----------------------------------------------------------------------------

    def save_ends(self, files: Sequence[Path], value: Any) -> None:
        restart = self._restart
        if restart is None or self._is_off or os.getpid() != self._pid:
            return
        is_background = threading.current_thread() is not self._training_thread
        if is_background and (value is None or self._is_in_step):
            return
        begin_count, trained_tensors = self._begun_step_count, self._list_trained_tensors()
        content = None if value is None else collect_tensors(value)
        held_hashes = {} if content is None else match_tensors(content, trained_tensors)
        if not is_background:
            files, held_hashes = self._add_pieces(files, held_hashes)
        tensors = (
            tuple(sorted(set(held_hashes.values())))
            if trained_tensors and len(held_hashes) == len(trained_tensors)
            else ()
        )
        if content is not None and not (
            tensors or self._is_training_save(content, trained_tensors)
        ):
            return
        current_save = self._latest_save if is_background else self._open_save
        if current_save is None or current_save.step != self._step_number:
            self._finish_latest()
            current_save = self._build_save(restart)
        save = _replace_fields(
            current_save,
            files=current_save.files | {str(path): measure_file(path) for path in files},
            has_optimizer=current_save.has_optimizer or content is None or content.has_optimizer,
            is_live=current_save.is_live
            or bool(tensors)
            or _must_be_live(content, trained_tensors),
            tensors=current_save.tensors or tensors,
        )
        if is_background:
            self._record_background_save(save, tensors, begin_count)
            return
        self._open_save = self._latest_save = save
        self._folder.write_save(save)
        if self._trail is not None:
            self._trail.flush()

    def _add_pieces(
        self, files: Sequence[Path], held_hashes: dict[int, str]
    ) -> tuple[Sequence[Path], dict[int, str]]:
        """Add what was saved since the last step: some jobs save each model to its own file."""
        if self._pieces[0] != self._begun_step_count:
            self._pieces = self._begun_step_count, [], {}
        _, step_files, known_hashes = self._pieces
        if held_hashes.keys() <= known_hashes.keys():
            return files, held_hashes
        step_files += files
        known_hashes |= held_hashes
        return step_files, known_hashes

    def _record_background_save(
        self, save: RankSave, tensors: tuple[str, ...], begin_count: int
    ) -> None:
        """Keep a save that a thread made beside training, if no step came since it was taken.

        Whatever comes next in training was under way already, so no next step is compared.
        """
        if tensors and begin_count == self._begun_step_count:
            self._latest_save = save
            self._folder.write_save(save)

    def _is_finished(self, save: RankSave) -> bool:
        """Return whether a save was over as the process went on."""
        return self._files.background_folders.isdisjoint(map(Path, save.files))

    def _finish_latest(self) -> None:
        """Look again at a sharded save, which may have been made while training went on."""
        if (
            self._latest_save is not None
            and (finished_save := _add_files(self._latest_save)) != self._latest_save
        ):
            self._folder.write_save(finished_save)

    def _build_save(self, restart: RestartJudge) -> RankSave:
        """Return a save of the state as it is, of no file yet."""
        if threading.current_thread() is self._training_thread:
            self._steps.resolve_pending()
        return RankSave(
            start=restart.start,
            rank=restart.rank,
            ranks=restart.ranks,
            step=self._step_number,
            at_s=self._query_clock(),
            files={},
            has_optimizer=False,
            is_live=False,
            tensors=(),
            made=(
                *self._take_parts(is_entry=False),
                *(part.build_component() for part in take_generator_parts()),
            ),
            losses=tuple(self._losses),
        )

    def call_unhooked(self, call: Callable[[], Any]) -> Any:
        return self._roots.call_unhooked(call)

    def load_begins(self, path: Path) -> None:
        if self._restart is None and not self._is_off and os.getpid() == self._pid:
            self._startup.record_reading(path, self._began_s)

    def _on_audit_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Follow what becomes of the last save.

        It is often renamed once it is whole, and what was saved into a buffer is written to a file.
        """
        latest_save = self._latest_save
        if event not in ("open", "os.rename", COPIED) or latest_save is None:
            return
        if self._is_off or os.getpid() != self._pid:
            return
        try:
            if event == "open":
                if _is_writing(*arguments):
                    self._files.record_opening(_resolve_path(arguments[0]))
            else:
                old_path, new_path = map(_resolve_path, arguments[:2])
                self._record_renaming(latest_save, old_path, new_path, is_copy=event == COPIED)
        except Exception as error:  # noqa: BLE001 - must not fail the user's call
            self._count_failure(event, error)

    def _record_renaming(
        self, latest_save: RankSave, old_path: str, new_path: str, *, is_copy: bool
    ) -> None:
        self._files.record_renaming(old_path, new_path)
        files = dict[str, tuple[int, int]]()
        for path, facts in latest_save.files.items():
            moved_path = (
                new_path + path.removeprefix(old_path) if is_in_folder(path, old_path) else path
            )
            # A copy has a time of its own.
            files[moved_path] = (
                measure_file(Path(moved_path)) if is_copy and moved_path != path else facts
            )
        if files != latest_save.files and self._latest_save is latest_save:  # none began meanwhile
            self._latest_save = _replace_fields(latest_save, files=files)
            if self._open_save is not None:
                self._open_save = self._latest_save
            self._folder.write_save(self._latest_save)

    def _is_training_save(self, content: TensorContent, trained_tensors: Sequence[Any]) -> bool:
        return content.element_count >= HALF * sum(
            int(tensor.numel()) for tensor in trained_tensors
        )

    # -- inside ----------------------------------------------------------------------------

    @property
    def _is_off(self) -> bool:
        return self._failures >= FAILURES_MAX

    def _count_failure(self, site: str, error: Exception) -> None:
        """Count a failure of the guard's own, such as a full disk; a few of them end it."""
        self._failures += 1
        self._report_failure(site, error)

    def _query_clock(self) -> float:
        return self._clock.wall_ns() / 1e9

    def _list_trained_tensors(self) -> list[Any]:
        groups = (
            group for optimizer in self._state.list_optimizers() for group in optimizer.param_groups
        )
        return list({id(p): p for group in groups for p in group["params"]}.values())

    def _take_parts(self, *, is_entry: bool) -> tuple[Component, ...]:
        """Return the state: as a step begins, with what was there before the model was called."""
        parts = [part for part in self._state.take_parts("entered") if not _is_call_part(part)]
        if is_entry:
            parts += self._call_parts or ()
        return tuple(part.build_component() for part in parts)


def _must_be_live(content: TensorContent | None, trained_tensors: Sequence[Any]) -> bool:
    """Return whether a save has to be taken for what is trained: shards are not looked at."""
    return content is None or not all(map(is_dense, trained_tensors))


def _is_call_part(part: UnreadComponent) -> bool:
    return part.name.startswith(("model.buffers", "rng."))


def _replace_fields(save: RankSave, **changes: Any) -> RankSave:
    return msgspec.structs.replace(save, **changes)


def find_start_number(
    rank: int, ranks: int, began_s: float, earlier_starts: Sequence[GuardedStart]
) -> int:
    """Return the number of a rank's start: that of the ranks that begin with it, or the next.

    Ranks of one start begin within `TOGETHER_S`.
    """
    rank_number = max((start.start for start in earlier_starts if start.rank == rank), default=-1)
    joint_numbers = [
        start.start
        for start in earlier_starts
        if start.start > rank_number
        and start.ranks == ranks
        and abs(start.began_s - began_s) < TOGETHER_S
    ]
    return max(joint_numbers or [max((start.start for start in earlier_starts), default=-1) + 1])


def _add_files(save: RankSave, added_files: Files | None = None) -> RankSave:
    """Return a save with more files, and the facts of its folders now: they came as it began."""
    folders = {path: measure_file(Path(path)) for path in save.files if Path(path).is_dir()}
    return _replace_fields(save, files=save.files | folders | (added_files or {}))


def _is_writing(path: object, _: object, flags: int) -> bool:
    return isinstance(path, str | bytes) and bool(flags & (os.O_WRONLY | os.O_RDWR))


def _resolve_path(path: str | bytes) -> str:
    return os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - links stay links


def _ignore_event(_: object) -> None:
    """Take an event of the watch that a guard has no use for."""


def find_rank() -> tuple[int, int]:
    """Return this rank and the number of ranks: those of torch's group, else of the launcher."""
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    for rank, ranks in (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", SLURM_TASKS)):
        if rank in os.environ and ranks in os.environ:
            return int(os.environ[rank]), int(os.environ[ranks])
    return 0, 1
